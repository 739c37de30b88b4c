//go:build !unix

package dynamodb

import "os/exec"

func isolate(*exec.Cmd) {}

// terminate kills where there is no SIGTERM.
func terminate(cmd *exec.Cmd) { kill(cmd) }

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
