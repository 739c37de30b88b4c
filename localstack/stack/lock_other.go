//go:build !unix || aix || solaris

package stack

import (
	"errors"
	"os"
)

// lockFile refuses where the standard library has no lock that ends with its
// process: two stacks on one directory would spoil it.
func lockFile(*os.File) error { return errors.ErrUnsupported }
