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

// Proves: R44, R45, R147, R148, R149, R150, R151, R155
func TestFaultAtAnyDurableStepTakesEffectOnceAndIsNeverCalledFailed(t *testing.T) {
	t.Parallel()
	steps := []struct {
		op    memledger.Op
		event ledger.Event
	}{
		{memledger.Apply, ledger.Start},
		{memledger.Apply, ledger.Complete},
		{memledger.Apply, ledger.LoseTrack},
		{memledger.Apply, ledger.Orphan},
		{memledger.Apply, ledger.Find},
		{memledger.Apply, ledger.Note},
		{memledger.KeepResult, ledger.Complete},
		{memledger.Load, ""},
		{memledger.Result, ""},
	}
	for _, step := range steps {
		for _, persist := range []bool{true, false} {
			for _, answer := range []bool{true, false} {
				for _, times := range []int{1, 20} {
					for _, lost := range []bool{false, true} {
						if persist && answer {
							continue // no fault
						}
						name := fmt.Sprintf("%s %s persisted=%t answered=%t times=%d receiver's answer lost=%t", step.op, step.event, persist, answer, times, lost)
						t.Run(name, func(t *testing.T) {
							t.Parallel()
							synctest.Test(t, func(t *testing.T) {
								faults := make([]memledger.Fault, times)
								for i := range faults {
									faults[i] = memledger.Fault{Op: step.op, Event: step.event, Nth: i + 1, Persist: persist, Answer: answer}
								}
								surviveFaults(t, faults, lost)
							})
						})
					}
				}
			}
		}
	}
}

// surviveFaults makes one call until it is settled and checks what may never be.
func surviveFaults(t *testing.T, faults []memledger.Fault, answerLost bool) {
	t.Helper()
	store, b := newStore(t), &bank{}
	long := strings.Repeat("x", ledger.InlineResult+1)
	if answerLost {
		b.after = func(context.Context) error { return errors.New("connection reset") }
	}
	bound := bind(t, newGuard(t, store), b.tool(b.withLookUp))
	in := creditIn{Account: long, Cents: 5}
	store.Arm(faults...)
	var out once.Outcome[credit]
	for range 12 {
		out = bound.Do(t.Context(), call1, in)
		if b.effects.Load() > 1 {
			t.Fatalf("effects = %d", b.effects.Load())
		}
		if b.effects.Load() == 1 && (out.Status == once.Failed || out.Effect == ledger.NoEffect) {
			t.Errorf("told %s, effect %s, although it happened", out.Status, out.Effect)
		}
		if c, err := out.Value(); err == nil && c.ID != "cr_"+long {
			t.Errorf("result %v", c)
		}
		rec := record(t, withoutFaults{store}, call1.Key())
		if out.Status == once.Completed && rec.Status != ledger.Completed {
			t.Errorf("answered completed, stored %s", rec.State())
		}
		if out.Status == once.Completed {
			break
		}
		time.Sleep(max(out.RetryAfter, 15*time.Second)) // in the bubble's time
	}
	if out.Status != once.Completed || b.effects.Load() != 1 || b.runs.Load() != 1 {
		t.Errorf("ended %+v, effects %d, runs %d", out.Report, b.effects.Load(), b.runs.Load())
	}
}

// withoutFaults reads a store past its faults, as a test may.
type withoutFaults struct{ *memledger.Store }

func (w withoutFaults) Load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	for range 100 {
		if rec, err := w.Store.Load(ctx, key); err == nil {
			return rec, nil
		}
	}
	return ledger.Record{}, errors.New("more faults than tries")
}

// Proves: R45
func TestLostAnswerOfTheReservationIsRecognisedAsOwnWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := newStore(t), &bank{}
		store.Arm(memledger.Fault{Op: memledger.Apply, Event: ledger.Start, Persist: true})
		out := bind(t, newGuard(t, store), b.tool()).Do(t.Context(), call1, five)
		want(t, out.Report, once.Completed, ledger.Happened, ledger.Done, "")
		if out.Replayed || b.runs.Load() != 1 {
			t.Errorf("replayed %t, runs %d", out.Replayed, b.runs.Load())
		}
	})
}

func TestStoreThatIsDownBeforeTheEffectRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bank{}
		out := bind(t, newGuard(t, downStore{newStore(t)}), b.tool()).Do(t.Context(), call1, five)
		want(t, out.Report, once.Refused, ledger.Unknown, ledger.Inspect, "store_unavailable")
		if _, err := out.Value(); !errors.Is(err, once.Refused) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if b.runs.Load() != 0 {
			t.Error("the tool ran")
		}
	})
}

func TestReservationWhoseOutcomeIsOpenIsNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := newStore(t), &bank{}
		for n := range 10 {
			store.Arm(memledger.Fault{Op: memledger.Apply, Event: ledger.Start, Nth: n + 1})
		}
		out := bind(t, newGuard(t, store), b.tool()).Do(t.Context(), call1, five)
		want(t, out.Report, once.Refused, ledger.NoEffect, ledger.Inspect, "store_unavailable")
		if b.runs.Load() != 0 {
			t.Error("the tool ran")
		}
	})
}

// Proves: R45, R84
func TestSettleThatCantBeStoredIsAnsweredAsUnknown(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"it happened": nil, "it was refused": once.Rejected(errors.New("no")), "nothing was sent": once.NotAttempted(errors.New("x"))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, b := newStore(t), &bank{after: func(context.Context) error { return err }}
				out := bind(t, newGuard(t, deafStore{store}), b.tool()).Do(t.Context(), call1, five)
				want(t, out.Report, once.Indeterminate, ledger.Unknown, ledger.Look, "not_recorded")
				if _, err := out.Value(); err == nil {
					t.Error("gave out what was not stored")
				}
			})
		})
	}
}

func TestSettleOutlivesItsCallersContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := newStore(t), &bank{}
		ctx, cancel := context.WithCancel(t.Context())
		b.after = func(context.Context) error { cancel(); return nil }
		out := bind(t, newGuard(t, store), b.tool()).Do(ctx, call1, five)
		want(t, out.Report, once.Completed, ledger.Happened, ledger.Done, "")
	})
}

func TestRecordThatIsGoneIsNotRecreatedByTheSettle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := &forgetful{Store: newStore(t)}, &bank{}
		b.after = func(context.Context) error { store.Store = newStore(t); return nil }
		out := bind(t, newGuard(t, store), b.tool()).Do(t.Context(), call1, five)
		want(t, out.Report, once.Indeterminate, ledger.Unknown, ledger.Look, "not_recorded")
		if record(t, store, call1.Key()).Exists() {
			t.Error("the settle made a record")
		}
	})
}

// forgetful is a store whose records can be lost.
type forgetful struct{ ledger.Store }

func TestCorruptRecordFailsClosed(t *testing.T) {
	t.Parallel()
	b := &bank{}
	out := bind(t, newGuard(t, corruptStore{newStore(t)}), b.tool()).Do(t.Context(), call1, five)
	want(t, out.Report, once.Refused, ledger.Unknown, ledger.Inspect, "corrupt_record")
	if b.runs.Load() != 0 {
		t.Error("the tool ran")
	}
}

type corruptStore struct{ ledger.Store }

func (corruptStore) Apply(context.Context, ledger.Move) (ledger.Record, error) {
	return ledger.Record{}, fmt.Errorf("item: %w", ledger.ErrCorrupt)
}

func (corruptStore) Load(context.Context, ledger.Key) (ledger.Record, error) {
	return ledger.Record{}, fmt.Errorf("item: %w", ledger.ErrCorrupt)
}
