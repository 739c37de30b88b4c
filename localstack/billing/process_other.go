//go:build !linux

package billing

import "os/exec"

// dieWithParent does nothing: only Linux can tie a child's life to its parent's.
func dieWithParent(*exec.Cmd) {}
