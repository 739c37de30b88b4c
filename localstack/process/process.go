// Package process runs the child processes of the local stack: DynamoDB's
// engine, the billing service, the functions' sandboxes and, for tests and the
// demo, a whole stack. Each child gets a process group of its own, so that it
// hears no Ctrl-C and dies with its children, and on Linux the kernel kills it
// when its parent dies, even by SIGKILL. Start at [Start] or [StartReady].
package process

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
)

// Process is a child that was started. It is safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // of Wait; read only after exited is closed
}

// Start starts cmd, whose SysProcAttr it sets. The child lives until it ends or
// is killed; the context of cmd, if it has one, kills it too. The error is that
// of [exec.Cmd.Start]; nothing runs then.
func Start(cmd *exec.Cmd) (*Process, error) {
	isolate(cmd)
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go p.own(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
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
	killGroup(p.cmd.Process.Pid) // what it left behind
	close(p.exited)
}

// PID is the child's process id, which is also its group's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed once the child has ended and been waited for.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err waits until the child has ended and says how: nil for exit status 0,
// otherwise what [exec.Cmd.Wait] gave.
func (p *Process) Err() error {
	<-p.exited
	return p.err
}

// Stop asks the child to end by SIGTERM (where there is none it kills) and waits;
// when ctx ends first it is killed, which is an error that wraps the context's.
// Otherwise the error is that of [Process.Err].
func (p *Process) Stop(ctx context.Context) error {
	if p.running() {
		terminate(p.cmd.Process)
	}
	select {
	case <-p.exited:
		return p.err
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("process: it did not end when asked to and was killed: %w", context.Cause(ctx))
	}
}

// Kill ends the child and the children in its group by SIGKILL, as a crash
// would, and waits until the child is gone.
func (p *Process) Kill() {
	if p.running() {
		killGroup(p.cmd.Process.Pid)
		_ = p.cmd.Process.Kill() // where there are no groups
	}
	<-p.exited
}

func (p *Process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// PeakMB is the most memory that the child has held so far, in MB; zero where
// that is not known.
func (p *Process) PeakMB() int {
	if p.running() {
		return livePeak(p.cmd.Process.Pid)
	}
	return exitedPeak(p.cmd.ProcessState)
}
