// Package filelock holds a file for one process at a time, with a lock that the
// system lets go of when the process ends, however it ends: a killed one leaves
// no trace. It keeps two stacks, and two runners, off one directory. Start with
// [Take].
package filelock

import (
	"errors"
	"os"
)

// ErrHeld means that another open file has the lock, most likely a living
// process's. Nothing was changed.
var ErrHeld = errors.New("filelock: it is held")

// Take opens the file, which it makes if it is missing and of which it changes
// nothing, and locks it for as long as it is open. Other errors than [ErrHeld]
// are the file system's, or [errors.ErrUnsupported] where the standard library
// has no such lock.
func Take(name string) (*os.File, error) {
	const ownerOnly = 0o600
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, ownerOnly)
	if err != nil {
		return nil, err
	}
	if err := lock(file); err != nil {
		_ = file.Close() // nothing was written
		return nil, err
	}
	return file, nil
}
