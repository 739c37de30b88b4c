// Package toolcall asks the function behind a tool about a call that is on
// record: to look its outcome up, or to undo its effect because a person asked
// for that. The envelope is made from the stored turn's arguments and the run's
// own principal, since the ledger holds only a fingerprint of the one and nothing
// of the other. Start with [Caller]; toolcall/lambdatools invokes Lambdas.
package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

var (
	// ErrNoTool reports that no function is there for a tool. Nothing was asked.
	ErrNoTool = errors.New("toolcall: nothing was asked: no function is there for the tool")

	// ErrUnread reports that the stored turn or run could not be read. Nothing was
	// asked.
	ErrUnread = errors.New("toolcall: nothing was asked: the call's turn or run can't be read")

	// ErrNoAnswer reports that no answer came that could be understood: whatever
	// was asked for may have been done, may be going on, or may not have begun.
	ErrNoAnswer = errors.New("toolcall: not known what was done: no answer")
)

// Functions invokes the function behind a tool, once. [ErrNoTool] means that
// nothing was invoked; after any other error the function may have run, and may
// be running. It must be safe for concurrent use.
type Functions interface {
	Invoke(ctx context.Context, tool string, payload []byte) ([]byte, error)
}

// Runs is the part of a [runs.Store] that is needed.
type Runs interface {
	Load(ctx context.Context, id runs.ID) (runs.Run, error)
	Turns(ctx context.Context, id runs.ID, from, to int) ([]runs.Turn, error)
}

// Caller asks tools' functions. All fields but Log are required. It is safe for
// concurrent use.
type Caller struct {
	Functions Functions
	Runs      Runs

	// Log gets what is odd about a stored run. Nil is no log.
	Log *slog.Logger
}

// Answer is what of a function's answer says how the request was understood.
// What became of the call is for the ledger to say.
type Answer struct {
	Status  string
	Code    string // one stable word of errors.md; "" if there was nothing to say
	Message string
	Next    ledger.Next
}

// NeedsArguments is the code of a refusal that the stored arguments would have
// prevented: their turn is gone.
const NeedsArguments = "missing_arguments"

// Refused reports whether the function did nothing, and would do nothing if it
// were asked the same again: the answer speaks of the request only.
func (a Answer) Refused() bool {
	switch once.Status(a.Status) {
	case once.Refused, once.Conflict, once.Expired:
		return a.Next == ledger.Done
	case once.Completed, once.Failed, once.Indeterminate, once.Compensated, once.ApprovalRequired, once.InProgress:
	}
	return false
}

// Reconcile asks the call's look-up, which only reads, once.
func (c Caller) Reconcile(ctx context.Context, r ledger.Record) (Answer, error) {
	e, err := c.envelope(ctx, once.ModeReconcile, r)
	if err != nil {
		return Answer{}, err
	}
	e.Call.Attempt = max(r.Attempt.Number, 1)
	return c.ask(ctx, e)
}

// Compensate asks for undo n of the call owner, once. Whether it may run is for
// the guard to decide, by the owner's record: only an undo that a person asked
// for and that is still open does. undo is the undo's own record, zero if there
// is none. It never names a next attempt, so that only a person's grant lets an
// undo run again.
func (c Caller) Compensate(ctx context.Context, owner ledger.Record, n int, undo ledger.Record) (Answer, error) {
	e, err := c.envelope(ctx, once.ModeCompensate, owner)
	if err != nil {
		return Answer{}, err
	}
	e.Call.ID, e.Call.Attempt = owner.Key.Undo(n).CallID, max(undo.Attempt.Number, 1)
	return c.ask(ctx, e)
}

// envelope holds the arguments of the stored turn. Without them a tool that goes
// by the key alone still works; any other is refused by its function. So does a
// turn or a run that can't be read whatever is tried.
func (c Caller) envelope(ctx context.Context, mode once.Mode, r ledger.Record) (once.Envelope, error) {
	id := runs.ID{Tenant: r.Key.Tenant, Run: r.Key.RunID}
	turns, err := c.Runs.Turns(ctx, id, max(r.Turn, 1), r.Turn)
	if errors.Is(err, runs.ErrCorrupt) {
		c.log(ctx, "a call's turn can't be read; asking without its arguments", r, err)
	} else if err != nil {
		return once.Envelope{}, fmt.Errorf("%w: turn %d of %s: %w", ErrUnread, r.Turn, r.Key.Short(), err)
	}
	call := once.CallPart{ID: r.Key.CallID, Tool: r.Tool, Turn: r.Turn}
	for _, turn := range turns {
		asks := func(c runs.Call) bool { return c.ID == call.ID && c.Tool == call.Tool }
		if i := slices.IndexFunc(turn.Calls, asks); i >= 0 && turn.Number == r.Turn {
			call.ArgumentsJSON = turn.Calls[i].Arguments
		}
	}
	run, err := c.Runs.Load(ctx, id)
	if errors.Is(err, runs.ErrCorrupt) {
		run = runs.Run{}
	} else if err != nil {
		return once.Envelope{}, fmt.Errorf("%w: run of %s: %w", ErrUnread, r.Key.Short(), err)
	}
	input, inputErr := runs.ParseInput(run.Input)
	if inputErr != nil {
		c.log(ctx, "the run's input names no principal; asking without one", r, err)
	}
	return once.Envelope{
		Onceward: once.EnvelopeVersion, Mode: mode, Tenant: r.Key.Tenant, Reply: once.ReplyBrief,
		Run:       once.RunPart{ID: r.Key.RunID, StartedAt: run.StartedAt, Agent: r.Agent},
		Call:      call,
		Principal: once.PrincipalPart{Subject: input.Subject, Permissions: input.Permissions},
	}, nil
}

// log leaves out what an input's own error may repeat of it.
func (c Caller) log(ctx context.Context, what string, r ledger.Record, err error) {
	if c.Log == nil {
		return
	}
	c.Log.LogAttrs(ctx, slog.LevelWarn, what, slog.String("key_hash", r.Key.Short()), slog.Any("error", err))
}

func (c Caller) ask(ctx context.Context, e once.Envelope) (Answer, error) {
	payload, err := json.Marshal(e)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrUnread, err)
	}
	raw, err := c.invoke(ctx, e.Call.Tool, payload)
	if err != nil {
		return Answer{}, err
	}
	var a once.Answer
	if err := json.Unmarshal(raw, &a); err != nil || a.Onceward != once.EnvelopeVersion || a.Status == "" {
		return Answer{}, fmt.Errorf("%w: it is not one of version %d", ErrNoAnswer, once.EnvelopeVersion)
	}
	return Answer{Status: string(a.Status), Code: a.Error.Code, Message: a.Error.Message, Next: a.Next}, nil
}

func (c Caller) invoke(ctx context.Context, tool string, payload []byte) ([]byte, error) {
	raw, err := c.Functions.Invoke(ctx, tool, payload)
	if errors.Is(err, ErrNoTool) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return raw, nil
}
