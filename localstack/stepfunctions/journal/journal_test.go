package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func fill(t interface {
	Helper()
	Fatal(args ...any)
}, path string, payloads [][]byte,
) {
	t.Helper()
	for i, payload := range payloads {
		write := Append
		if i == 0 {
			write = Create
		}
		if err := write(path, payload); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever part of the last entry a death leaves, the entries before it are
// read, and what is appended after the repair is.
func TestCutFileHoldsTheEntriesBeforeTheCut(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		payloads := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 60), 1, 6).Draw(t, "payloads")
		path := filepath.Join(directory, "j")
		_ = os.Remove(path)
		var ends []int64 // of the file after each entry
		for i := range payloads {
			_ = os.Remove(path)
			fill(t, path, payloads[:i+1])
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, info.Size())
		}
		cut := rapid.Int64Range(0, ends[len(ends)-1]).Draw(t, "cut")
		if err := os.Truncate(path, cut); err != nil {
			t.Fatal(err)
		}
		want := payloads
		for len(want) > 0 && ends[len(want)-1] > cut {
			want = want[:len(want)-1]
		}
		got, whole, err := Read(path)
		if err != nil || !equal(got, want) {
			t.Fatalf("cut at %d: %d entries of %d, %v", cut, len(got), len(want), err)
		}
		if len(want) == 0 {
			return
		}
		if err := errors.Join(Repair(path, whole), Append(path, []byte("more"))); err != nil {
			t.Fatal(err)
		}
		if got, _, err = Read(path); err != nil || !equal(got, append(slices.Clip(want), []byte("more"))) {
			t.Fatalf("after the repair: %q, %v", got, err)
		}
	})
}

func equal(a, b [][]byte) bool {
	return bytes.Equal(bytes.Join(a, []byte("|")), bytes.Join(b, []byte("|"))) && len(a) == len(b)
}

// A changed byte is never taken for an entry, and never for an unfinished one.
func TestAnyChangedByteIsFound(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j")
	fill(t, path, [][]byte{[]byte("first"), []byte("second"), {}})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		changed := bytes.Clone(text)
		changed[i] ^= 0x10
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		want := ErrCorrupt
		if i >= len(magic) && i < len(format) {
			want = ErrVersion
		}
		if _, _, err := Read(path); !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("byte %d: %v, want %v", i, err, want)
		}
	}
}

func TestCreateRefusesAFileThatIsThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j")
	fill(t, path, [][]byte{[]byte("first")})
	if err := Create(path, []byte("other")); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v", err)
	}
	if got, _, err := Read(path); err != nil || string(got[0]) != "first" {
		t.Errorf("%q %v", got, err)
	}
	if err := Append(path+"x", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("appended to nothing: %v", err)
	}
}

func TestDirectoryHasOneOwner(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a [strange] name", "data")
	first, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"x-2", "x-1", "y-1"} {
		fill(t, first.File(name), [][]byte{nil})
	}
	if err := os.WriteFile(filepath.Join(path, "x-note.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := first.Files("x-")
	if err != nil || len(files) != 2 || files[0] != first.File("x-1") || files[1] != first.File("x-2") {
		t.Errorf("%v %v", files, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
