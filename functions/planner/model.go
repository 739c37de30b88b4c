package main

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/internal/runs"
)

// Model answers what to do next. Next is asked for the turn of that number, and
// must be safe to repeat: its answer is stored once, and a second one for the same
// turn is thrown away.
type Model interface {
	Next(ctx context.Context, turn int, past Past) (runs.Proposal, error)
}

// Past reads the turns before the one that a model is asked for, in their order,
// with what was heard of their calls. It costs nothing until it is called, and
// what it has read once it keeps for the plan.
type Past func(ctx context.Context) ([]runs.Turn, error)

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
func (s scripted) Next(_ context.Context, turn int, _ Past) (runs.Proposal, error) {
	if turn <= len(s.script.Turns) {
		return s.script.Turns[turn-1], nil
	}
	return runs.Proposal{Says: s.script.Answer}, nil
}
