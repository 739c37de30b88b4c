package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/internal/toolcall"
	"github.com/onceward/onceward/middleware/ledger"
)

// Inquiry asks a call's look-up what became of it. Reason and ExpectedVersion
// may be left out: asking decides nothing.
type Inquiry struct {
	Key             string
	Reason          string
	ExpectedVersion int64 // 0 for any
}

// Reconciled is what an inquiry is answered with.
type Reconciled struct {
	Record     Record     `json:"record" doc:"As it stands after the look-up"`
	LookUp     LookUp     `json:"look_up"`
	Settled    bool       `json:"settled" doc:"Whether the call does not need a look-up or a person any more"`
	RunWaiting RunWaiting `json:"run_waiting" enum:"woken,not waiting,no longer waiting,not woken yet,still waiting for a decision" doc:"What became of the parked run. One that is not woken yet is woken by any further request on the call, such as reconcile."`
}

// LookUp is what the tool's function answered.
type LookUp struct {
	Status  string `json:"status" doc:"How the function answered, such as completed or indeterminate"`
	Code    string `json:"code,omitempty" doc:"Why, in one stable word of errors.md: look_up_unknown if it could not tell, look_up_absent if it found nothing, which proves nothing yet"`
	Message string `json:"message,omitempty"`
}

// Reconcile invokes the tool's function once in mode reconcile, which can only
// read, and answers from the ledger. If that settled the call, its run is woken;
// so is the run of a call that there is nothing to look up for any more.
// Problems: [NotFound], [StaleVersion], [NothingToLookUp], [NoArguments],
// [ToolNotConfigured], [LookUpFailed]: nothing was changed.
func (s *Service) Reconcile(ctx context.Context, id Identity, in Inquiry) (Reconciled, error) {
	if err := id.May(DecideCalls); err != nil {
		return Reconciled{}, err
	}
	if len(in.Reason) > MaxReason {
		var wrong invalid
		wrong.add("body.reason", fmt.Sprintf("is longer than %d bytes", MaxReason))
		return Reconciled{}, wrong.problem()
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	key, err := keyOf(id, in.Key)
	if err != nil {
		return Reconciled{}, err
	}
	before, err := s.load(ctx, key)
	if err != nil {
		return Reconciled{}, err
	}
	if in.ExpectedVersion != 0 && in.ExpectedVersion != before.Version {
		return Reconciled{}, s.rung(ctx, before, s.conflict(before, in.ExpectedVersion, true))
	}
	if !s.canLook(before) {
		p := nothingToLookUp(before)
		p.Record, p.DecidedBy = viewOf(before, s.cfg.Now()), winner(before)
		return Reconciled{}, s.rung(ctx, before, p)
	}
	asked := s.cfg.Now()
	looked, invokeErr := s.look(ctx, before)
	switch {
	case errors.Is(invokeErr, toolcall.ErrUnread):
		return Reconciled{}, problem(Unavailable, "the call's turn or run could not be read").because(invokeErr)
	case errors.Is(invokeErr, toolcall.ErrNoTool):
		return Reconciled{}, s.rung(ctx, before, problem(ToolNotConfigured, "").because(invokeErr))
	case looked.Code == toolcall.NeedsArguments:
		return Reconciled{}, s.rung(ctx, before, problem(NoArguments, ""))
	}
	s.noteAsked(ctx, before, id.Actor, in.Reason)
	after, err := s.load(ctx, key)
	if p, ok := errors.AsType[*Problem](err); ok && p.Code == Unavailable {
		return Reconciled{}, problem(OutcomeUnknown, "the look-up was asked, and what it found could not be read").because(err)
	} else if err != nil {
		return Reconciled{}, err
	}
	if invokeErr != nil && after.Version == before.Version {
		p := problem(LookUpFailed, standing(after)).because(invokeErr)
		p.Record = viewOf(after, s.cfg.Now())
		return Reconciled{}, s.rung(ctx, after, p)
	}
	ctx, stop := outliving(ctx)
	defer stop()
	return Reconciled{Record: *viewOf(after, s.cfg.Now()), LookUp: looked, Settled: !s.canLook(after), RunWaiting: s.wake(ctx, after, asked)}, nil
}

// canLook reports whether a look-up is the call's next step. An undo has none, and
// while one is open it is the undo that brings the call further.
func (s *Service) canLook(r ledger.Record) bool {
	_, _, isUndo := r.Key.UndoOf()
	return !isUndo && !r.Flags.Has(ledger.UndoOpen) && r.Next(s.cfg.Now(), true, ledger.Pause) == ledger.Look
}

// nothingToLookUp does not say what the code means where that would contradict
// what is said of the call.
func nothingToLookUp(r ledger.Record) *Problem {
	p := problem(NothingToLookUp, standing(r))
	switch _, _, isUndo := r.Key.UndoOf(); {
	case r.Flags.Has(ledger.UndoOpen):
		p.Detail = ""
		p.say(standing(r) + "; its undo is open and has just been carried on, see undo. No look-up was asked")
	case isUndo && r.Status == ledger.Indeterminate:
		p.Detail = ""
		p.say("nothing was changed, since an undo has no look-up: look at the receiver and resolve it")
	}
	return p
}

// look asks the call's look-up, in a time that leaves some for reading what it
// stored.
func (s *Service) look(ctx context.Context, r ledger.Record) (LookUp, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	answer, err := s.caller().Reconcile(ctx, r)
	if err != nil {
		return LookUp{Status: "no answer"}, err
	}
	return LookUp{Status: answer.Status, Code: answer.Code, Message: answer.Message}, nil
}

// noteAsked leaves who asked.
func (s *Service) noteAsked(ctx context.Context, r ledger.Record, by, reason string) {
	remark := "asked for a look-up"
	if reason != "" {
		remark += ": " + reason
	}
	s.note(ctx, r, by, remark)
}
