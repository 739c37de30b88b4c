//go:build !unix

package process

import (
	"errors"
	"os"
	"os/exec"
)

// isolate does nothing where there are no process groups.
func isolate(*exec.Cmd) {}

// terminate kills where there is no SIGTERM.
func terminate(p *os.Process) { _ = p.Kill() }

func killGroup(int) {}

func livePeak(int) int { return 0 }

func exitedPeak(*os.ProcessState) int { return 0 }

func kill(int) {}

func hold(int) {}

func processes() ([]Member, error) { return nil, errors.ErrUnsupported }
