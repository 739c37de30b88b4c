package operator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

// asleep settles a call whose run's bell is lost. It belongs into a bubble,
// since bells are tried again for some seconds.
func (b *bench) asleep(t *testing.T, id string) ledger.Record {
	t.Helper()
	r := b.unknown(t, id)
	b.park(t, r, "w1")
	b.bell.answer = func(int, string) error { return errors.New("down") }
	got, err := b.service.Resolve(t.Context(), ops, failed(r, ""))
	if err != nil || got.RunWaiting != operator.NotWokenYet {
		t.Fatalf("run waiting %q, %v", got.RunWaiting, err)
	}
	b.bell.answer = nil
	after, err := b.store.Load(t.Context(), r.Key)
	if err != nil {
		t.Fatal(err)
	}
	return after
}

func TestEveryRequestOnASettledCallWakesItsRun(t *testing.T) {
	t.Parallel()
	verbs := map[string]func(context.Context, *operator.Service, operator.Command) error{
		"resolve": func(ctx context.Context, s *operator.Service, c operator.Command) error {
			_, err := s.Resolve(ctx, other, operator.Resolution{Command: c, Outcome: operator.OutcomeFailed})
			return err
		},
		"reconcile": func(ctx context.Context, s *operator.Service, c operator.Command) error {
			_, err := s.Reconcile(ctx, other, operator.Inquiry{Key: c.Key})
			return err
		},
		"reconcile of an older version": func(ctx context.Context, s *operator.Service, c operator.Command) error {
			_, err := s.Reconcile(ctx, other, operator.Inquiry{Key: c.Key, ExpectedVersion: 1})
			return err
		},
		"approve": func(ctx context.Context, s *operator.Service, c operator.Command) error {
			_, err := s.Approve(ctx, other, c)
			return err
		},
		"deny": func(ctx context.Context, s *operator.Service, c operator.Command) error {
			_, err := s.Deny(ctx, other, c)
			return err
		},
		"withdraw": func(ctx context.Context, s *operator.Service, c operator.Command) error {
			_, err := s.Withdraw(ctx, other, c)
			return err
		},
		"acknowledge": func(ctx context.Context, s *operator.Service, c operator.Command) error {
			_, err := s.Acknowledge(ctx, other, c)
			return err
		},
	}
	for name, send := range verbs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				r := b.asleep(t, "c1")
				for n := range 2 {
					err := send(t.Context(), b.service, operator.Command{Key: "run-1:c1", Reason: "r", ExpectedVersion: r.Version - 1})
					p, ok := errors.AsType[*operator.Problem](err)
					if !ok || p.Status != 409 || p.RunWaiting != operator.Woken || !strings.Contains(p.Detail, "Its parked run has been woken.") {
						t.Fatalf("request %d: %+v", n, p)
					}
				}
				if !b.waits(t, r)[0].Rung() {
					t.Error("its bell is not confirmed")
				}
			})
		})
	}
}

func TestARunThatStillCantBeWokenIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r := b.asleep(t, "c1")
		b.store.Arm(memledger.Fault{Op: memledger.ListWaits}, memledger.Fault{Op: memledger.ListWaits, Nth: 2}, memledger.Fault{Op: memledger.ListWaits, Nth: 3},
			memledger.Fault{Op: memledger.ListWaits, Nth: 4}, memledger.Fault{Op: memledger.ListWaits, Nth: 5})
		_, err := b.service.Resolve(t.Context(), other, failed(r, ""))
		if p := theProblem(t, err, operator.AlreadyDecided); p.RunWaiting != operator.NotWokenYet || !strings.Contains(p.Detail, "POST reconcile") {
			t.Errorf("told %+v", p)
		}
	})
}

func TestARefusedRequestWakesNobodyWhileADecisionIsNeeded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.park(t, r, "w1")
	_, err := b.service.Deny(t.Context(), ops, operator.Command{Key: "run-1:c1", Reason: "r", ExpectedVersion: r.Version})
	if p := theProblem(t, err, operator.NotAllowed); p.RunWaiting != operator.StillWaiting || b.bell.times() != 0 {
		t.Errorf("run waiting %q, %d bells", p.RunWaiting, b.bell.times())
	}
}

func TestAKeyThatWasUsedForSomethingElseWakesToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r := b.unknown(t, "c1")
		b.park(t, r, "w1")
		b.bell.answer = func(int, string) error { return errors.New("down") }
		if _, err := b.service.Resolve(t.Context(), ops, failed(r, "k")); err != nil {
			t.Fatal(err)
		}
		b.bell.answer = nil
		changed := failed(r, "k")
		changed.Reason = "another"
		_, err := b.service.Resolve(t.Context(), ops, changed)
		if p := theProblem(t, err, operator.KeyReused); p.RunWaiting != operator.Woken {
			t.Errorf("run waiting %q", p.RunWaiting)
		}
	})
}

func TestASettledCallIsListedAndShownUntilItsRunIsWoken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r := b.asleep(t, "c1")
		b.now = b.now.Add(90 * time.Second)
		list, err := b.service.List(t.Context(), ops, operator.Filter{})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		item := list.Items[0]
		if item.Why != operator.WhyNotWoken || !strings.Contains(item.WhatToDo, "POST reconcile wakes it") || item.Status != "failed" || item.Effect != "none" ||
			item.WaitingSince != "2026-11-29T12:00:00Z" || item.WaitingSeconds != 90 || item.Version != r.Version {
			t.Errorf("listed as %+v", item)
		}
		shown, err := b.service.Show(t.Context(), ops, "run-1:c1")
		if err != nil || shown.Why != operator.WhyNotWoken || shown.WhatToDo != item.WhatToDo {
			t.Errorf("shown as %q, %q, %v", shown.Why, shown.WhatToDo, err)
		}
		clean(t, list)
		clean(t, shown)
		_, err = b.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1"})
		wantProblem(t, err, operator.NothingToLookUp)
		shown, err = b.service.Show(t.Context(), ops, "run-1:c1")
		if err != nil || shown.Why != "" || shown.WhatToDo != "" {
			t.Errorf("woken, and shown as %q, %q, %v", shown.Why, shown.WhatToDo, err)
		}
		if list, err = b.service.List(t.Context(), ops, operator.Filter{}); err != nil || len(list.Items) != 0 {
			t.Errorf("woken, and listed as %+v, %v", list, err)
		}
	})
}

func TestAnUnusedGrantWhoseRunSleepsSaysWhatToDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r := b.unknown(t, "c1")
		b.park(t, r, "w1")
		b.bell.answer = func(int, string) error { return errors.New("down") }
		in := failed(r, "")
		in.AllowRetry = true
		if _, err := b.service.Resolve(t.Context(), ops, in); err != nil {
			t.Fatal(err)
		}
		shown, err := b.service.Show(t.Context(), ops, "run-1:c1")
		if err != nil || shown.Why != operator.WhyGranted || shown.WhatToDo == "" {
			t.Errorf("shown as %q, %q, %v", shown.Why, shown.WhatToDo, err)
		}
	})
}

// sleepers parks runs, twice each, on calls that need nobody, between calls that
// do, and returns what a list holds of them.
func (b *bench) sleepers(t *testing.T, n int) (want []string) {
	t.Helper()
	for i := range n {
		id := fmt.Sprintf("c%03d", i)
		r := b.start(t, id)
		b.park(t, r, "w1")
		b.now = b.now.Add(700 * time.Millisecond)
		b.park(t, r, "w2")
		move, err := r.Settle(b.stamp("done-"+id), r.Attempt.Token, ledger.Settlement{Effect: ledger.Happened})
		b.apply(t, move, err)
		want = append(want, id+" run_not_woken")
		if i%3 == 0 {
			b.unknown(t, "u-"+id)
			want = append(want, "u-"+id+" unknown_outcome")
		}
		b.now = b.now.Add(700 * time.Millisecond)
	}
	return want
}

func TestListPagesHoldASleepingRunsCallOnceInItsPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want := b.sleepers(t, 130)
	loads := 0
	b.store.OnMoment(func(m memledger.Moment) {
		if m.When == "before" && m.Step.Op == memledger.Load {
			loads++
		}
	})
	for _, limit := range []int{3, 50, 200} {
		var got []string
		filter := operator.Filter{Limit: limit}
		for {
			loads = 0
			list, err := b.service.List(t.Context(), ops, filter)
			if err != nil || len(list.Items) > limit || loads > 200 {
				t.Fatalf("limit %d: %d calls by %d loads, %v", limit, len(list.Items), loads, err)
			}
			got = append(got, keys(list)...)
			if filter.Cursor = list.NextCursor; filter.Cursor == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

func TestListWouldRatherFailThanLeaveASleepingRunOut(t *testing.T) {
	t.Parallel()
	for _, op := range []memledger.Op{memledger.Load, memledger.ListWaits} {
		b := newBench(t)
		b.sleepers(t, 1)
		b.store.Arm(memledger.Fault{Op: op})
		_, err := b.service.List(t.Context(), ops, operator.Filter{})
		wantProblem(t, err, operator.Unavailable)
	}
}

func TestASleepingRunOfAnotherTenantIsNotListed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sleepers(t, 1)
	service, err := operator.New(operator.Config{Store: leaky{b.store}, Waits: b.store, Runs: b.runs, Bell: b.bell, Tools: b.tools, Launcher: noLauncher{}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := service.List(t.Context(), operator.Identity{Tenant: "evil", Actor: "eve", Scopes: ops.Scopes}, operator.Filter{})
	if err != nil || len(list.Items) != 0 {
		t.Errorf("list = %+v, %v", list, err)
	}
}
