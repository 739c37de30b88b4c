//go:build unix && !linux

package dynamodb

import (
	"os/exec"
	"syscall"
)

// isolate keeps Ctrl-C from the engine, which is stopped in good order instead.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func terminate(cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGTERM) }

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
