package ledger

import (
	"fmt"
	"strings"
)

// Decision is a person's word. ID, Actor, Reason and Version are required; the
// reason may be empty only for an approval.
type Decision struct {
	ID      string // recognised when the same decision arrives twice
	Actor   string
	Reason  string
	Version int64 // the version that the person looked at
}

// Approve lets a reserved call start.
func (r Record) Approve(s Stamp, d Decision) (Move, error) {
	return r.ruled(Approve, s, d, Given{Now: s.At}, func(c *Change) {
		approval := r.Approval
		approval.By, approval.At = d.Actor, s.At
		c.Approval = &approval
	})
}

// Deny ends a reserved call; it never runs.
func (r Record) Deny(s Stamp, d Decision) (Move, error) {
	return r.ruled(Deny, s, d, Given{Now: s.At}, func(c *Change) {
		c.Outcome = &Outcome{Code: "denied", Message: Shorten(d.Reason, MaxMessage), By: Settler{Kind: ByPerson, ID: d.Actor}, At: s.At}
	})
}

// Resolve settles an unknown call by a person's word. NoEffect with Retryable
// grants one more attempt.
func (r Record) Resolve(s Stamp, d Decision, what Settlement) (Move, error) {
	var event Event
	switch {
	case what.Effect == Happened:
		event = ResolveCompleted
	case what.Effect == NoEffect && what.Retryable:
		event = ResolveRetry
	case what.Effect == NoEffect:
		event = ResolveFailed
	default:
		return Move{}, fmt.Errorf("%w: resolve: say completed or failed", ErrInvalid)
	}
	return r.ruled(event, s, d, Given{Now: s.At}, func(c *Change) {
		outcome := what.outcome(Settler{Kind: ByPerson, ID: d.Actor}, s.At)
		c.Outcome = &outcome
	})
}

// Withdraw takes back the right of a failed call to run again.
func (r Record) Withdraw(s Stamp, d Decision) (Move, error) {
	return r.ruled(Withdraw, s, d, Given{Now: s.At}, func(c *Change) {
		outcome := r.Outcome
		outcome.At = s.At
		c.Outcome = &outcome
	})
}

// UndoAsk is what whoever asks for an undo knows beside the record.
type UndoAsk struct {
	KnowsUnknown bool // of an unknown call: the person's explicit word that they know that it may undo nothing
	Stands       bool // an earlier undo of the call took effect after all, or may have: its own record says so
}

// AskUndo opens an undo. It is not allowed while an earlier one stands: that one
// is acknowledged instead, see [Record.AcknowledgeUndo].
func (r Record) AskUndo(s Stamp, d Decision, ask UndoAsk) (Move, error) {
	return r.ruled(AskUndo, s, d, Given{Now: s.At, KnowsUnknown: ask.KnowsUnknown, UndoStands: ask.Stands}, func(c *Change) {
		c.Undo = &Undo{N: r.Undo.N + 1, AskedAt: s.At}
	})
}

// AcknowledgeUndo records that a person has seen that undo n, once called
// failed, took effect.
func (r Record) AcknowledgeUndo(s Stamp, d Decision, n int, contradicted bool) (Move, error) {
	return r.ruled(AcknowledgeUndo, s, d, Given{Now: s.At, Undo: n, UndoContradicted: contradicted}, r.settledNow(s))
}

// Acknowledge clears a contradiction that a person has seen.
func (r Record) Acknowledge(s Stamp, d Decision) (Move, error) {
	return r.ruled(Acknowledge, s, d, Given{Now: s.At}, r.settledNow(s))
}

// ruled is decided for a person, whose word goes into the same write.
func (r Record) ruled(event Event, s Stamp, d Decision, given Given, fill func(*Change)) (Move, error) {
	if err := d.check(event); err != nil {
		return Move{}, err
	}
	if d.Version != r.Version {
		return Move{}, fmt.Errorf("%w: you looked at version %d, it is at %d", ErrStale, d.Version, r.Version)
	}
	m, err := r.decided(event, s, given, fill)
	if err != nil {
		return Move{}, err
	}
	m.change.Decision = &Entry{ID: d.ID, Kind: event, By: d.Actor, Reason: d.Reason, At: s.At, Before: r.State().String(), After: m.rows[0].After(r.State()).String()}
	return m, nil
}

func (d Decision) check(event Event) error {
	var missing []string
	if d.ID == "" {
		missing = append(missing, "id")
	}
	if d.Actor == "" {
		missing = append(missing, "actor")
	}
	if strings.TrimSpace(d.Reason) == "" && event != Approve {
		missing = append(missing, "reason")
	}
	if d.Version <= 0 {
		missing = append(missing, "version")
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: decision without %s", ErrInvalid, strings.Join(missing, ", "))
	}
	return nil
}
