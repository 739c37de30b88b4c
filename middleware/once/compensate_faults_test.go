package once_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// Proves: R44, R45, R111
func TestFaultAtAnyStepOfAnUndoVoidsOnceAndIsNeverCalledFailed(t *testing.T) {
	t.Parallel()
	for _, step := range []struct {
		op    memledger.Op
		event ledger.Event
	}{
		{memledger.Load, ""},
		{memledger.Result, ""},
		{memledger.Apply, ledger.Start},
		{memledger.Apply, ledger.Complete},
		{memledger.Apply, ledger.LoseTrack},
		{memledger.Apply, ledger.Orphan},
	} {
		for kind, fault := range map[string]memledger.Fault{
			"request lost":             {},
			"answer lost":              {Persist: true},
			"refused":                  {Answer: true},
			"answer lost, sent again":  {Persist: true, Retry: true},
			"request lost, sent again": {Retry: true},
		} {
			for _, times := range []int{1, 20} {
				for _, lost := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s %s, %s, %d times, receiver's answer lost %t", step.op, step.event, kind, times, lost), func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) {
							faults := make([]memledger.Fault, times)
							for i := range faults {
								faults[i] = fault
								faults[i].Op, faults[i].Event, faults[i].Nth = step.op, step.event, i+1
							}
							surviveUndo(t, faults, lost)
						})
					})
				}
			}
		}
	}
}

// surviveUndo sends one undo under faults until nothing more comes of it, and
// checks what may never be.
func surviveUndo(t *testing.T, faults []memledger.Fault, answerLost bool) {
	t.Helper()
	store, b := newStore(t), &till{}
	if answerLost {
		b.void = fails(errors.New("connection reset"))
	}
	in := creditIn{Account: strings.Repeat("x", ledger.InlineResult), Cents: 5} // its result lies beside the record
	bound := bind(t, newGuard(t, store), b.tool())
	bound.Do(t.Context(), call1, in)
	askUndo(t, store, call1.Key(), time.Now())
	store.Arm(faults...)
	var r once.Report
	for range 15 {
		r = bound.Compensate(t.Context(), undo1, in)
		voids := b.all()[undo1.Key().String()]
		if voids > 1 || len(b.all()) > 1 {
			t.Fatalf("voids %v", b.all())
		}
		if voids == 1 && (r.Status == once.Failed || r.Effect == ledger.NoEffect) || voids == 0 && r.Effect == ledger.Happened {
			t.Errorf("told %s, effect %s, of %d voids", r.Status, r.Effect, voids)
		}
		rec := record(t, withoutFaults{store}, undo1.Key())
		if r.Status == once.Completed && rec.Status != ledger.Completed {
			t.Errorf("answered completed, stored %s", rec.State())
		}
		if voids == 1 && b.undone.Outcome.Result == nil {
			t.Error("voided without the result, which is kept")
		}
		time.Sleep(max(r.RetryAfter, 15*time.Second)) // in the bubble's time
	}
	// An undo that was reserved and whose executor never heard of it ends unknown.
	if voids := len(b.all()); r.Status != once.Completed && r.Status != once.Indeterminate || r.Status == once.Completed && voids != 1 {
		t.Errorf("ended %+v, voids %v", r, b.all())
	}
	if answerLost && r.Status != once.Indeterminate {
		t.Errorf("ended %+v, and nobody can know", r)
	}
	if owner := record(t, withoutFaults{store}, call1.Key()); owner.Status != ledger.Completed || !owner.Flags.Has(ledger.UndoOpen) {
		t.Errorf("the call stands %s", owner.State())
	}
}

func TestUndoOnALedgerThatIsDownOrCorruptRunsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store func(*memledger.Store) ledger.Store
		code  string
	}{
		"down":    {func(s *memledger.Store) ledger.Store { return downStore{s} }, "store_unavailable"},
		"corrupt": {func(s *memledger.Store) ledger.Store { return corruptStore{s} }, "corrupt_record"},
		"the call's record is corrupt": {func(s *memledger.Store) ledger.Store {
			return corruptAt{s, call1.Key()}
		}, "corrupt_record"},
		"the undo's record is corrupt": {func(s *memledger.Store) ledger.Store {
			return corruptAt{s, undo1.Key()}
		}, "corrupt_record"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, b := newStore(t), &till{}
				bind(t, newGuard(t, store), b.tool()).Do(t.Context(), call1, five)
				askUndo(t, store, call1.Key(), time.Now())
				r := bind(t, newGuard(t, c.store(store)), b.tool()).Compensate(t.Context(), undo1, five)
				want(t, r, once.Refused, ledger.Unknown, ledger.Inspect, c.code)
				if len(b.all()) != 0 || r.Key != undo1.Key() {
					t.Errorf("voids %v, %+v", b.all(), r)
				}
			})
		})
	}
}

// corruptAt is a store in which one record can't be read as one.
type corruptAt struct {
	ledger.Store
	key ledger.Key
}

func (c corruptAt) Load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	if key == c.key {
		return ledger.Record{}, fmt.Errorf("item: %w", ledger.ErrCorrupt)
	}
	return c.Store.Load(ctx, key)
}

func (c corruptAt) Apply(ctx context.Context, m ledger.Move) (ledger.Record, error) {
	if m.Key() == c.key {
		return ledger.Record{}, fmt.Errorf("item: %w", ledger.ErrCorrupt)
	}
	return c.Store.Apply(ctx, m)
}
