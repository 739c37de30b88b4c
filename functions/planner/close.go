package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// closeTurn returns the positions of the calls that are to be issued. If there
// are none, every call is closed or settled as far as it can be, and the turn
// holds what the model hears of them.
func (p *Planner) closeTurn(ctx context.Context, a *asked, run runs.Run, turn *runs.Turn) (issue []int, err error) {
	if turn.Closed() {
		return nil, nil
	}
	calls, err := p.judge(ctx, a, run, *turn, runs.Open.Judge)
	if err != nil {
		return nil, err
	}
	if abandon(run, calls) {
		calls, err = p.judge(ctx, a, run, *turn, runs.Open.Abandoned)
		if err != nil {
			return nil, err
		}
	}
	for i, call := range calls {
		if call.verdict == runs.Issue {
			issue = append(issue, i)
		}
	}
	if len(issue) > 0 {
		return issue, nil
	}
	return nil, p.hear(ctx, run, turn, calls)
}

// judged is a call with the last verdict on it: issue or tell.
type judged struct {
	runs.Open
	verdict runs.Verdict
}

// abandon reports whether the policy ends the run here, so that nothing more of
// the turn is issued.
func abandon(run runs.Run, calls []judged) bool {
	for _, call := range calls {
		if run.Policy == ledger.Fail && call.Unknown() {
			return true
		}
	}
	return false
}

// judge judges all calls at once, since each may need its record.
func (p *Planner) judge(ctx context.Context, a *asked, run runs.Run, turn runs.Turn, verdict func(runs.Open) runs.Verdict) ([]judged, error) {
	calls := make([]judged, len(turn.Calls))
	err := p.each(turn, func(i int) (err error) {
		call := turn.Calls[i]
		open := runs.Open{
			Call: call, Turn: turn.Number, Known: p.Tools.Has(call.Tool), Progress: run.Progress[i], Policy: run.Policy, Why: why(run.Progress[i]),
		}
		calls[i], err = p.judgeOne(ctx, a, run, open, verdict)
		return err
	})
	return calls, err
}

// each does something for all calls of a turn at once.
func (p *Planner) each(turn runs.Turn, do func(position int) error) error {
	errs := make([]error, len(turn.Calls))
	var all sync.WaitGroup
	for i := range turn.Calls {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (p *Planner) load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	record, err := p.Ledger.Load(ctx, key)
	if err != nil {
		return ledger.Record{}, fmt.Errorf("planner: read call %s: %w", key.Short(), err)
	}
	return record, nil
}

func (p *Planner) judgeOne(ctx context.Context, a *asked, run runs.Run, open runs.Open, verdict func(runs.Open) runs.Verdict) (judged, error) {
	key := run.Key().Call(open.Call.ID)
	if verdict(open) != runs.Issue || open.Progress.Issued {
		record, err := p.load(ctx, key)
		if err != nil {
			return judged{}, err
		}
		open.Record = record
	}
	for range maxLost {
		v, write := verdict(open), p.close
		switch {
		case v == runs.Issue || v == runs.Tell && open.Record.Exists():
			return judged{Open: open, verdict: v}, nil
		case v == runs.Tell:
			write = p.note
		}
		record, err := write(ctx, a, key, open)
		if err != nil && !errors.Is(err, ledger.ErrStale) {
			return judged{}, fmt.Errorf("planner: write down call %s before it is told: %w", key.Short(), err)
		}
		open.Record = record
	}
	return judged{}, fmt.Errorf("planner: write down call %s before it is told: it keeps moving", key.Short())
}

func (p *Planner) stamp() ledger.Stamp { return ledger.Stamp{At: p.Now(), WriteID: p.NewID()} }

// close makes sure that the call can't start any more.
func (p *Planner) close(ctx context.Context, a *asked, key ledger.Key, open runs.Open) (ledger.Record, error) {
	move, err := open.Record.Close(p.stamp(), key, ledger.Settler{Kind: ledger.ByPlanner, ID: a.req.Execution.Name})
	if err != nil {
		return ledger.Record{}, err
	}
	// Stored now: nothing can start under this key any more. If we stop here the
	// model has heard nothing, and the repeated plan finds it closed.
	return p.Ledger.Apply(ctx, move)
}

// note records a call as unknown of which its tool spoke as if it were on record,
// while nothing is: perhaps the tool keeps another ledger. So nothing is told to a
// model that a person can't find, and its id is used in the run for good.
func (p *Planner) note(ctx context.Context, _ *asked, key ledger.Key, open runs.Open) (ledger.Record, error) {
	now, token := p.stamp(), ledger.AttemptToken(p.NewID())
	call := ledger.Call{Key: key, Tool: open.Call.Tool, Class: string(p.Tools[open.Call.Tool].Class), Turn: open.Turn}
	move, err := ledger.Record{}.Start(now, call, ledger.Executor{Token: token, Attempt: 1, Deadline: now.At, QuietAfter: now.At})
	if err != nil {
		return ledger.Record{}, err
	}
	// Stored now: that the key is taken, by an attempt whose time is over. If we
	// stop here it is orphaned, which says the same.
	record, err := p.Ledger.Apply(ctx, move)
	if err != nil {
		return record, err
	}
	move, err = record.Settle(p.stamp(), token, ledger.Settlement{Effect: ledger.Unknown, Code: "no_record", Message: "the tool answered " + open.Progress.Status + ", and nothing is on record"})
	if err != nil {
		return ledger.Record{}, err
	}
	// Stored now: that nobody knows. If we stop here the repeated plan tells so.
	return p.Ledger.Apply(ctx, move)
}

// hear fixes what the model hears of the turn.
func (p *Planner) hear(ctx context.Context, run runs.Run, turn *runs.Turn, calls []judged) error {
	heard := make([]runs.Heard, len(calls))
	budget := runs.HeardBudget(len(calls))
	for i, call := range calls {
		result, err := p.result(ctx, call.Record)
		if err != nil {
			return err
		}
		heard[i] = call.Heard(result, budget)
	}
	// Stored now: what the model hears of these calls, for good. If we stop here
	// the repeated plan tells exactly this, whatever the ledger says by then.
	stands, err := p.Runs.Hear(ctx, run.Key(), turn.Number, heard)
	if err != nil {
		return err
	}
	turn.Heard = stands
	for _, h := range stands {
		p.Log.LogAttrs(ctx, slog.LevelInfo, "call told", slog.String("run", run.ID), slog.Int("turn", turn.Number),
			slog.String("key_hash", run.Key().Call(h.CallID).Short()), slog.String("status", h.Status))
	}
	return nil
}

// result returns the result of a call, nil if there is none to tell.
func (p *Planner) result(ctx context.Context, r ledger.Record) ([]byte, error) {
	if r.Effect() != ledger.Happened {
		return nil, nil
	}
	result, err := p.Ledger.Result(ctx, r)
	switch {
	case errors.Is(err, ledger.ErrNotKept):
		return nil, nil
	case errors.Is(err, ledger.ErrCorrupt):
		// The effect stands; a result that is not what was stored is not told.
		p.Log.LogAttrs(ctx, slog.LevelError, "result is corrupt", slog.String("key_hash", r.Key.Short()), slog.Any("error", err))
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("planner: read the result of call %s: %w", r.Key.Short(), err)
	}
	return result, nil
}

// unresolvedUnder reports whether the run's policy ends it because of what the
// model would hear.
func unresolvedUnder(run runs.Run, turn runs.Turn) bool {
	return run.Policy == ledger.Fail && unresolved(turn) != ""
}

func unresolvedCause(run runs.Run, turn runs.Turn) string {
	return fmt.Sprintf("%s is unresolved and the policy is fail", run.Key().Call(unresolved(turn)))
}

// unresolved returns the id of the turn's first unresolved call.
func unresolved(turn runs.Turn) string {
	for _, heard := range turn.Heard {
		if heard.Status == runs.Unresolved {
			return heard.CallID
		}
	}
	return ""
}

// why returns the reason of a refusal as it can stand in a sentence: what the
// guard said, or what its code means.
func why(p runs.Progress) string {
	if p.Code == "" || p.Message != "" {
		return strings.TrimSuffix(strings.TrimPrefix(p.Code+": "+p.Message, ": "), ".")
	}
	for _, c := range once.Codes() {
		if c.Word == p.Code {
			return p.Code + ": " + strings.TrimSuffix(c.Meaning, ".")
		}
	}
	return p.Code
}
