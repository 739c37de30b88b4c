package stack

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func openClose(t *testing.T, dir, engine string) {
	t.Helper()
	d, err := openData(dir, engine)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func listed(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestDataDirectoryIsMadeForItsOwnerOnlyAndUsedAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	openClose(t, dir, "dynoxide")
	openClose(t, dir, "dynoxide")
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if diff := cmp.Diff([]string{"layout.json", "lock"}, listed(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	openClose(t, open, "dynoxide")
	if info, err := os.Stat(open); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("one that others could read: mode %v, %v", info.Mode(), err)
	}
}

func TestFirstStartThatWasKilledIsBegunAnew(t *testing.T) {
	t.Parallel()
	for _, left := range [][]string{{"lock"}, {"lock", "layout.json.new"}} {
		dir := t.TempDir()
		for _, name := range left {
			write(t, dir, name, "1")
		}
		openClose(t, dir, "dynoxide")
	}
}

func TestDirectoryInUseIsRefusedUntilItIsFree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := openData(dir, "dynoxide")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openData(dir, "dynoxide"); !errors.Is(err, ErrDataInUse) || !strings.Contains(err.Error(), "process ") || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second one: %v", err)
	}
	if err := first.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	openClose(t, dir, "dynoxide")
}

func TestDirectoryThatCannotBeUsedIsRefusedWithWhatToDoAndLeftAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, file, text, engine, says string }{
		{"somebody else's", "thesis.tex", "…", "dynoxide", "choose a directory that is empty"},
		{"a newer layout", "layout.json", `{"layout":2,"engine":"dynoxide"}`, "dynoxide", "newer version"},
		{"no layout", "layout.json", `{"engine":"dynoxide"}`, "dynoxide", "start over"},
		{"torn layout", "layout.json", `{"lay`, "dynoxide", "start over"},
		{"another engine", "layout.json", `{"layout":1,"engine":"dynalite"}`, "dynoxide", "--engine dynalite"},
		{"an engine elsewhere", "layout.json", `{"layout":1,"engine":"external"}`, "dynoxide", "--dynamodb URL"},
		{"no engine elsewhere", "layout.json", `{"layout":1,"engine":"dynoxide"}`, "external", "--dynamodb URL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, c.file, c.text)
			_, err := openData(dir, c.engine)
			if !errors.Is(err, ErrDataLayout) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q in it", err, c.says)
			}
			if text, err := os.ReadFile(filepath.Join(dir, c.file)); err != nil || string(text) != c.text {
				t.Errorf("it holds %q, %v", text, err)
			}
			if c.file != layoutName && len(listed(t, dir)) != 1 {
				t.Errorf("it holds %v", listed(t, dir))
			}
			// The lock is free again.
			if _, err := openData(dir, c.engine); !errors.Is(err, ErrDataLayout) {
				t.Errorf("asked again: %v", err)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openData(file, "dynoxide"); err == nil {
		t.Error("a file was taken for a directory")
	}
}

func TestStackWithoutDataKeepsNothing(t *testing.T) {
	t.Parallel()
	d, err := temporary()
	if err != nil {
		t.Fatal(err)
	}
	if file, err := d.engine("dynoxide"); file != "" || err != nil || d.journal() != "" {
		t.Errorf("engine %q, journal %q, %v", file, d.journal(), err)
	}
	write(t, d.dir, "billing.db", "x")
	if err := d.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory is still there: %v", err)
	}
}

func TestOptionsThatContradictEachOtherAreRefused(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"nothing":         {},
		"two engines":     {Root: "r", Exe: "e", BillingArgs: []string{"b"}, DynamoDB: "http://127.0.0.1:1", Engine: "dynoxide"},
		"negative sweeps": {Root: "r", Exe: "e", BillingArgs: []string{"b"}, SweepEvery: -1},
	} {
		if _, err := Start(t.Context(), o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
