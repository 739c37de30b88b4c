package billing

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
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
	url    string
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // of Wait; read only after exited is closed
}

// Start starts exe with args as [Command.Start] does, with the caller's
// environment and standard error.
func Start(ctx context.Context, exe string, args ...string) (*Process, error) {
	return Command{Exe: exe, Args: args}.Start(ctx)
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
	dieWithParent(cmd)
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("billing: starting: %w", err)
	}
	cmd.Stdout = write
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go p.own(started)
	err = <-started
	_ = write.Close() // the child has its own copy; ours would hide its end
	if err != nil {
		_ = read.Close()
		return nil, fmt.Errorf("billing: starting: %w", err)
	}
	ready := make(chan string, 1)
	go readReady(read, ready)
	select {
	case p.url = <-ready:
		if p.url != "" {
			return p, nil
		}
		err = errors.New("it ended its output without a ready line")
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, fmt.Errorf("billing: waiting for the ready line: %w", errors.Join(err, p.Kill()))
}

// own starts the child and stays on its thread until the child ends: Linux
// sends the death signal when the thread that started the child ends, not the
// process.
func (p *Process) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.exited)
}

// readReady sends the URL of the first line, or nothing but a zero value, and then drains the rest.
func readReady(r io.ReadCloser, ready chan<- string) {
	defer func() { _ = r.Close() }() // only read from
	lines := bufio.NewReader(r)
	line, _ := lines.ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), ReadyPrefix)
	if !ok {
		url = ""
	}
	ready <- url
	_, _ = io.Copy(io.Discard, lines)
}

// URL is the base URL that the service announced.
func (p *Process) URL() string { return p.url }

// Exited is closed once the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Stop asks the process to end and waits; when ctx ends first it is killed.
// The error says how the process ended, nil for a clean exit.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return p.Kill() // the platform has no gentle way
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("billing: stopping: %w", ctx.Err()), p.Kill())
	}
	if p.err != nil {
		return fmt.Errorf("billing: process: %w", p.err)
	}
	return nil
}

// Kill ends the process at once, as a crash would, and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("billing: killing: %w", err)
	}
	<-p.exited
	return nil
}
