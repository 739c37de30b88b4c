package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/doorbell"
	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/toolcall"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

func (b *bench) tend(t *testing.T, r ledger.Record) operator.Tended {
	t.Helper()
	got, err := b.service.Tend(t.Context(), r.Key)
	if err != nil {
		t.Fatal(err)
	}
	clean(t, got)
	return got
}

func TestTendingDoesWhatNobodyHasToDecideAndNothingElse(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		make func(*testing.T, *bench) ledger.Record
		want operator.Tended
	}{
		"an executor at work": {
			func(t *testing.T, b *bench) ledger.Record { t.Helper(); return b.start(t, "c1") },
			operator.Tended{State: "started", WaitingSince: start, Rung: 1},
		},
		"an executor that is overdue, whose look-up can't tell": {
			func(t *testing.T, b *bench) ledger.Record {
				t.Helper()
				r := b.overdue(t, "c1")
				b.answers(stillUnknown)
				return r
			},
			operator.Tended{State: "indeterminate", Orphaned: true, LookedUp: true, NeedsSomebody: true, WaitingSince: start.Add(21 * time.Second)},
		},
		"an executor that is overdue, whose look-up finds the effect": {
			func(t *testing.T, b *bench) ledger.Record {
				t.Helper()
				r := b.overdue(t, "c1")
				b.finds(t, r)
				return r
			},
			operator.Tended{State: "completed", Orphaned: true, LookedUp: true, Rung: 1},
		},
		"an approval that is waited for": {
			func(t *testing.T, b *bench) ledger.Record { t.Helper(); return b.reserve(t, "c1") },
			operator.Tended{State: "reserved", NeedsSomebody: true, WaitingSince: start},
		},
		"an approval that nobody gave": {
			func(t *testing.T, b *bench) ledger.Record {
				t.Helper()
				r := b.reserve(t, "c1")
				b.now = b.now.Add(2 * time.Hour)
				return r
			},
			operator.Tended{State: "failed, final", Expired: true, Rung: 1},
		},
		"an unknown call": {
			func(t *testing.T, b *bench) ledger.Record { t.Helper(); return b.unknown(t, "c1") },
			operator.Tended{State: "indeterminate", NeedsSomebody: true, WaitingSince: start},
		},
		"an unknown call whose look-up is due": {
			func(t *testing.T, b *bench) ledger.Record {
				t.Helper()
				r := b.unknown(t, "c1")
				b.answers(stillUnknown)
				b.now = b.now.Add(time.Minute)
				return r
			},
			operator.Tended{State: "indeterminate", LookedUp: true, NeedsSomebody: true, WaitingSince: start},
		},
		"an unknown call whose look-up finds the effect": {
			func(t *testing.T, b *bench) ledger.Record {
				t.Helper()
				r := b.unknown(t, "c1")
				b.finds(t, r)
				b.now = b.now.Add(time.Minute)
				return r
			},
			operator.Tended{State: "completed", LookedUp: true, Rung: 1},
		},
		"a call that somebody settled and did not ring for": {
			func(t *testing.T, b *bench) ledger.Record {
				t.Helper()
				r := b.unknown(t, "c1")
				move, err := r.Resolve(b.stamp("r"), ledger.Decision{ID: "d", Actor: "ada", Reason: "r", Version: r.Version}, ledger.Settlement{Effect: ledger.NoEffect})
				return b.apply(t, move, err)
			},
			operator.Tended{State: "failed, final", Rung: 1},
		},
		"a call that nothing is recorded of": {
			func(*testing.T, *bench) ledger.Record { return ledger.Record{Key: call("c1").Key} },
			operator.Tended{State: "none", Rung: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := tt.make(t, b)
			b.park(t, r, "w1")
			before := len(b.stored(t, r).Decisions)
			if diff := cmp.Diff(tt.want, b.tend(t, r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again := tt.want
			again.Orphaned, again.Expired, again.LookedUp, again.Rung = false, false, false, 0
			if diff := cmp.Diff(again, b.tend(t, r)); diff != "" {
				t.Errorf("a second time (-want +got):\n%s", diff)
			}
			if after := b.stored(t, r); len(after.Decisions) != before || after.Undo.N != 0 {
				t.Errorf("somebody decided: %+v", after.Decisions)
			}
		})
	}
}

// Proves: R113, R114, R115, R116
func TestNothingIsEverUndoneUnasked(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*testing.T, *vault, ledger.Record){
		"its run has failed": func(t *testing.T, v *vault, _ ledger.Record) {
			t.Helper()
			v.ends(t, "Onceward.CallUnresolved")
		},
		"its run was cancelled": func(t *testing.T, v *vault, _ ledger.Record) {
			t.Helper()
			v.ends(t, "States.Aborted")
		},
		"its run is recovered": func(t *testing.T, v *vault, r ledger.Record) {
			t.Helper()
			v.park(t, r, "w1")
			if _, err := v.functions.handler.Invoke(t.Context(), []byte(invocation)); err != nil {
				t.Fatal(err)
			}
		},
		"a person resolved it": func(t *testing.T, v *vault, r ledger.Record) {
			t.Helper()
			_, _ = v.service.Resolve(t.Context(), ops, failed(r, ""))
		},
		"a person asked its look-up": func(t *testing.T, v *vault, _ ledger.Record) {
			t.Helper()
			_, _ = v.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1"})
		},
		"an undo was refused": func(t *testing.T, v *vault, r ledger.Record) {
			t.Helper()
			r.Version = 9
			_, err := v.service.Compensate(t.Context(), ops, undo(r, ""))
			if _, ok := errors.AsType[*operator.Problem](err); !ok {
				t.Errorf("got %v", err)
			}
		},
	} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, its outcome is known %t", name, known), func(t *testing.T) {
				t.Parallel()
				v := newVault(t)
				var r ledger.Record
				if known {
					r = v.called(t)
				} else {
					r = v.lostTrack(t)
				}
				do(t, v, r)
				for range 5 { // whoever looks after it comes by
					for _, key := range []ledger.Key{r.Key, r.Key.Undo(1)} {
						got, err := v.service.Tend(t.Context(), key)
						if err != nil || got.UndoInvoked || got.UndoClosed {
							t.Errorf("%+v, %v", got, err)
						}
					}
					v.now = v.now.Add(24 * time.Hour)
				}
				after := v.at(t, "c1")
				if after.Undo.N != 0 || after.Status == ledger.Compensated || v.at(t, "c1~undo1").Exists() || v.bank.count(v.bank.voids) != 0 || v.functions.asked != 0 {
					t.Errorf("%s, %d undos, asked %d times", after.State(), after.Undo.N, v.functions.asked)
				}
			})
		}
	}
}

// ends makes the call's run end as failed.
func (v *vault) ends(t *testing.T, name string) {
	t.Helper()
	run, err := v.runs.Load(t.Context(), runs.ID{Tenant: "acme", Run: "run-1"})
	if err != nil {
		t.Fatal(err)
	}
	run.Status, run.Failure.Error, run.EndedAt = "failed", name, v.now
	run.Version++
	run.LastWrite = canaryWrite + name
	if _, err := v.runs.Save(t.Context(), run); err != nil {
		t.Fatal(err)
	}
}

func TestAnUnknownCallIsLookedUpTheMoreSeldomTheLongerItIsUnknown(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func() ([]byte, error){
		"it can't tell":   func() ([]byte, error) { return []byte(stillUnknown), nil },
		"it has none":     func() ([]byte, error) { return []byte(`{"onceward":1,"status":"indeterminate","next":"park"}`), nil },
		"it is not there": func() ([]byte, error) { return nil, errors.New("connection reset") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := b.unknown(t, "c1")
			b.tools.answer = answer
			asked := map[int]int{} // by day
			for tick := range 14 * 24 * 60 {
				b.now = b.now.Add(time.Minute)
				got, err := b.service.Tend(t.Context(), r.Key)
				if got.LookedUp {
					asked[tick/24/60]++
				}
				if (err != nil) != (got.LookedUp && name == "it is not there") {
					t.Fatal(err)
				}
			}
			if asked[0] < 20 || asked[0] > 60 || asked[13] != 24 {
				t.Errorf("asked %v times", asked)
			}
			if after := b.stored(t, r); after.Version != r.Version {
				t.Errorf("asking made people's decisions stale: %s at %d", after.State(), after.Version)
			}
		})
	}
}

func TestATenantWithoutTheToolsFunctionIsLeftToPeople(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.tools.answer = func() ([]byte, error) { return nil, toolcall.ErrNoTool }
	b.now = b.now.Add(time.Hour)
	if got := b.tend(t, r); got.LookedUp || !got.NeedsSomebody {
		t.Errorf("%+v", got)
	}
}

func TestTwoWhoTendAtOnceDoEachThingOnce(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	r := v.called(t)
	v.functions.lose = func(mode once.Mode) (bool, bool) { return mode == once.ModeCompensate, false }
	if _, err := v.service.Compensate(t.Context(), ops, undo(r, "")); err != nil {
		t.Fatal(err)
	}
	v.functions.lose = nil
	v.park(t, r, "w1")
	v.bell.answer = func(n int, _ string) error {
		if n > 1 {
			return &doorbell.GoneError{How: "TaskTimedOut"}
		}
		return nil
	}
	closed := make([]bool, 8)
	var all sync.WaitGroup
	for i := range closed {
		all.Go(func() {
			got, err := v.service.Tend(t.Context(), []ledger.Key{r.Key, r.Key.Undo(1)}[i%2])
			if err != nil {
				t.Error(err)
			}
			closed[i] = got.UndoClosed
		})
	}
	all.Wait()
	closings := 0
	for _, c := range closed {
		if c {
			closings++
		}
	}
	if after := v.at(t, "c1"); after.Status != ledger.Compensated || closings != 1 || v.bank.count(v.bank.voids) != 1 || !v.waits(t, r)[0].Rung() {
		t.Errorf("%s, closed by %d, %d voids", after.State(), closings, v.bank.count(v.bank.voids))
	}
}

func TestWhoeverTendsIsToldWhatCouldNotBeDoneAndDoesItTheNextTime(t *testing.T) {
	t.Parallel()
	for _, fault := range []memledger.Fault{
		{Op: memledger.Load},
		{Op: memledger.Apply, Event: ledger.Expire},
		{Op: memledger.Apply, Event: ledger.Expire, Persist: true},
		{Op: memledger.ListWaits},
		{Op: memledger.ConfirmWait},
		{Op: memledger.ConfirmWait, Persist: true},
	} {
		t.Run(fmt.Sprintf("%s, stored %t", fault.Op, fault.Persist), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				r := b.reserve(t, "c1")
				b.park(t, r, "w1")
				b.now = b.now.Add(2 * time.Hour)
				b.store.Arm(fault)
				_, err := b.service.Tend(t.Context(), r.Key)
				if (err == nil) != (fault.Op == memledger.Apply) { // a move whose fate is unknown is sent again at once
					t.Errorf("got %v", err)
				}
				got := b.tend(t, r)
				if got.State != "failed, final" || !b.waits(t, r)[0].Rung() {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

func TestARecordThatCannotBeReadIsNotTended(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	service := b.serviceWith(t, func(cfg *operator.Config) { cfg.Store = unreadableRecords{b.store} })
	if _, err := service.Tend(t.Context(), r.Key); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

type unreadableRecords struct{ *memledger.Store }

func (unreadableRecords) Load(context.Context, ledger.Key) (ledger.Record, error) {
	return ledger.Record{}, fmt.Errorf("%w: %s", ledger.ErrCorrupt, "schema")
}

func TestWhatWasDoneIsJSONWithoutEmptyTimes(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(operator.Tended{State: "completed"})
	if want := `{"state":"completed","orphaned":false,"expired":false,"looked_up":false,"undo_invoked":false,"undo_closed":false,"rung":0,"needs_somebody":false}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

func TestAWriteOffByWhoeverTendsMayBeStoredUnheardOrNotAtAll(t *testing.T) {
	t.Parallel()
	for _, fault := range []memledger.Fault{{Persist: true}, {}, {Answer: true}, {Persist: true, Retry: true}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			r := b.overdue(t, "c1")
			b.answers(stillUnknown)
			b.park(t, r, "w1")
			fault.Op, fault.Event = memledger.Apply, ledger.Orphan
			b.store.Arm(fault)
			got := b.tend(t, r)
			if after := b.stored(t, r); got.State != "indeterminate" || !got.Orphaned || after.Version != 2 || b.waits(t, r)[0].Rung() {
				t.Errorf("%+v: %+v, %s at %d", fault, got, after.State(), after.Version)
			}
		})
	}
}

func TestALookUpThatSomebodyElseOvertakesStands(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.park(t, r, "w1")
	b.now = b.now.Add(time.Minute)
	b.tools.answer = func() ([]byte, error) { // a person decides while the look-up is under way
		if _, err := b.service.Resolve(t.Context(), ops, failed(r, "")); err != nil {
			t.Error(err)
		}
		return nil, errors.New("connection reset")
	}
	got := b.tend(t, r)
	if got.State != "failed, final" || !got.LookedUp || got.Rung != 0 || got.NeedsSomebody || b.bell.times() != 1 {
		t.Errorf("%+v after %d bells", got, b.bell.times())
	}
}
