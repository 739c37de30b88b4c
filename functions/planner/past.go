package main

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/runs"
)

// openTurn reads the turn that the run is in.
func (p *Planner) openTurn(ctx context.Context, run runs.Run) (runs.Turn, error) {
	if run.Turn == 0 {
		return runs.Turn{}, nil
	}
	turns, err := p.Runs.Turns(ctx, run.Key(), run.Turn)
	if err != nil {
		return runs.Turn{}, err
	}
	if len(turns) == 0 || turns[0].Number != run.Turn {
		return runs.Turn{}, missing(run, run.Turn)
	}
	return turns[0], nil
}

// isOver reports whether this plan's time to ask the model is over.
func (a *asked) isOver() bool { return !a.until.IsZero() && !time.Now().Before(a.until) }

// nextTurn asks the model, and returns the turn that stands after the closed one.
func (p *Planner) nextTurn(ctx context.Context, a *asked, run runs.Run, closed runs.Turn) (runs.Turn, error) {
	if err := p.readPast(ctx, a, run); err != nil {
		return runs.Turn{}, err
	}
	if run.Turn > 0 {
		if len(a.past) < run.Turn {
			return runs.Turn{}, missing(run, run.Turn)
		}
		a.past[run.Turn-1] = closed
	}
	if len(a.past) > run.Turn {
		return a.past[run.Turn], nil // stored by a plan that went no further
	}
	proposal, err := a.model.Next(ctx, a.past)
	if err != nil {
		return runs.Turn{}, fmt.Errorf("planner: ask the model: %w", err)
	}
	turn := runs.NextTurn(a.past, proposal, p.Now())
	if err := runs.CheckTurn(turn); err != nil {
		return runs.Turn{}, err
	}
	// Stored now: the model's answer and its calls' final ids, before any of them
	// runs. If we stop here the repeated plan adopts it and asks no model.
	stands, err := p.Runs.PutTurn(ctx, run.Key(), turn)
	if err != nil {
		return runs.Turn{}, err
	}
	a.past = append(a.past, stands)
	return stands, nil
}

// readPast reads the run's turns, once for each plan.
func (p *Planner) readPast(ctx context.Context, a *asked, run runs.Run) error {
	if a.past != nil {
		return nil
	}
	past, err := p.Runs.Turns(ctx, run.Key(), 1)
	if err != nil {
		return err
	}
	for i, turn := range past {
		if turn.Number != i+1 {
			return missing(run, i+1)
		}
	}
	a.past = append([]runs.Turn{}, past...)
	return nil
}

func missing(run runs.Run, turn int) error {
	return fmt.Errorf("planner: %w: turn %d of run %s is missing", runs.ErrCorrupt, turn, run.Key())
}

// half returns when half of ctx's time from now is over, zero if it has no end.
func half(ctx context.Context) time.Time {
	deadline, limited := ctx.Deadline()
	if !limited {
		return time.Time{}
	}
	return deadline.Add(-time.Until(deadline) / 2)
}
