package main

import (
	"bytes"
	"context"
	"errors"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/runs"
)

// understand reads the input that the run was begun with, which may be written
// otherwise than the execution's, and finds the model for it.
func (a *asked) understand(p *Planner, run runs.Run) (err error) {
	if run.Exists() && !bytes.Equal(run.Input, a.req.Input) {
		if a.in, err = p.inputs.parse(run.Input); err != nil {
			return err
		}
		a.req.Input = run.Input
	}
	a.model, err = p.ModelFor(a.in)
	return err
}

// unusable answers what no run can be begun with.
func unusable(err error) (Answer, error) {
	if errors.Is(err, runs.ErrBadInput) {
		return failed(runs.Failure{Error: names.FailBadInput, Cause: err.Error()}), nil
	}
	return Answer{}, err
}

// begin puts the run that nobody announced. [runs.ErrStale] means that somebody
// else did, perhaps with another input: the plan is to start over.
func (p *Planner) begin(ctx context.Context, a *asked) (runs.Run, error) {
	machine := p.Machine
	if machine == "" {
		machine = a.req.Execution.StateMachine
	}
	// Stored now: that there is a run, and that this execution drives it. If we
	// stop here the repeated plan finds itself named, and so does whoever looks
	// for runs without a driver.
	return p.save(ctx, runs.Begin(a.in.Start(a.req.Input, a.req.Execution.Name, machine, a.req.Execution.StartedAt), p.NewID()))
}
