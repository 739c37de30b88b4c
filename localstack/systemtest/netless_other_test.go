//go:build !linux

package systemtest

import (
	"os/exec"
	"testing"
)

// demoCommand returns the demo as it runs here: no network can be taken from it.
func demoCommand(t *testing.T) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), program(t), "demo", "--json")
}
