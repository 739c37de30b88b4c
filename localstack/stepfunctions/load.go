package stepfunctions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// ownRecord is an entry of the Runner's own journal.
type ownRecord struct {
	Key     []byte         `json:"key,omitempty"` // of the task tokens; the first entry
	Machine *machineRecord `json:"machine,omitempty"`
}

// writeOwn stores a machine as it is from now on. The mutex must be held.
func (r *Runner) writeOwn(m machineRecord) error {
	return r.store.writeOwn(false, ownRecord{Machine: &m})
}

func (s *store) writeOwn(first bool, entry ownRecord) error {
	if !s.keeps() {
		return s.write("", first, nil)
	}
	// An entry may stand there in part: another one must not follow it.
	if s.ownStuck == nil {
		s.ownStuck = s.write(s.ownFile(), first, entry)
	}
	return s.ownStuck
}

// load reads what the last Runner left, or begins anew.
func (r *Runner) load() (err error) {
	if r.store, err = openStore(r.options.Data); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.store.close())
		}
	}()
	if !r.store.keeps() {
		r.tokens.key = newTokenKey()
		return nil
	}
	if err := r.loadOwn(); err != nil {
		return err
	}
	return r.loadExecutions()
}

func (r *Runner) loadOwn() error {
	entries, err := readOwn(r.store.ownFile())
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		r.tokens.key = newTokenKey()
		// Stored now: the key. If we stop before, no token was issued by it yet.
		return r.store.writeOwn(true, ownRecord{Key: r.tokens.key})
	}
	r.tokens.key = entries[0].Key
	for _, entry := range entries {
		switch m := entry.Machine; {
		case m == nil:
		case m.Deleted:
			delete(r.machines, m.ARN)
		default:
			r.machines[m.ARN] = &machine{machineRecord: *m}
		}
	}
	return nil
}

// loadExecutions reads the journals of all executions. Those of a machine that
// is gone were on their way out.
func (r *Runner) loadExecutions() error {
	files, err := r.store.executionFiles()
	if err != nil {
		return err
	}
	for _, file := range files {
		told, err := readStory(file)
		if err != nil {
			return err
		}
		if told == nil {
			continue
		}
		m, ok := r.machines[told.MachineARN]
		if !ok || m.ID != told.MachineID {
			if err := remove(file); err != nil {
				return err
			}
			continue
		}
		r.order = append(r.order, r.restore(m, told))
	}
	loaded := r.order
	slices.SortFunc(loaded, func(a, b *execution) int { return cmp.Compare(a.story.Serial, b.story.Serial) })
	r.order = nil
	for _, x := range loaded {
		r.keep(x)
	}
	for _, m := range r.machines {
		r.sweep(m)
	}
	return nil
}

// restore makes an execution of its story.
func (r *Runner) restore(m *machine, told *story) *execution {
	x := &execution{runner: r, machine: m, arn: told.ARN, story: told, stop: make(chan struct{})}
	if told.status != Running {
		x.story = told.shed()
		close(x.stop)
		return x
	}
	for _, p := range told.places {
		if p.phase != called || p.task.token == "" {
			continue
		}
		p.task.wait = r.tokens.restore(x, p.branch, p.task.token)
		if p.task.answer != nil {
			p.task.wait.closed = true
			p.task.wait.answers <- *p.task.answer
		}
	}
	return x
}

// Recover lets the executions that New found in Options.Data go on from where
// their journals end, as if nothing had been: waits, timeouts and heartbeats
// count from when they began, tokens stay open, used retries stay used. Only a
// Lambda call that was in progress fails with Lambda.SdkClientException, because
// nobody knows whether the function ran; Retry and Catch decide about it. Call
// it once, when the functions can be invoked; until then the executions stand
// still. Without Data it does nothing. An execution that can't go on is named
// in the error and leaves the others alone.
func (r *Runner) Recover(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed()
	}
	var errs []error
	for _, x := range r.order {
		if err := x.goOn(); err != nil {
			errs = append(errs, fmt.Errorf("stepfunctions: %s: %w", x.arn, err))
		}
	}
	return errors.Join(errs...)
}

// goOn drives an execution that runs and that nobody drives.
func (x *execution) goOn() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done != nil || x.story.status != Running {
		return nil
	}
	return x.drive()
}
