//go:build unix && !linux

package process

import (
	"os"
	"os/exec"
	"syscall"
)

// isolate can't tie the child's life to ours here.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func livePeak(int) int { return 0 }

func exitedPeak(*os.ProcessState) int { return 0 }
