//go:build unix && !linux

package lambda

import (
	"os"
	"os/exec"
	"syscall"
)

// isolate gives the process a group of its own, so that it can be killed with
// its children. Here nothing kills it when we die without closing.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// livePeak and exitedPeak are not known here.
func livePeak(int) int { return 0 }

func exitedPeak(*os.ProcessState) int { return 0 }
