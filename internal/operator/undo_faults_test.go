package operator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/toolcall"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

var errDied = errors.New("the process is gone")

// dying is a process that stops at its nth request to the ledger or a function:
// before it is carried out, or after, with the answer unheard.
type dying struct {
	*memledger.Store
	functions toolcall.Functions
	left      int
	after     bool
}

// gone counts the request; do says whether it reaches who is asked.
func (d *dying) gone() (do, heard bool) {
	d.left--
	return d.left > 0 || d.left == 0 && d.after, d.left > 0
}

func asked[T any](d *dying, do func() (T, error)) (T, error) {
	var none, out T
	var err error
	carried, heard := d.gone()
	if carried {
		out, err = do()
	}
	if !heard {
		return none, errDied
	}
	return out, err
}

func (d *dying) Load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	return asked(d, func() (ledger.Record, error) { return d.Store.Load(ctx, key) })
}

func (d *dying) Apply(ctx context.Context, m ledger.Move) (ledger.Record, error) {
	return asked(d, func() (ledger.Record, error) { return d.Store.Apply(ctx, m) })
}

func (d *dying) Waits(ctx context.Context, key ledger.Key) ([]ledger.Wait, error) {
	return asked(d, func() ([]ledger.Wait, error) { return d.Store.Waits(ctx, key) })
}

func (d *dying) ConfirmWait(ctx context.Context, w ledger.Wait, how string, at time.Time) error {
	_, err := asked(d, func() (int, error) { return 0, d.Store.ConfirmWait(ctx, w, how, at) })
	return err
}

func (d *dying) Invoke(ctx context.Context, tool string, payload []byte) ([]byte, error) {
	return asked(d, func() ([]byte, error) { return d.functions.Invoke(ctx, tool, payload) })
}

// Wherever whoever asks for an undo dies: either nothing was asked and nothing is
// undone, or whoever looks after the call undoes it once and wakes its run.
//
// Proves: R112
func TestWhoeverDiesOnTheWayOfAnUndoIsFollowedUp(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for _, failing := range []bool{false, true} {
			t.Run(fmt.Sprintf("answer unheard %t, undo fails %t", after, failing), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					died := 0
					for n := 1; ; n++ {
						if !dies(t, n, after, failing) {
							break
						}
						died++
					}
					if died < 8 {
						t.Errorf("died at %d points only", died)
					}
				})
			})
		}
	}
}

func dies(t *testing.T, n int, after, failing bool) (died bool) {
	t.Helper()
	v := newVault(t)
	r := v.lostTrack(t)
	v.park(t, r, "w1")
	v.now = v.now.Add(time.Hour)
	if failing {
		v.bank.void = func() error { return once.NotAttempted(errors.New("no connection")) }
	}
	d := &dying{Store: v.store, functions: v.functions, left: n, after: after}
	victim := v.serviceWith(t, func(cfg *operator.Config) { cfg.Store, cfg.Waits, cfg.History, cfg.Tools = d, d, nil, d })
	in := undo(r, "k1")
	in.KnowsUnknown = true
	_, _ = victim.Compensate(t.Context(), ops, in)
	died = d.left <= 0
	for _, id := range []string{"c1", "c1~undo1"} { // as listed, in the other order too
		for range 2 {
			if _, err := v.service.Tend(t.Context(), r.Key); err != nil {
				t.Fatalf("died at %d: %v", n, err)
			}
			if _, err := v.service.Tend(t.Context(), ledger.Key{Tenant: "acme", RunID: "run-1", CallID: id}); err != nil {
				t.Fatalf("died at %d: %v", n, err)
			}
		}
	}
	owner, voids := v.at(t, "c1"), v.bank.count(v.bank.voids)
	woken := v.waits(t, r)[0].Rung()
	switch {
	case owner.Undo.N == 0 && voids == 0 && !woken && !v.at(t, "c1~undo1").Exists():
	case owner.Undo.N == 1 && !failing && voids == 1 && woken && owner.Status == ledger.Compensated:
	case owner.Undo.N == 1 && failing && voids == 0 && !woken && owner.State().String() == "indeterminate, decided":
	default:
		t.Errorf("died at %d: the call is %s, %d voids, woken %t", n, owner.State(), voids, woken)
	}
	return died
}

// Each durable step of an undo fails in each way, once: the request answers, or
// the same request again does, and there is one void.
func TestEachStepOfAnUndoMayBeStoredUnheardOrNotAtAll(t *testing.T) {
	t.Parallel()
	steps := []memledger.Fault{
		{Op: memledger.Load, Nth: 1},
		{Op: memledger.Load, Nth: 2},
		{Op: memledger.Load, Nth: 3},
		{Op: memledger.Load, Nth: 4},
		{Op: memledger.Load, Nth: 5},
		{Op: memledger.Apply, Event: ledger.AskUndo},
		{Op: memledger.Apply, Event: ledger.Start},
		{Op: memledger.Apply, Event: ledger.Complete},
		{Op: memledger.Apply, Event: ledger.UndoComplete},
		{Op: memledger.ListWaits},
		{Op: memledger.ConfirmWait},
	}
	for _, step := range steps {
		for _, way := range []memledger.Fault{{Persist: true}, {}, {Answer: true}} {
			fault := step
			fault.Persist, fault.Answer = way.Persist, way.Answer
			t.Run(fmt.Sprintf("%s %s %d, stored %t, answered %t", fault.Op, fault.Event, fault.Nth, fault.Persist, fault.Answer), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					v := newVault(t)
					r := v.lostTrack(t)
					v.park(t, r, "w1")
					v.now = v.now.Add(time.Hour)
					v.store.Arm(fault)
					in := undo(r, "k1")
					in.KnowsUnknown = true
					tries := 0
					for ; tries < 4; tries++ {
						got, err := v.service.Compensate(t.Context(), ops, in)
						if err == nil && !got.Undo.Open {
							break
						}
						v.now = v.now.Add(time.Minute)
					}
					if own := v.at(t, "c1~undo1"); own.Status == ledger.Indeterminate { // its settlement was not stored
						if _, err := v.service.Resolve(t.Context(), ops, operator.Resolution{Command: operator.Command{Key: own.Key.String(), Reason: "seen", ExpectedVersion: own.Version}, Outcome: operator.OutcomeCompleted}); err != nil {
							t.Fatal(err)
						}
					}
					owner := v.at(t, "c1")
					if owner.Status != ledger.Compensated || owner.Undo.N != 1 || v.bank.count(v.bank.voids) != 1 || !v.waits(t, r)[0].Rung() || v.store.Armed() != 0 {
						t.Errorf("after %d tries the call is %s, %d undos, %d voids, woken %t, %d faults left", tries+1, owner.State(), owner.Undo.N, v.bank.count(v.bank.voids), v.waits(t, r)[0].Rung(), v.store.Armed())
					}
				})
			})
		}
	}
}
