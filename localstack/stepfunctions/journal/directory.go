package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/onceward/onceward/localstack/filelock"
)

// ErrInUse means that a living process holds the directory.
var ErrInUse = errors.New("journal: the directory is in use")

// Directory is a folder of journals that this process alone writes to.
type Directory struct {
	path string
	lock *os.File
}

// Open makes the directory if it is missing and holds it until Close or the
// death of the process. While another holds it the error is ErrInUse.
func Open(path string) (*Directory, error) {
	const onlyOwner = 0o700
	if err := os.MkdirAll(path, onlyOwner); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	lock, err := filelock.Take(filepath.Join(path, "lock"))
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, fmt.Errorf("%w: %s", ErrInUse, path)
	case err != nil:
		return nil, fmt.Errorf("journal: lock %s: %w", path, err)
	}
	return &Directory{path: path, lock: lock}, nil
}

// File is the path of a journal in the directory.
func (d *Directory) File(name string) string { return filepath.Join(d.path, name+suffix) }

// suffix marks the journals among whatever else lies in the directory.
const suffix = ".journal"

// Files are the paths of the journals whose names begin with prefix, in the
// order of their names.
func (d *Directory) Files(prefix string) ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok && strings.HasPrefix(name, prefix) {
			paths = append(paths, d.File(name))
		}
	}
	return paths, nil
}

// Close lets go of the directory.
func (d *Directory) Close() error {
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}
