package operator

import (
	"context"
	"errors"
	"log/slog"

	"github.com/onceward/onceward/middleware/ledger"
)

// Acknowledge clears a contradiction that the person has looked at. Where it is
// the call's undo that was called failed and took effect after all, the call
// becomes compensated, whether its own key or its undo's is named. Problems as
// [Service.Resolve].
func (s *Service) Acknowledge(ctx context.Context, id Identity, c Command) (Decided, error) {
	var seen ledger.Key // of the undo that the call's move is about
	v := verb{name: "acknowledge", move: s.acknowledgement(ctx, &seen), before: s.acknowledgeOwner}
	decided, err := s.rule(ctx, id, v, c, true)
	if err == nil && decided.Decision.Kind == string(ledger.AcknowledgeUndo) {
		s.acknowledgeUndo(ctx, id, seen, decided, c.Reason)
	}
	return decided, err
}

// acknowledgement returns the move: of the call's own contradiction first, then
// of the latest of its undos that took effect after all.
func (s *Service) acknowledgement(ctx context.Context, seen *ledger.Key) build {
	return func(r ledger.Record, st ledger.Stamp, d ledger.Decision) (ledger.Move, error) {
		move, err := r.Acknowledge(st, d)
		if !errors.Is(err, ledger.ErrNotAllowed) || r.Undo.N == 0 {
			return move, err
		}
		n, undo, err := s.standingUndo(ctx, r)
		if err != nil {
			return ledger.Move{}, err
		}
		*seen = r.Key.Undo(n)
		return r.AcknowledgeUndo(st, d, n, tookEffectAfterAll(undo))
	}
}

// tookEffectAfterAll reports whether an undo's record was called failed and has
// been denied since, seen by a person or not.
func tookEffectAfterAll(undo ledger.Record) bool {
	return undo.Status == ledger.Failed && (undo.Flags.Has(ledger.Contradicted) || undo.Flags.Has(ledger.Acknowledged))
}

// acknowledgeOwner makes the call compensated before the contradiction of its
// undo is cleared: as long as it stands the undo is listed, so that nobody's
// death between the two hides it.
func (s *Service) acknowledgeOwner(ctx context.Context, undo ledger.Record, d ledger.Decision) error {
	key, n, ok := undo.Key.UndoOf()
	if !ok {
		return nil
	}
	owner, err := s.cfg.Store.Load(ctx, key)
	if err != nil {
		return problem(Unavailable, "the call that this one undoes could not be read").because(err)
	}
	for range mostUndoSteps {
		d.Version = owner.Version
		move, err := owner.AcknowledgeUndo(s.stamp(), d, n, tookEffectAfterAll(undo))
		if err != nil && owner.Flags.Has(ledger.UndoOpen) && owner.Undo.N != n {
			return problem(NotAllowed, "another undo of the call is open: acknowledge this one once that has ended")
		} else if err != nil {
			return nil //nolint:nilerr // this undo is open still, or the call is undone already: only its own record changes
		}
		// Stored now: the call is compensated. If we stop here, its undo is still
		// listed as contradicted, and acknowledged by the same request again.
		if owner, err = s.apply(ctx, move); err == nil {
			return nil
		} else if !errors.Is(err, ledger.ErrStale) {
			return problem(OutcomeUnknown, "the ledger did not answer").because(err)
		}
	}
	return problem(Unavailable, "the call that this one undoes kept moving")
}

// acknowledgeUndo clears the contradiction of the undo named key, which the person
// has seen with its call. If that fails the undo is still listed, and acknowledged
// under its own key.
func (s *Service) acknowledgeUndo(ctx context.Context, id Identity, key ledger.Key, decided Decided, reason string) {
	if key == (ledger.Key{}) {
		return // an earlier request's decision, which that one has seen to
	}
	ctx, cancel := outliving(ctx)
	defer cancel()
	undo, err := s.cfg.Store.Load(ctx, key)
	if err == nil && undo.Flags.Has(ledger.Contradicted) {
		var move ledger.Move
		move, err = undo.Acknowledge(s.stamp(), ledger.Decision{ID: decided.Decision.ID, Actor: id.Actor, Reason: reason, Version: undo.Version})
		if err == nil {
			// Stored now: that a person has seen it. If we stop before, the undo stays
			// listed, and is acknowledged under its own key.
			_, err = s.apply(ctx, move)
		}
	}
	if err != nil {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "an undo's contradiction is not cleared; it stays listed", slog.String("key_hash", key.Short()), slog.Any("error", err))
	}
}
