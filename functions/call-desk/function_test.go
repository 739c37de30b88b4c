package main

import (
	"io"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/once"
)

func TestFunctionNamesTheSettingThatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := newFunction(t.Context(), func(string) string { return "" }, io.Discard)
	if err == nil || !strings.Contains(err.Error(), names.EnvTable+" is not set") {
		t.Errorf("err = %v", err)
	}
}

func TestFunctionStartsWithItsSettings(t *testing.T) {
	t.Parallel()
	f, err := newFunction(t.Context(), func(string) string { return "t" }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := f(t.Context(), []byte(`{}`))
	if err != nil || answer.Status != once.Refused || answer.Error.Code == "" {
		t.Errorf("an empty request is answered %+v, %v", answer, err)
	}
}
