//go:build unix

package process

import (
	"os"
	"syscall"
)

func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

func kill(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }

func hold(pid int) { _ = syscall.Kill(pid, syscall.SIGSTOP) }
