package lambda

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// isolate gives the process a group of its own, so that it can be killed with
// its children and hears no Ctrl-C, and lets the kernel kill it when we die,
// even by SIGKILL. (The signal comes when the thread that started it ends; Go
// ends threads only for locked goroutines that never unlock.)
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// livePeak is the most memory a running process has held, in MB; zero if that
// is not known.
func livePeak(pid int) int {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status") //nolint:gosec // the path is a number
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
	field, _, _ := bytes.Cut(bytes.TrimLeft(after, " \t"), []byte(" "))
	kb, err := strconv.Atoi(string(field))
	if err != nil {
		return 0
	}

	return kb >> 10
}

// exitedPeak is the same of a process that has ended.
func exitedPeak(state *os.ProcessState) int {
	u, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}

	return int(u.Maxrss >> 10)
}
