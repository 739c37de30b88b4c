package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestPromisePageIsWhatTheTestsSay(t *testing.T) {
	t.Parallel()
	stored, err := os.ReadFile("../../../docs/promise.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := page(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	if string(stored) != want {
		t.Error("docs/promise.md differs from the tests' tags: run make generate")
	}
}

func TestTagsAreReadOffTheTestsThatTheyStandOn(t *testing.T) {
	t.Parallel()
	text, err := page(fstest.MapFS{"a/b_test.go": {Data: []byte("package a\n\n// It holds.\n// Proves: R1, R2\nfunc TestIt(t *testing.T) {}\n")}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "| [TestIt](../a/b_test.go) |") || !strings.Contains(text, "168 lines are open.") {
		t.Error(text)
	}
	for name, source := range map[string]string{
		"no requirement": "// Proves: R999\nfunc TestIt(t *testing.T) {}\n",
		"unreadable":     "// Proves: R1 and R2\nfunc TestIt(t *testing.T) {}\n",
		"on no test":     "// Proves: R1\nvar x = 1\n",
	} {
		if _, err := page(fstest.MapFS{"a_test.go": {Data: []byte(source)}}); err == nil {
			t.Errorf("%s: passed", name)
		}
	}
}
