package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// arrived returns the run as it is now that the execution has come back from its
// Map, with the time that the Map was at work.
func (p *Planner) arrived(ctx context.Context, a *asked, run runs.Run, turn runs.Turn, at runs.At) (runs.Run, error) {
	now := p.Now()
	waits, err := p.waits(ctx, run, run.Waited(turn, a.req.Outcomes))
	if err != nil {
		return runs.Run{}, err
	}
	worked := run.Worked(waits, now)
	run = run.Arrived(turn, at, a.req.Outcomes)
	run.Active += worked
	return run, nil
}

// waits reads the waits of all the calls at once. One that can't be read counts
// as none: it is work then, which ends the run no later than it must.
func (p *Planner) waits(ctx context.Context, run runs.Run, calls []string) ([]ledger.Wait, error) {
	found := make([][]ledger.Wait, len(calls))
	errs := make([]error, len(calls))
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() { found[i], errs[i] = p.Ledger.Waits(ctx, run.Key().Call(call)) })
	}
	all.Wait()
	var waits []ledger.Wait
	for i, err := range errs {
		if err != nil && !errors.Is(err, ledger.ErrCorrupt) {
			return nil, fmt.Errorf("planner: read the waits of call %s: %w", run.Key().Call(calls[i]).Short(), err)
		}
		waits = append(waits, found[i]...)
	}
	return waits, nil
}

// overdue ends a run that was at work for longer than it may: what can still
// start is closed first, and what is unknown is told as unknown.
func (p *Planner) overdue(ctx context.Context, a *asked, run runs.Run, turn runs.Turn) (Answer, error) {
	if !turn.Closed() {
		calls, err := p.judge(ctx, a, run, turn, runs.Open.Abandoned)
		if err != nil {
			return Answer{}, err
		}
		if err := p.hear(ctx, run, &turn, calls); err != nil {
			return Answer{}, err
		}
	}
	cause := fmt.Sprintf("the run was at work for %s, its waits not counted; its limit is %s", run.Active, run.ActiveLimit)
	return p.end(ctx, a, run, runs.Failure{Error: names.FailDeadline, Cause: cause})
}
