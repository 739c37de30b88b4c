package process

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func livePeak(pid int) int {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
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

func exitedPeak(state *os.ProcessState) int {
	u, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return int(u.Maxrss >> 10) // kilobytes on Linux
}
