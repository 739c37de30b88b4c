package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/internal/toolcall"
	"github.com/onceward/onceward/middleware/ledger"
)

// mostUndoSteps bounds how often one request looks at an undo again because
// something moved meanwhile.
const mostUndoSteps = 8

// toolNotConfigured is the code of an undo that nobody can be asked for.
const toolNotConfigured = "tool_not_configured"

// undoing carries a call's open undo on: by whatever is next for it, until it has
// ended or somebody else is at work on it. It never asks for one. Several at once
// do no harm: the guard runs one attempt, and each move proves what it read. It is
// used by one goroutine.
type undoing struct {
	s       *Service
	owner   ledger.Record
	undo    ledger.Record // as last read
	n       int           // the undo that was asked about
	asked   bool          // the function was invoked
	closed  bool          // this one ended it
	refused *Reason       // why the function did nothing, and would do nothing again
	cause   error         // why it is not known what the function did
}

// carry returns an error if it could not be found out how far the undo is, or if
// it has not begun and the function gave no answer.
func (u *undoing) carry(ctx context.Context) error {
	for range mostUndoSteps {
		if !u.owner.Flags.Has(ledger.UndoOpen) {
			return nil
		}
		key := u.owner.Key.Undo(u.owner.Undo.N)
		undo, err := u.s.cfg.Store.Load(ctx, key)
		if err != nil {
			return fmt.Errorf("operator: the undo's record: %w", err)
		}
		if u.n != u.owner.Undo.N {
			u.n, u.asked, u.refused = u.owner.Undo.N, false, nil
		}
		u.undo = undo
		u.undo.Key = key
		if more, err := u.step(ctx); err != nil || !more {
			return err
		}
	}
	return nil
}

// step does what is next for the undo; more is false if nothing is, for now.
func (u *undoing) step(ctx context.Context) (more bool, _ error) {
	if move, err := u.undo.Orphan(u.s.stamp()); err == nil {
		// Stored now: nobody knows whether the undo took effect. If we stop here it
		// is listed as unknown, under its own key.
		return u.moveUndo(ctx, move)
	}
	switch {
	case u.mayBegin() && !u.asked:
		return u.begin(ctx)
	case u.mayBegin():
		return u.neverBegan(ctx)
	case u.undo.Effect() == ledger.Happened:
		return u.end(ctx, ledger.Happened)
	case u.undo.Status == ledger.Failed && u.undo.Effect() == ledger.NoEffect && !u.undo.Flags.Has(ledger.Retryable):
		return u.end(ctx, ledger.NoEffect)
	}
	move, err := u.undo.Close(u.s.stamp(), u.undo.Key, ledger.Settler{Kind: ledger.BySweeper})
	if err != nil {
		return false, nil //nolint:nilerr // it runs, or somebody has to look at it
	}
	// Stored now: the undo can't run any more under this number. If we stop here,
	// the next request on the call, or the sweeper, ends it for the call.
	return u.moveUndo(ctx, move)
}

// mayBegin reports whether the undo waits to be run.
func (u *undoing) mayBegin() bool {
	f := u.undo.Flags
	return !u.undo.Exists() || u.undo.Status == ledger.Failed && f.Has(ledger.Granted) && !f.Has(ledger.Contradicted)
}

// begin invokes the tool's function. What it stored is read afterwards, whatever
// it said: its answer may be lost, or be about another's attempt.
func (u *undoing) begin(ctx context.Context) (more bool, _ error) {
	bounded, cancel := u.s.bounded(ctx)
	defer cancel()
	u.asked = true
	answer, err := u.s.caller().Compensate(bounded, u.owner, u.n, u.undo)
	switch {
	case errors.Is(err, toolcall.ErrUnread):
		u.asked = false
		return false, err
	case errors.Is(err, toolcall.ErrNoTool):
		u.refused = &Reason{Code: toolNotConfigured, Message: "no function is there for the tool"}
	case err != nil:
		u.cause = err
	case answer.Refused():
		u.refused = &Reason{Code: answer.Code, Message: answer.Message}
	default:
		u.cause = fmt.Errorf("operator: the function answered %s, %s", answer.Status, answer.Code)
	}
	return true, nil
}

// neverBegan ends an undo that was refused for good, such as one of a tool
// without a compensation: the call must not wait for it for ever. It can be asked
// for again, once there is something to ask. Without an answer nobody can say so.
func (u *undoing) neverBegan(ctx context.Context) (more bool, _ error) {
	if u.refused == nil {
		return false, u.cause
	}
	if u.undo.Exists() {
		return false, nil // a person granted this attempt, and may withdraw it
	}
	u.s.note(ctx, u.owner, string(ledger.ByExecutor), fmt.Sprintf("undo %d did nothing: %s: %s", u.n, u.refused.Code, u.refused.Message))
	move, err := u.undo.Close(u.s.stamp(), u.undo.Key, ledger.Settler{Kind: ledger.BySweeper})
	if err != nil {
		return false, fmt.Errorf("operator: close an undo: %w", err)
	}
	// Stored now: the undo can't begin any more, however late its invocation
	// comes. If we stop here, the next request on the call ends it for the call.
	return u.moveUndo(ctx, move)
}

func (u *undoing) moveUndo(ctx context.Context, move ledger.Move) (more bool, _ error) {
	if _, err := u.s.apply(ctx, move); err != nil && !errors.Is(err, ledger.ErrStale) {
		return false, fmt.Errorf("operator: %s of an undo: %w", move.Event(), err)
	}
	return true, nil
}

// end records on the call how its undo ended.
func (u *undoing) end(ctx context.Context, effect ledger.Effect) (more bool, _ error) {
	move, err := u.owner.CloseUndo(u.s.stamp(), u.n, effect)
	if err != nil {
		return false, fmt.Errorf("operator: end an undo: %w", err)
	}
	// Stored now: the call is compensated, or its undo can be asked for again. If
	// we stop here, its waits are unconfirmed: any further request, or the
	// sweeper, rings them.
	after, err := u.s.apply(ctx, move)
	if err != nil && !errors.Is(err, ledger.ErrStale) {
		return false, fmt.Errorf("operator: end an undo: %w", err)
	}
	u.closed = err == nil
	u.owner = after
	return true, nil
}
