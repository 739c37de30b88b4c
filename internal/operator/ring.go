package operator

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/onceward/onceward/internal/doorbell"
	"github.com/onceward/onceward/middleware/ledger"
)

// RunWaiting says what became of the run that waited for a decision.
type RunWaiting string

// What can become of it. The decision stands in every case.
const (
	Woken          RunWaiting = "woken"
	NoLonger       RunWaiting = "no longer waiting"            // its wait had ended, or another request was waking it
	NotWaiting     RunWaiting = "not waiting"                  // nobody was parked on the call
	NotWokenYet    RunWaiting = "not woken yet"                // any further request on the call rings again
	StillWaiting   RunWaiting = "still waiting for a decision" // the call needs another one
	waitsUnreadLog            = "waits not read; any further request on the call rings them"
)

var errUnconfirmed = errors.New("operator: a bell is not confirmed")

// wake rings every unconfirmed wait of a call that a parked run could go on
// with. since is when the call was decided: bells that were confirmed before it
// belong to earlier waits.
func (s *Service) wake(ctx context.Context, r ledger.Record, since time.Time) RunWaiting {
	if r.Next(s.cfg.Now(), false, ledger.Pause) == ledger.Park {
		return StillWaiting
	}
	ringer := newRinger(s)
	_, err := backoff.Retry(ctx, func() (bool, error) { return true, ringer.round(ctx, r.Key) }, s.patience(ctx)...)
	if err != nil {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "not every bell was confirmed; any further request on the call rings again", slog.String("key_hash", r.Key.Short()), slog.Any("error", err))
	}
	return ringer.report(since)
}

// rung carries on and rings for a call that a request met and was refused on:
// whoever decided may have died before that. The problem says what came of it.
func (s *Service) rung(ctx context.Context, r ledger.Record, err error) error {
	p, ok := errors.AsType[*Problem](err)
	if !ok {
		return err
	}
	ctx, cancel := outliving(ctx)
	defer cancel()
	went := s.goOn(ctx, r, 0, decidedAt(r))
	p.RunWaiting, p.Undo = went.run, went.undo
	if p.Record != nil {
		p.Record = viewOf(went.record, s.cfg.Now())
	}
	p.say(runSays[p.RunWaiting])
	return p
}

// runSays tells what became of the run to whom it could matter.
var runSays = map[RunWaiting]string{
	Woken:       "its parked run has been woken",
	NotWokenYet: "its parked run is not woken yet: any further request on the call, such as POST reconcile, rings again",
	NoLonger:    "its run is no longer waiting", NotWaiting: "", StillWaiting: "",
}

// decidedAt returns when the call came to stand where it does.
func decidedAt(r ledger.Record) time.Time {
	at := r.Outcome.At
	if n := len(r.Decisions); n > 0 && r.Decisions[n-1].At.After(at) {
		at = r.Decisions[n-1].At
	}
	return at
}

// wakeIt is what to do about a run that sleeps although it could go on.
const wakeIt = "Nobody has to decide any more, and the parked run is not woken yet. POST reconcile wakes it."

// sleeps reports whether a run is parked on a call that it could go on with.
func (s *Service) sleeps(r ledger.Record, waits []ledger.Wait) bool {
	return r.Next(s.cfg.Now(), false, ledger.Pause) != ledger.Park && firstUnrung(waits) >= 0
}

func firstUnrung(waits []ledger.Wait) int {
	return slices.IndexFunc(waits, func(w ledger.Wait) bool { return !w.Rung() })
}

// ringer rings the waits of one call and remembers what it knows between rounds,
// so that a bell that was answered is not rung again because its confirmation
// was not stored.
type ringer struct {
	s         *Service
	waits     []ledger.Wait
	read      bool
	broken    bool              // there are waits that can't be read
	how       map[string]string // by wait id
	unknown   map[string]bool   // rung, and no answer came
	confirmed map[string]bool
}

func newRinger(s *Service) *ringer {
	return &ringer{s: s, how: map[string]string{}, unknown: map[string]bool{}, confirmed: map[string]bool{}}
}

// round reads the waits once, rings what has not been answered and confirms
// what has.
func (g *ringer) round(ctx context.Context, key ledger.Key) error {
	if !g.read {
		waits, broken, err := g.s.waits(ctx, key)
		if err != nil {
			return errors.Join(errors.New(waitsUnreadLog), err)
		}
		g.waits, g.broken, g.read = waits, broken, true
	}
	var errs []error
	for _, w := range g.waits {
		if w.Rung() || g.confirmed[w.ID] {
			continue
		}
		if err := g.ring(ctx, w); err != nil {
			errs = append(errs, errUnconfirmed, err)
		}
	}
	return errors.Join(errs...)
}

func (g *ringer) ring(ctx context.Context, w ledger.Wait) error {
	if g.how[w.ID] == "" {
		err := g.s.cfg.Bell.Ring(ctx, w.Token)
		gone, isGone := errors.AsType[*doorbell.GoneError](err)
		switch {
		case err == nil:
			g.how[w.ID] = doorbell.Rung
		case isGone && g.unknown[w.ID]: // it was our own bell that ended the wait
			g.how[w.ID] = doorbell.AnswerLost
		case isGone:
			g.how[w.ID] = gone.How
		default:
			g.unknown[w.ID] = g.unknown[w.ID] || !errors.Is(err, doorbell.ErrRefused)
			return err
		}
	}
	// Stored now: that the bell was rung. If we stop before, the next request on
	// the call rings again, which a run that went on does not notice.
	if err := g.s.cfg.Waits.ConfirmWait(ctx, w, g.how[w.ID], g.s.cfg.Now()); err != nil {
		return err
	}
	g.confirmed[w.ID] = true
	return nil
}

func (g *ringer) report(since time.Time) RunWaiting {
	if !g.read {
		return NotWokenYet
	}
	answer := NotWaiting
	for _, w := range g.waits {
		how := g.how[w.ID]
		if w.Rung() {
			if w.RungAt.Before(since) {
				continue
			}
			how = w.How
		}
		switch {
		case how == "":
			return NotWokenYet
		case how == doorbell.Rung, how == doorbell.AnswerLost:
			answer = Woken
		case answer == NotWaiting:
			answer = NoLonger
		}
	}
	if g.broken && answer != Woken {
		return NotWokenYet // somebody may be parked whose bell can't be read
	}
	return answer
}
