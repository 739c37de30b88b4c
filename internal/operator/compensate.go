package operator

import (
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/internal/toolcall"
	"github.com/onceward/onceward/middleware/ledger"
)

// Compensation asks for a call's effect to be undone. KnowsUnknown is the
// person's explicit word that they know that nobody knows whether there is an
// effect; a call whose outcome is unknown is not undone without.
type Compensation struct {
	Command
	KnowsUnknown bool
}

// Compensate asks for an undo of a call's effect, and carries it out as a call of
// its own. The ask is a move of the call, so that of several people one wins;
// only then is the tool's function invoked. An undo that can't be carried out at
// once stays open, and any further request on the call, or the sweeper, carries
// it on. Nothing else ever asks for one. Problems as [Service.Resolve], and
// [NoCompensation], [ToolNotConfigured], [ToolUnreachable]: nothing was changed.
func (s *Service) Compensate(ctx context.Context, id Identity, in Compensation) (Decided, error) {
	ask := func(r ledger.Record, st ledger.Stamp, d ledger.Decision) (ledger.Move, error) {
		n, _, err := s.standingUndo(ctx, r)
		if err != nil {
			return ledger.Move{}, err
		}
		return r.AskUndo(st, d, ledger.UndoAsk{KnowsUnknown: in.KnowsUnknown, Stands: n > 0})
	}
	v := verb{
		name: "compensate",
		move: ask,
		possible: func(r ledger.Record, st ledger.Stamp, d ledger.Decision) (ledger.Move, error) {
			if r.Status == ledger.Indeterminate && !r.Flags.Has(ledger.UndoOpen) && r.Version != in.ExpectedVersion {
				return ledger.Move{}, nil // with the person's word, and once nothing is on its way any more
			}
			return ask(r, st, d)
		},
		check: func(r ledger.Record, d ledger.Decision) *Problem {
			if p := s.undoable(r, d, in.KnowsUnknown); p != nil {
				return p
			}
			return s.undoneAfterAll(ctx, r)
		},
		before: func(ctx context.Context, r ledger.Record, _ ledger.Decision) error { return s.compensates(ctx, r.Tool) },
	}
	if err := id.May(DecideCalls); err != nil {
		return Decided{}, err
	}
	if err := in.checked(true); err != nil {
		return Decided{}, err
	}
	return s.decide(ctx, id, v, in.Command, []any{in.Reason, in.ExpectedVersion, in.KnowsUnknown})
}

// undoable says why the call can't be undone now where a conflict would not say
// what to do about it.
func (s *Service) undoable(r ledger.Record, d ledger.Decision, knowsUnknown bool) *Problem {
	now := s.cfg.Now()
	refuse := func(words string, until time.Time) *Problem {
		p := problem(NotAllowed, words)
		p.Record, p.NotBefore = viewOf(r, now), stamp(until)
		return p
	}
	if _, _, isUndo := r.Key.UndoOf(); isUndo {
		return refuse("an undo can't be undone: act again through a new call", time.Time{})
	}
	running := r.Status == ledger.Started && !now.After(r.Attempt.Deadline)
	unknown := r.Status == ledger.Indeterminate || r.Status == ledger.Started && !running
	switch {
	case r.Status == ledger.Failed && r.Flags.Has(ledger.Contradicted):
		return refuse("the call was called failed, and a late outcome says that it took effect: POST acknowledge once you have looked, then ask for its undo", time.Time{})
	case running:
		return refuse("its executor may be at work until "+stamp(r.Attempt.Deadline), r.Attempt.Deadline)
	case !unknown || r.Flags.Has(ledger.UndoOpen) || d.Version != r.Version && (!onlyLost(r) || r.Version != d.Version+1):
		return nil
	case !knowsUnknown:
		var wrong invalid
		wrong.add("body.knows_unknown", "nobody knows whether the call took effect, so that its undo may undo nothing: look at the receiver and resolve the call first, or set this to true to ask all the same")
		return wrong.list()
	case !now.After(r.Attempt.QuietAfter):
		return refuse("a request of its executor may still be on its way until "+stamp(r.Attempt.QuietAfter)+", and would land after its undo", r.Attempt.QuietAfter)
	}
	return nil
}

// standingUndo returns the latest undo of the call that took effect although it was
// called failed, or may have, with its number; 0 if there is none. News that come
// between this read and the ask are for the tool to find: nothing proves both.
func (s *Service) standingUndo(ctx context.Context, r ledger.Record) (n int, undo ledger.Record, _ error) {
	if r.Flags.Has(ledger.UndoOpen) || r.Effect() == ledger.Undone {
		return 0, ledger.Record{}, nil // it can't be asked for anyway
	}
	for n = r.Undo.N; n > 0; n-- {
		undo, err := s.cfg.Store.Load(ctx, r.Key.Undo(n))
		if err != nil {
			return 0, ledger.Record{}, problem(Unavailable, "the call's earlier undos could not be read").because(err)
		}
		if undo.Effect() != ledger.NoEffect {
			return n, undo, nil
		}
	}
	return 0, ledger.Record{}, nil
}

// undoneAfterAll says which earlier undo has to be acknowledged instead of asking
// for another one.
func (s *Service) undoneAfterAll(ctx context.Context, r ledger.Record) *Problem {
	n, _, err := s.standingUndo(ctx, r)
	if err != nil {
		p, _ := errors.AsType[*Problem](err)
		return p
	}
	if n == 0 {
		return nil
	}
	p := problem(NotAllowed, "its undo "+r.Key.Undo(n).String()+" was called failed, and a late outcome says that it took effect: look at the receiver, and POST acknowledge on the call instead of asking for another undo")
	p.Record = viewOf(r, s.cfg.Now())
	return p
}

// compensates asks the tool's function whether there is anything to ask it for,
// before the ask is stored.
func (s *Service) compensates(ctx context.Context, tool string) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	m, err := s.caller().Describe(ctx, tool)
	switch {
	case errors.Is(err, toolcall.ErrNoTool):
		return problem(ToolNotConfigured, "").because(err)
	case errors.Is(err, toolcall.ErrNotServed):
		return problem(ToolNotConfigured, "its function does not serve it").because(err)
	case err != nil:
		return problem(ToolUnreachable, "").because(err)
	case m.Undo != nil && !*m.Undo:
		return problem(NoCompensation, "")
	}
	return nil
}

func (s *Service) caller() toolcall.Caller {
	return toolcall.Caller{Functions: s.cfg.Tools, Runs: s.cfg.Runs, Log: s.cfg.Log}
}
