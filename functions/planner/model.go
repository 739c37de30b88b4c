package main

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/internal/runs"
)

// Model answers what to do next. Next must be safe to repeat: its answer is
// stored once, and a second one for the same history is thrown away.
type Model interface {
	Next(ctx context.Context, history []runs.Turn) (runs.Proposal, error)
}

// scripted plays the turns that the run was started with.
type scripted struct {
	script runs.Script
}

// scriptedModel returns the model of a run that brings its script along.
func scriptedModel(in runs.Input) (Model, error) {
	if in.Script == nil {
		return nil, fmt.Errorf("%w: script: missing", runs.ErrBadInput)
	}
	return scripted{script: *in.Script}, nil
}

// Next implements [Model].
func (s scripted) Next(_ context.Context, history []runs.Turn) (runs.Proposal, error) {
	if n := len(history); n < len(s.script.Turns) {
		return s.script.Turns[n], nil
	}
	return runs.Proposal{Says: s.script.Answer}, nil
}
