package operator

import (
	"context"
	"errors"
	"log/slog"
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
	NoLonger       RunWaiting = "no longer waiting"            // its wait had ended by itself
	NotWaiting     RunWaiting = "not waiting"                  // nobody was parked on the call
	NotWokenYet    RunWaiting = "not woken yet"                // the sweeper rings what is unconfirmed
	StillWaiting   RunWaiting = "still waiting for a decision" // the call needs another one
	waitsUnreadLog            = "waits not read; the sweeper rings them"
)

var errUnconfirmed = errors.New("operator: a bell is not confirmed")

// wake rings every unconfirmed wait of a call that a parked run could go on
// with. since is when the call was decided: bells that were confirmed before it
// belong to earlier waits.
func (s *Service) wake(ctx context.Context, r ledger.Record, since time.Time) RunWaiting {
	if r.Next(s.cfg.Now(), false, ledger.Pause) == ledger.Park {
		return StillWaiting
	}
	ringer := ringer{s: s, how: map[string]string{}, confirmed: map[string]bool{}}
	_, err := backoff.Retry(ctx, func() (bool, error) { return true, ringer.round(ctx, r.Key) }, s.patience(ctx)...)
	if err != nil {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "not every bell was confirmed; the sweeper rings again", slog.String("key_hash", r.Key.Short()), slog.Any("error", err))
	}
	return ringer.report(since)
}

// ringer rings the waits of one call and remembers what it knows between rounds,
// so that a bell that was answered is not rung again because its confirmation
// was not stored.
type ringer struct {
	s         *Service
	waits     []ledger.Wait
	read      bool
	how       map[string]string // by wait id
	confirmed map[string]bool
}

// round reads the waits once, rings what has not been answered and confirms
// what has.
func (g *ringer) round(ctx context.Context, key ledger.Key) error {
	if !g.read {
		waits, err := g.s.cfg.Waits.Waits(ctx, key)
		if err != nil {
			return errors.Join(errors.New(waitsUnreadLog), err)
		}
		g.waits, g.read = waits, true
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
		case isGone:
			g.how[w.ID] = gone.How
		default:
			return err
		}
	}
	if err := g.s.cfg.Waits.ConfirmWait(ctx, w, g.how[w.ID], g.s.cfg.Now()); err != nil {
		return err
	}
	// Stored: the bell is confirmed. Until then the sweeper finds the wait and
	// rings again, which a run that went on does not notice.
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
		case how == doorbell.Rung:
			answer = Woken
		case answer == NotWaiting:
			answer = NoLonger
		}
	}
	return answer
}
