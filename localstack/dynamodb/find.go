package dynamodb

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
)

// Kind names an engine.
type Kind string

const (
	// Dynoxide is one static binary, from npm for Linux on x64 only. It returns
	// the old item of a failed condition and keeps data in one file.
	Dynoxide Kind = "dynoxide"
	// Dynalite runs on Node anywhere. It returns no old item of a failed
	// condition, knows no transactions and keeps data in one directory.
	Dynalite Kind = "dynalite"
)

// Kinds lists the engines, the preferred one first.
func Kinds() []Kind { return []Kind{Dynoxide, Dynalite} }

// ErrNotInstalled means that an engine is missing; its text says what to do.
var ErrNotInstalled = errors.New("dynamodb: no engine installed")

// Program is an installed engine, ready to start.
type Program struct {
	kind Kind
	path string
	args []string
}

// Kind says which engine it is.
func (p Program) Kind() Kind { return p.kind }

// Find returns the best engine that `npm ci` installed under root, the
// directory that holds package.json, or [ErrNotInstalled].
func Find(root string) (Program, error) {
	var errs []error
	for _, kind := range Kinds() {
		p, err := FindKind(root, kind)
		if err == nil {
			return p, nil
		}
		errs = append(errs, err)
	}
	return Program{}, errors.Join(errs...)
}

// FindKind returns one engine if `npm ci` installed it under root, or
// [ErrNotInstalled].
func FindKind(root string, kind Kind) (Program, error) {
	modules := filepath.Join(root, "node_modules")
	switch kind {
	case Dynoxide:
		if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
			return Program{}, notInstalled(kind, fmt.Sprintf("npm serves it for Linux on x64 only, not for %s/%s",
				runtime.GOOS, runtime.GOARCH))
		}
		path := filepath.Join(modules, "@dynoxide", "linux-x64", "dynoxide")
		if _, err := os.Stat(path); err != nil {
			return Program{}, notInstalled(kind, "run `npm ci` in "+root)
		}
		return Program{kind: kind, path: path, args: []string{"serve"}}, nil
	case Dynalite:
		script := filepath.Join(modules, "dynalite", "cli.js")
		if _, err := os.Stat(script); err != nil {
			return Program{}, notInstalled(kind, "run `npm ci` in "+root)
		}
		node, err := exec.LookPath("node")
		if err != nil {
			return Program{}, notInstalled(kind, "it needs Node 20 or later, and `node` is not on PATH")
		}
		return Program{kind: kind, path: node, args: []string{script}}, nil
	}
	return Program{}, fmt.Errorf("dynamodb: unknown engine %q, known are %v", kind, Kinds())
}

func notInstalled(kind Kind, remedy string) error {
	return fmt.Errorf("%w: %s: %s", ErrNotInstalled, kind, remedy)
}

// command gives the arguments to serve on a loopback port, with data in file
// or, if that is empty, in memory.
func (p Program) command(port int, file string) []string {
	args := append([]string{}, p.args...)
	args = append(args, "--host", "127.0.0.1", "--port", strconv.Itoa(port))
	switch p.kind {
	case Dynoxide:
		if file != "" {
			args = append(args, "--db-path", file)
		}
	case Dynalite:
		// It plays AWS's slowness with tables unless told not to.
		args = append(args, "--createTableMs", "0", "--deleteTableMs", "0", "--updateTableMs", "0")
		if file != "" {
			args = append(args, "--path", file)
		}
	}
	return args
}
