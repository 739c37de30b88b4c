package dynamodb

import (
	"os/exec"
	"syscall"
)

// isolate keeps Ctrl-C from the engine, which is stopped in good order
// instead, and lets the kernel kill it when we die, even by SIGKILL.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func terminate(cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGTERM) }

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
