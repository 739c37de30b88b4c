//go:build !unix

package lambda

import (
	"os"
	"os/exec"
)

// isolate does nothing where there are no process groups.
func isolate(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// livePeak and exitedPeak are not known here.
func livePeak(int) int { return 0 }

func exitedPeak(*os.ProcessState) int { return 0 }
