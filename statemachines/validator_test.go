package statemachines

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// validate asks npm's asl-validator about def and returns its exit code: 0 valid,
// 1 invalid. It skips without the program, and fails in CI.
func validate(t *testing.T, def []byte) (code int, said string) {
	t.Helper()
	program, err := filepath.Abs("../node_modules/.bin/asl-validator")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		const missing = "asl-validator is not installed: run `npm ci` in the repository's root"
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	file := filepath.Join(t.TempDir(), "definition.asl.json")
	if err := os.WriteFile(file, def, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "--json-path", file).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), string(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, string(out)
}

func TestASLValidatorAcceptsTheDefinition(t *testing.T) {
	t.Parallel()
	if code, said := validate(t, substituted(t)); code != 0 {
		t.Errorf("exit %d: %s", code, said)
	}
}

// The validator exits with 0 when it has nothing to do, so it must be seen to
// refuse.
func TestASLValidatorRefusesABrokenDefinition(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string][2]string{
		"a target that isn't there": {`"Next": "CallDone"}`, `"Next": "CallDoen"}`},
		"an unknown field":          {`"ItemsPath"`, `"ItemPath"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := strings.Replace(string(substituted(t)), replace[0], replace[1], 1)
			if code, said := validate(t, []byte(broken)); code != 1 {
				t.Errorf("exit %d, want 1: %s", code, said)
			}
		})
	}
}
