package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/toolcall"
	"github.com/onceward/onceward/middleware/ledger"
)

// Tended is what was done about one call, and where it stands now. It is for
// logs and counts, and holds no secret.
type Tended struct {
	State         string    `json:"state"`
	Orphaned      bool      `json:"orphaned"`     // its executor was overdue, and is given up on
	Expired       bool      `json:"expired"`      // nobody approved it in time
	LookedUp      bool      `json:"looked_up"`    // its look-up was asked
	UndoInvoked   bool      `json:"undo_invoked"` // the tool was asked for the open undo
	UndoClosed    bool      `json:"undo_closed"`  // the undo has ended
	Rung          int       `json:"rung"`         // bells that were confirmed
	NeedsSomebody bool      `json:"needs_somebody"`
	WaitingSince  time.Time `json:"waiting_since,omitzero"`
}

// lookUpAtMost is the longest time between two look-ups that nobody asked for.
const lookUpAtMost = time.Hour

// Tend does what one call needs and nobody has to decide: an overdue executor is
// given up on, an approval's window that is over ends it, the look-up of an unknown
// call is asked, an undo that a person asked for is carried on, and the waits of a
// call that needs no decision any more are rung. It never asks for an undo. It may
// run twice at once, and beside everything else. An error says what could not be
// read, stored or asked; what was done until then stands and is told beside it.
func (s *Service) Tend(ctx context.Context, key ledger.Key) (Tended, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	r, err := s.cfg.Store.Load(ctx, key)
	if err != nil {
		return Tended{}, fmt.Errorf("operator: tend %s: %w", key.Short(), err)
	}
	r.Key = key
	t := tending{s: s, r: r}
	err = errors.Join(t.overdue(ctx), t.lookUp(ctx), t.carryUndo(ctx), t.ring(ctx))
	if err != nil {
		err = fmt.Errorf("operator: tend %s: %w", key.Short(), err)
	}
	t.done.State, t.done.NeedsSomebody, t.done.WaitingSince = t.r.State().String(), t.r.NeedsSomebody(s.cfg.Now()), t.r.WaitsSince
	return t.done, err
}

// tending is one call that is tended. It is used by one goroutine.
type tending struct {
	s    *Service
	r    ledger.Record
	done Tended
}

// overdue makes the move that time has made due.
func (t *tending) overdue(ctx context.Context) error {
	move, err := t.r.Orphan(t.s.stamp())
	done := &t.done.Orphaned
	if err != nil {
		if move, err = t.r.Expire(t.s.stamp()); err != nil {
			return nil //nolint:nilerr // nothing is due
		}
		done = &t.done.Expired
	}
	// Stored now: that a deadline or a window is over. If we stop here the call is
	// listed as unknown, or its wait as not rung, and tended again.
	after, err := t.s.apply(ctx, move)
	switch {
	case err == nil:
		*done = true
	case errors.Is(err, ledger.ErrStale): // somebody knows better
	default:
		return fmt.Errorf("%s: %w", move.Event(), err)
	}
	t.r = after
	return nil
}

// lookUp asks the call's look-up if that is due. The guard stores what it finds.
func (t *tending) lookUp(ctx context.Context) error {
	s, before := t.s, t.r
	// Whoever loses track of a call mostly asks the look-up too, so it has a while;
	// of one that was given up on just now nobody else knows.
	due := t.done.Orphaned || !s.cfg.Now().Before(s.nextLookUp(before))
	if !due || !s.canLook(before) || before.Status != ledger.Indeterminate {
		return nil
	}
	looked, err := s.look(ctx, before)
	switch {
	case errors.Is(err, toolcall.ErrNoTool):
		return nil // nobody is there to be asked; a person settles it
	case errors.Is(err, toolcall.ErrUnread):
		return err
	}
	t.done.LookedUp = true
	after, loadErr := s.cfg.Store.Load(ctx, before.Key)
	if loadErr != nil {
		return errors.Join(err, loadErr)
	}
	t.r = after
	if after.Version == before.Version && after.Rev == before.Rev {
		// Nothing tells when it was asked, so that it would be asked each time.
		s.noteAsked(ctx, after, string(ledger.BySweeper), looked.Status)
	}
	if after.Version != before.Version {
		return nil // its answer was lost, and it was stored
	}
	return err
}

// nextLookUp returns when the call may be looked up unasked: at most every
// LookUpEvery, and the more seldom the longer it has been unknown, since each
// look-up leaves a piece of evidence.
func (s *Service) nextLookUp(r ledger.Record) time.Time {
	last := r.Outcome.At
	for _, e := range r.Evidence {
		last = latest(last, e.At)
	}
	age := last.Sub(r.Outcome.At)
	return last.Add(max(s.cfg.LookUpEvery, min(age/8, lookUpAtMost)))
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// carryUndo carries an undo on that a person asked for: the call's own, or the one
// that this call is.
func (t *tending) carryUndo(ctx context.Context) error {
	owner, _, isUndo := t.s.ownerOf(ctx, t.r)
	if !owner.Flags.Has(ledger.UndoOpen) {
		return nil
	}
	u := undoing{s: t.s, owner: owner}
	err := u.carry(ctx)
	t.done.UndoInvoked, t.done.UndoClosed = u.asked, u.closed
	if !isUndo {
		t.r = u.owner
		return err
	}
	if u.undo.Key == t.r.Key {
		t.r = u.undo
	}
	return errors.Join(err, t.ringFor(ctx, u.owner))
}

func (t *tending) ring(ctx context.Context) error { return t.ringFor(ctx, t.r) }

// ringFor rings the waits of a call that a parked run could go on with.
func (t *tending) ringFor(ctx context.Context, r ledger.Record) error {
	if r.Next(t.s.cfg.Now(), false, ledger.Pause) == ledger.Park {
		return nil
	}
	g := newRinger(t.s)
	err := g.round(ctx, r.Key)
	t.done.Rung += len(g.confirmed)
	if err == nil && g.broken {
		err = errWaitBroken
	}
	return err
}

// errWaitBroken reports a bell that can't be rung since it can't be read.
var errWaitBroken = errors.New("operator: a parked run's wait can't be read")
