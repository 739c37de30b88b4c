//go:build unix && !aix && !solaris

package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestOneHolderAtATime(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	first, err := Take(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.WriteString("mine"); err != nil {
		t.Fatal(err)
	}
	if _, err := Take(name); !errors.Is(err, ErrHeld) {
		t.Errorf("while it is held: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Take(name)
	if err != nil {
		t.Fatalf("after it was let go of: %v", err)
	}
	defer func() { _ = second.Close() }()
	if text, err := os.ReadFile(name); string(text) != "mine" || err != nil {
		t.Errorf("taking it left %q, %v of what was in it", text, err)
	}
}

func TestAFileThatCannotBeOpenedIsNotHeld(t *testing.T) {
	t.Parallel()
	_, err := Take(filepath.Join(t.TempDir(), "missing", "lock"))
	if !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrHeld) {
		t.Errorf("%v", err)
	}
}
