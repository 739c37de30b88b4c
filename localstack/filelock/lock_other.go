//go:build !unix || aix || solaris

package filelock

import (
	"errors"
	"os"
)

// lock refuses: two processes at one directory would spoil it.
func lock(*os.File) error { return errors.ErrUnsupported }
