package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/middleware/once"
)

const page = "../../../../docs/reference/errors.md"

func TestPageSaysWhatTheTableSays(t *testing.T) {
	t.Parallel()
	var want bytes.Buffer
	if err := write(&want, once.Codes()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("run go generate ./middleware/once:\n%s", diff)
	}
}

func TestGeneratorWritesThePageAndNothingWithoutAName(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "errors.md")
	if err := run([]string{file}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() < 1000 {
		t.Errorf("wrote %v, %v", info, err)
	}
	if run(nil) == nil {
		t.Error("took no file name")
	}
}
