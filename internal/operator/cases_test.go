package operator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

// Whoever decided died, or could not reach the run, after the decision was
// stored. Deciding the same again is no conflict and rings.
func TestDecisionWhoseBellWasNotHeardRingsWhenItIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r := b.unknown(t, "c1")
		b.park(t, r, "w1")
		b.bell.answer = func(int, string) error { return errors.New("down") }
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		first, err := b.service.Resolve(ctx, ops, failed(r, "idem-1"))
		if err != nil || first.RunWaiting != operator.NotWokenYet {
			t.Fatalf("run waiting %q, %v", first.RunWaiting, err)
		}
		b.bell.answer = nil
		again, err := b.service.Resolve(t.Context(), ops, failed(r, "idem-1"))
		if err != nil || !again.Replayed || again.RunWaiting != operator.Woken || !b.waits(t, r)[0].Rung() {
			t.Errorf("replayed %t, run waiting %q, rung %t, %v", again.Replayed, again.RunWaiting, b.waits(t, r)[0].Rung(), err)
		}
		if again.Record.Version != first.Record.Version {
			t.Errorf("decided twice: version %d, then %d", first.Record.Version, again.Record.Version)
		}
	})
}

// The decision is stored and its answer is lost, and the one who sent it is gone.
func TestDecisionThatWasStoredUnheardIsFoundAndRungByItsRepetition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r := b.unknown(t, "c1")
		b.park(t, r, "w1")
		faults := make([]memledger.Fault, 20)
		for i := range faults {
			faults[i] = memledger.Fault{Op: memledger.Apply, Nth: i + 1, Persist: true}
		}
		b.store.Arm(faults...)
		down := make([]memledger.Fault, 20)
		for i := range down {
			down[i] = memledger.Fault{Op: memledger.Load, Nth: i + 2}
		}
		b.store.Arm(down...)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if got, err := b.service.Resolve(ctx, ops, failed(r, "idem-1")); err == nil || b.bell.times() != 0 {
			t.Fatalf("answered %+v after %d bells", got, b.bell.times())
		}
		for range 50 { // whatever is still armed is used up
			if got, err := b.service.Resolve(t.Context(), ops, failed(r, "idem-1")); err == nil {
				if got.Record.Status != "failed" || b.bell.times() == 0 || !b.waits(t, r)[0].Rung() || got.Record.Version != r.Version+1 {
					t.Errorf("%s at version %d, %d bells", got.Record.Status, got.Record.Version, b.bell.times())
				}
				return
			}
			time.Sleep(time.Second) // in the bubble's time
		}
		t.Error("never answered")
	})
}
