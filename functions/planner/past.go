package main

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// openTurn reads the turn that the run is in.
func (p *Planner) openTurn(ctx context.Context, run runs.Run) (runs.Turn, error) {
	if run.Turn == 0 {
		return runs.Turn{}, nil
	}
	turns, err := p.readTurns(ctx, run, run.Turn, run.Turn)
	if err != nil {
		return runs.Turn{}, err
	}
	return turns[0], nil
}

// openTurns reads the turn that the run is in, and what plans that went no further
// have stored after it. However many turns there were before, none is read.
func (p *Planner) openTurns(ctx context.Context, run runs.Run) (open runs.Turn, ahead []runs.Turn, err error) {
	turns, err := p.readTurns(ctx, run, max(run.Turn, 1), 0)
	switch {
	case err != nil:
		return runs.Turn{}, nil, err
	case run.Turn == 0:
		return runs.Turn{}, turns, nil
	}
	return turns[0], turns[1:], nil
}

// readTurns reads the run's turns numbered from to to; with to 0 those from the
// open one on, whatever there is. One that is missing is an error.
func (p *Planner) readTurns(ctx context.Context, run runs.Run, from, to int) ([]runs.Turn, error) {
	turns, err := p.Runs.Turns(ctx, run.Key(), from, to)
	if err != nil {
		return nil, err
	}
	for i, turn := range turns {
		if turn.Number != from+i {
			return nil, missing(run, from+i)
		}
	}
	if last := from + len(turns) - 1; last < max(to, run.Turn) {
		return nil, missing(run, last+1)
	}
	return turns, nil
}

// isOver reports whether this plan's time to ask the model is over.
func (a *asked) isOver() bool { return !a.until.IsZero() && !time.Now().Before(a.until) }

// nextTurn returns the turn that stands after the run's open one, which is closed:
// one that is stored already, or what the model answers.
func (p *Planner) nextTurn(ctx context.Context, a *asked, run runs.Run) (runs.Turn, error) {
	if len(a.ahead) > 0 {
		turn := a.ahead[0] // stored by a plan that went no further
		a.ahead = a.ahead[1:]
		return turn, nil
	}
	proposal, err := a.model.Next(ctx, run.Turn+1, p.past(a, run))
	if err != nil {
		return runs.Turn{}, fmt.Errorf("planner: ask the model: %w", err)
	}
	turn := runs.NextTurn(run.Turn+1, proposal, p.Now())
	if err := runs.CheckTurn(turn); err != nil {
		return runs.Turn{}, err
	}
	turn, err = p.named(ctx, run, turn)
	if err != nil {
		return runs.Turn{}, err
	}
	// Stored now: the model's answer and its calls' final ids, before any of them
	// runs. If we stop here the repeated plan adopts it and asks no model.
	return p.Runs.PutTurn(ctx, run.Key(), turn)
}

// past reads what the plan has not read of the turns up to the run's open one.
func (p *Planner) past(a *asked, run runs.Run) Past {
	return func(ctx context.Context) ([]runs.Turn, error) {
		if n := len(a.past); n < run.Turn {
			turns, err := p.readTurns(ctx, run, n+1, run.Turn)
			if err != nil {
				return nil, err
			}
			a.past = append(a.past, turns...)
		}
		return a.past[:run.Turn:run.Turn], nil
	}
}

// keep saves the plan from reading a turn that it has just closed, if it knows
// those before it.
func (a *asked) keep(closed runs.Turn) {
	if closed.Number == len(a.past)+1 {
		a.past = append(a.past, closed)
	}
}

// named replaces the provider's ids that the run has used before.
func (p *Planner) named(ctx context.Context, run runs.Run, turn runs.Turn) (runs.Turn, error) {
	used := make([]bool, len(turn.Calls))
	err := p.each(turn, func(i int) error {
		if id := turn.Calls[i].ID; ledger.ProviderCallID(id) {
			record, err := p.load(ctx, run.Key().Call(id))
			used[i] = record.Exists()
			return err
		}
		return nil
	})
	return turn.Renamed(func(i int) bool { return used[i] }), err
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
