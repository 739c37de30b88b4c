package billing

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/onceward/onceward/localstack/process"
)

// Command starts a program that calls [Run], usually the caller's own binary.
type Command struct {
	Exe    string
	Args   []string
	Env    []string  // added to the caller's environment
	Stderr io.Writer // default: the caller's standard error
}

// Process is a billing service in a child process. On Linux it is killed when
// its parent dies. Methods are safe for concurrent use.
type Process struct {
	url   string
	child *process.Process
}

// Start starts the program and waits for its ready line, for as long as ctx
// lasts; the end of ctx afterwards does not stop it. On an error nothing is
// left running.
func (c Command) Start(ctx context.Context) (*Process, error) {
	cmd := exec.Command(c.Exe, c.Args...) //nolint:noctx // the caller names its own binary, and the process outlives ctx
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stderr = c.Stderr
	if c.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	child, url, err := process.StartReady(ctx, cmd, ReadyPrefix)
	if err != nil {
		return nil, fmt.Errorf("billing: starting: %w", err)
	}
	return &Process{url: url, child: child}, nil
}

// URL is the base URL that the service announced.
func (p *Process) URL() string { return p.url }

// Exited is closed once the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.child.Exited() }

// Stop asks the process to end and waits; when ctx ends first it is killed.
// The error says how the process ended, nil for a clean exit.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.child.Stop(ctx); err != nil {
		return fmt.Errorf("billing: stopping: %w", err)
	}
	return nil
}

// Kill ends the process at once, as a crash would, and waits until it is gone.
func (p *Process) Kill() { p.child.Kill() }
