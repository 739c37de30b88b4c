package main

import (
	"io"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/names"
)

func TestFunctionNamesEverySettingThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := newFunction(t.Context(), func(name string) string {
		return map[string]string{names.EnvTools: `{"find_order": {"function": "f"}}`}[name]
	}, io.Discard)
	for _, want := range []string{names.EnvTable + " is not set", names.EnvTools, "find_order.class"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want it to name %s", err, want)
		}
	}
}

func TestFunctionStartsWithItsSettings(t *testing.T) {
	t.Parallel()
	f, err := newFunction(t.Context(), func(name string) string {
		return map[string]string{names.EnvTable: "t", names.EnvTools: `{"find_order": {"function": "f", "class": "read"}}`}[name]
	}, io.Discard)
	if err != nil || f == nil {
		t.Fatalf("function: %v", err)
	}
	answer, err := f(t.Context(), []byte(`{}`))
	if err != nil || answer.Next != Fail || answer.Failure.Error != "Onceward.BadInput" {
		t.Errorf("an empty request is answered %+v, %v", answer, err)
	}
}
