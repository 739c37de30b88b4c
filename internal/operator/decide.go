package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// MaxReason is the largest reason that is accepted, in bytes.
const MaxReason = 1000

// Command is what every decision carries.
type Command struct {
	Key             string // as the request gives it
	Reason          string
	ExpectedVersion int64
	IdempotencyKey  string // "" for none
}

// Decided is what a decision is answered with. The decision is stored.
type Decided struct {
	Record        Record     `json:"record" doc:"As it stands"`
	Undo          *UndoCall  `json:"undo,omitempty" doc:"The undo that was asked for, or that the request met as the latest decision on the call"`
	Decision      Entry      `json:"decision"`
	RunWaiting    RunWaiting `json:"run_waiting" enum:"woken,not waiting,no longer waiting,not woken yet,still waiting for a decision" doc:"What became of the parked run. One that is not woken yet is woken by any further request on the call, such as reconcile."`
	RecordKeeping bool       `json:"record_keeping" doc:"True if the model has been told something else than the record says now, and will not hear of it any more"`

	// Replayed says that the decision had been stored by an earlier request.
	Replayed bool `json:"-"`
}

type build func(ledger.Record, ledger.Stamp, ledger.Decision) (ledger.Move, error)

// verb is one kind of decision.
type verb struct {
	name string
	move build

	// possible is move for the question whether whoever names the record's version
	// may decide it. What it returns is never stored. Nil is move.
	possible build

	// check says why the decision is not possible on the record in better words
	// than a conflict does, nil if it may be. Nil checks nothing.
	check func(ledger.Record, ledger.Decision) *Problem

	// before does what has to be done before the decision is stored, once it is
	// known to be possible. Nil does nothing.
	before func(context.Context, ledger.Record, ledger.Decision) error
}

// onAnotherLook returns what possible says, see there.
func (v verb) onAnotherLook() build {
	if v.possible != nil {
		return v.possible
	}
	return v.move
}

// decide makes one person's decision: load, prove, move, then carry an undo on
// and wake the run. A call whose executor is overdue is written off first.
// body is all that the person said; under one Idempotency-Key it must not change.
func (s *Service) decide(ctx context.Context, id Identity, v verb, c Command, body any) (Decided, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	key, err := keyOf(id, c.Key)
	if err != nil {
		return Decided{}, err
	}
	name, err := s.decisionName(id, key, c.IdempotencyKey, v.name, body)
	if err != nil {
		return Decided{}, err
	}
	r, err := s.load(ctx, key)
	if err != nil {
		return Decided{}, err
	}
	if entry, err := name.among(r.Decisions); err != nil {
		return Decided{}, s.rung(ctx, r, err)
	} else if entry != nil {
		return s.decided(ctx, r, *entry, r.Decisions, true)
	}
	d := ledger.Decision{ID: name.id(), Actor: id.Actor, Reason: strings.TrimSpace(c.Reason), Version: c.ExpectedVersion}
	if v.check != nil {
		if p := v.check(r, d); p != nil {
			return Decided{}, s.rung(ctx, r, p)
		}
	}
	return s.store(ctx, r, name, d, v)
}

// store makes the move of a decision that has not been stored yet.
func (s *Service) store(ctx context.Context, r ledger.Record, name decisionName, d ledger.Decision, v verb) (Decided, error) {
	if v.before != nil && s.timely(r, d, v.move) {
		if err := v.before(ctx, r, d); err != nil {
			return Decided{}, s.rung(ctx, r, err)
		}
	}
	r, d, err := s.writeOff(ctx, r, d, v.move)
	if err != nil {
		return Decided{}, err
	}
	made, err := v.move(r, s.stamp(), d)
	if err != nil {
		return s.refused(ctx, r, name, d, err, v.onAnotherLook())
	}
	// Stored now: the decision. If we stop here, its waits are unconfirmed: the
	// list shows them, and any further request on the call, or the sweeper, rings
	// them and carries on an undo that was asked for.
	after, err := s.apply(ctx, made)
	if err != nil {
		if errors.Is(err, ledger.ErrStale) {
			return s.refused(ctx, after, name, d, err, v.onAnotherLook())
		}
		return Decided{}, problem(OutcomeUnknown, "the ledger did not answer").because(err)
	}
	entry, err := name.among(after.Decisions)
	if err != nil || entry == nil {
		return Decided{}, problem(Internal, "").because(fmt.Errorf("operator: decision %s is stored and not on the record that came back: %w", d.ID, errors.Join(err, ledger.ErrCorrupt)))
	}
	return s.decided(ctx, after, *entry, after.Decisions, false)
}

// apply stores the move. When the store does not say whether it did, the same
// move is sent again: by the decision's id the store knows it if it was stored.
func (s *Service) apply(ctx context.Context, move ledger.Move) (ledger.Record, error) {
	return backoff.Retry(ctx, func() (ledger.Record, error) {
		after, err := s.cfg.Store.Apply(ctx, move)
		if errors.Is(err, ledger.ErrStale) || errors.Is(err, ledger.ErrInvalid) || errors.Is(err, ledger.ErrCorrupt) {
			return after, backoff.Permanent(err)
		}
		return after, err
	}, s.patience(ctx)...)
}

// patience bounds retries by tries and by the time that is left.
func (s *Service) patience(ctx context.Context) []backoff.RetryOption {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 100*time.Millisecond, time.Second
	left := 10 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		left = max(time.Until(deadline), time.Millisecond)
	}
	return []backoff.RetryOption{backoff.WithBackOff(pause), backoff.WithMaxTries(5), backoff.WithMaxElapsedTime(left)}
}

// bounded keeps the reserve, and never more than half of what is left, of the
// context's time, so that a request which hangs ends in an answer.
func (s *Service) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(s.cfg.Reserve, max(time.Until(deadline)/2, 0))))
}

// decided carries on what the decision began, rings, and answers. entry is among
// the decisions.
func (s *Service) decided(ctx context.Context, r ledger.Record, entry ledger.Entry, decisions []ledger.Entry, replayed bool) (Decided, error) {
	ctx, cancel := outliving(ctx)
	defer cancel()
	n := undoAsked(r, entry, decisions)
	went := s.goOn(ctx, r, n, entry.At)
	return Decided{
		Record: *viewOf(went.record, s.cfg.Now()), Undo: went.undo, Decision: entriesOf([]ledger.Entry{entry}, true)[0],
		RunWaiting: went.run, RecordKeeping: s.toldOtherwise(ctx, went.record), Replayed: replayed,
	}, nil
}

// outliving returns a context that keeps the deadline and not the cancellation:
// a client that goes away must not stop the bells of a stored decision.
func outliving(ctx context.Context) (context.Context, context.CancelFunc) {
	out := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(out, deadline)
	}
	return context.WithCancel(out)
}

// toldOtherwise reports whether what the model heard of the call, which never
// changes, is not what the record says now.
func (s *Service) toldOtherwise(ctx context.Context, r ledger.Record) bool {
	heard, err := s.heard(ctx, r)
	if err != nil {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "turn not read after a decision", slog.String("key_hash", r.Key.Short()), slog.Any("error", err))
	}
	return heard != nil && heard.Status != tellable(r.Effect())
}

// tellable is the word that turns keep for what a model heard of an effect.
func tellable(effect ledger.Effect) string {
	switch effect {
	case ledger.Happened:
		return string(ledger.Completed)
	case ledger.NoEffect:
		return string(ledger.Failed)
	case ledger.Undone:
		return string(ledger.Compensated)
	case ledger.Unknown:
	}
	return runs.Unresolved
}

// checked returns a problem that names every wrong part, nil if there is none.
func (c Command) checked(reasonRequired bool) error {
	var wrong invalid
	c.check(&wrong, reasonRequired)
	return wrong.problem()
}

// check adds what is wrong with the parts that every decision has.
func (c Command) check(wrong *invalid, reasonRequired bool) {
	reason := strings.TrimSpace(c.Reason)
	switch {
	case reason == "" && reasonRequired:
		wrong.add("body.reason", "is required and must not be blank: say why")
	case len(reason) > MaxReason:
		wrong.add("body.reason", fmt.Sprintf("is longer than %d bytes", MaxReason))
	}
	if c.ExpectedVersion < 1 {
		wrong.add("body.expected_version", "is required: the version of the record that you looked at")
	}
}
