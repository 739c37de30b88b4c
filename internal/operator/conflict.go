package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/middleware/ledger"
)

// refused answers a decision that the record does not allow, unless it is there
// already, among the entries that the record no longer holds.
func (s *Service) refused(ctx context.Context, r ledger.Record, name decisionName, d ledger.Decision, why error, move build) (Decided, error) {
	if errors.Is(why, ledger.ErrInvalid) {
		return Decided{}, problem(InvalidRequest, "").because(why)
	}
	if p, ok := errors.AsType[*Problem](why); ok {
		return Decided{}, s.rung(ctx, r, p)
	}
	conflict := s.conflict(r, d.Version, s.possible(r, d, move)).because(why)
	if name.request != "" {
		past, err := s.history(ctx, r)
		if err != nil {
			return Decided{}, problem(Unavailable, "the call's history could not be read").because(err)
		}
		if entry, err := name.among(past.decisions); err != nil {
			return Decided{}, s.rung(ctx, r, err)
		} else if entry != nil {
			return s.decided(ctx, r, *entry, past.decisions, true)
		}
		if past.unreadable {
			conflict.say("an older entry of the call's history can't be read, so it is not known whether an earlier request under this Idempotency-Key was stored")
		}
	}
	return Decided{}, s.rung(ctx, r, conflict)
}

// conflict names who stands in the way, and what is known of the effect.
func (s *Service) conflict(r ledger.Record, expected int64, stillPossible bool) *Problem {
	by := winner(r)
	p := problem(NotAllowed, standing(r))
	switch {
	case stillPossible:
		p = problem(StaleVersion, fmt.Sprintf("you looked at version %d, and the record is at version %d; %s", expected, r.Version, standing(r)))
	case by != nil && by.Kind == string(ledger.ByPerson):
		p = problem(AlreadyDecided, by.says()+"; "+standing(r))
	case settled(r.Status):
		p = problem(AlreadySettled, standing(r)+by.since())
	}
	p.Record, p.DecidedBy = viewOf(r, s.cfg.Now()), by
	return p
}

// standing says where the call stands and what is known of its effect.
func standing(r ledger.Record) string {
	return "the call is " + r.State().String() + ", and " + effectSays[r.Effect()]
}

var effectSays = map[ledger.Effect]string{
	ledger.Unknown:  "nobody knows whether it took effect",
	ledger.NoEffect: "it did not take effect",
	ledger.Happened: "it took effect",
	ledger.Undone:   "it took effect and was undone",
}

// says names the person in quotes, so that it reads as a name whatever it is.
func (d *DecidedBy) says() string {
	word := "a decision"
	if d.Decision != "" {
		word = "the decision " + d.Decision
	}
	return fmt.Sprintf("the actor %q made %s%s", d.Actor, word, d.since())
}

func (d *DecidedBy) since() string {
	if d == nil || d.At == "" {
		return ""
	}
	if d.Kind != string(ledger.ByPerson) {
		return ", settled by the " + d.Kind + " at " + d.At
	}
	return " at " + d.At
}

// winner returns who brought the record where it stands, nil if nobody has
// decided or settled it: whoever lost track of a call decided nothing.
func winner(r ledger.Record) *DecidedBy {
	if n := len(r.Decisions); n > 0 {
		last := r.Decisions[n-1]
		if last.After == r.State().String() || undoDecision(last.Kind) {
			return &DecidedBy{Kind: string(ledger.ByPerson), Actor: last.By, Decision: string(last.Kind), At: stamp(last.At)}
		}
	}
	if r.Outcome.By.Kind == "" || !settled(r.Status) {
		return nil
	}
	by := &DecidedBy{Kind: string(r.Outcome.By.Kind), At: stamp(r.Outcome.At)}
	if r.Outcome.By.Kind == ledger.ByPerson {
		by.Actor = r.Outcome.By.ID
	}
	return by
}

// undoDecision reports whether the decision was about an undo: whatever became of
// it, who asked for it brought the call where it stands.
func undoDecision(kind ledger.Event) bool {
	return kind == ledger.AskUndo || kind == ledger.AcknowledgeUndo
}

func settled(status ledger.Status) bool {
	switch status {
	case ledger.Completed, ledger.Failed, ledger.Compensated:
		return true
	case ledger.None, ledger.Reserved, ledger.Started, ledger.Indeterminate, ledger.Follower:
	}
	return false
}
