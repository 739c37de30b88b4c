package once_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// Each row is how an undo ends, and what it and its repeats are answered.
//
// Proves: R111
func TestUndoHasOneAttemptAndItsOwnUnknown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		void   func(context.Context) error
		noVoid func(context.Context) error
		status once.Status
		effect ledger.Effect
		next   ledger.Next
		code   string
		says   string
		retry  bool
	}{
		{"it works", nil, nil, once.Completed, ledger.Happened, ledger.Done, "", "", false},
		{"its answer is lost", fails(errors.New("canary: reset")), nil, once.Indeterminate, ledger.Unknown, ledger.Park, "outcome_unknown", "", false},
		{"its request is lost", nil, fails(errors.New("canary: reset")), once.Indeterminate, ledger.Unknown, ledger.Park, "outcome_unknown", "", false},
		{"nothing was sent", nil, fails(once.NotAttempted(errors.New("expired"))), once.Failed, ledger.NoEffect, ledger.Done, "not_attempted", "expired", true},
		{"there is nothing to void", nil, fails(once.Rejected(errors.New("nothing to void"))), once.Failed, ledger.NoEffect, ledger.Done, "rejected", "nothing to void", false},
		{"it landed and went wrong then", fails(once.Landed("vo_1", errors.New("odd"))), nil, once.Completed, ledger.Happened, ledger.Done, "", "", false},
		{"it panics", func(context.Context) error { panic("canary") }, nil, once.Indeterminate, ledger.Unknown, ledger.Park, "panic", "", false},
		{"it takes too long", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, nil, once.Indeterminate, ledger.Unknown, ledger.Park, "timeout", "", false},
		{"of two requests one is lost", fails(errors.Join(once.Rejected(errors.New("no")), errors.New("canary"))), nil, once.Indeterminate, ledger.Unknown, ledger.Park, "outcome_unknown", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, b := newStore(t), &till{void: c.void, noVoid: c.noVoid}
				b.effects.Store(0)
				bound := bind(t, newGuard(t, store), b.tool(b.withLookUp, func(t *once.Tool[creditIn, credit]) { t.Downstream.AbsenceIsProof = true }))
				bound.Do(t.Context(), call1, five)
				askUndo(t, store, call1.Key(), time.Now())
				first := bound.Compensate(t.Context(), undo1, five)
				want(t, first, c.status, c.effect, c.next, c.code)
				if c.says != "" && first.Message != c.says || strings.Contains(fmt.Sprintf("%+v %+v", first, record(t, store, undo1.Key())), "canary") {
					t.Errorf("told %q, or recorded a canary", first.Message)
				}
				b.mu.Lock()
				b.void, b.noVoid = nil, nil
				b.mu.Unlock()
				voids := b.all()
				for range 3 {
					time.Sleep(time.Hour) // in the bubble's time
					r := bound.Compensate(t.Context(), undo1, five)
					want(t, r, c.status, c.effect, c.next, c.code)
					if !r.Replayed {
						t.Error("not answered from the ledger")
					}
					want(t, bound.Reconcile(t.Context(), undo1, five).Report, c.status, c.effect, c.next, c.code)
				}
				if diff := cmp.Diff(voids, b.all()); diff != "" || b.looks.Load() != 0 || b.runs.Load() != 1 {
					t.Errorf("%d look-ups, %d runs, voids (-first +after):\n%s", b.looks.Load(), b.runs.Load(), diff)
				}
				if got := record(t, store, undo1.Key()).Flags.Has(ledger.Retryable); got != c.retry {
					t.Errorf("retryable %t", got)
				}
			})
		})
	}
}

func fails(err error) func(context.Context) error { return func(context.Context) error { return err } }

func TestUndoThatIsLateIsHeardAllTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := newStore(t), &till{}
		free := make(chan struct{})
		b.void = func(context.Context) error { <-free; return nil }
		bound := bind(t, newGuard(t, store), b.tool())
		bound.Do(t.Context(), call1, five)
		askUndo(t, store, call1.Key(), time.Now())
		want(t, bound.Compensate(t.Context(), undo1, five), once.Indeterminate, ledger.Unknown, ledger.Park, "timeout")
		close(free)
		synctest.Wait()
		want(t, bound.Compensate(t.Context(), undo1, five), once.Completed, ledger.Happened, ledger.Done, "")
		if diff := cmp.Diff(map[string]int{"acme/r1:c1~undo1": 1}, b.all()); diff != "" {
			t.Error(diff)
		}
	})
}

// An undo runs a second time only by a person's grant, or where the caller says
// that nobody heard of its first failure. Either way its key stays.
func TestUndoRunsAgainOnlyByAGrantOrANamedNextAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end   error
		grant bool
		named bool
		want  once.Status
		voids int
	}{
		"unknown":                              {errors.New("reset"), false, false, once.Indeterminate, 1},
		"unknown, next attempt named":          {errors.New("reset"), false, true, once.Indeterminate, 1},
		"unknown, granted":                     {errors.New("reset"), true, false, once.Completed, 2},
		"not attempted":                        {once.NotAttempted(errors.New("expired")), false, false, once.Failed, 1},
		"not attempted, next attempt named":    {once.NotAttempted(errors.New("expired")), false, true, once.Completed, 2},
		"rejected, next attempt named":         {once.Rejected(errors.New("no")), false, true, once.Failed, 1},
		"not attempted, the undo is over then": {once.NotAttempted(errors.New("expired")), false, true, once.Failed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, b := newStore(t), &till{void: fails(c.end)}
			g := newGuard(t, store)
			bind(t, g, b.tool()).Do(t.Context(), call1, five)
			askUndo(t, store, call1.Key(), time.Now())
			bound := bind(t, g, b.tool(func(t *once.Tool[creditIn, credit]) { t.ApproveWithin = time.Hour })) // of calls, not of undos
			bound.Compensate(t.Context(), undo1, five)
			b.void = nil
			if c.grant {
				decideOn(t, store, undo1.Key(), ledger.Settlement{Effect: ledger.NoEffect, Retryable: true, Code: "resolved_failed", Message: "looked"})
			}
			if strings.HasSuffix(name, "over then") {
				bound.Close(t.Context(), undo1)
				closeUndo(t, store, call1.Key(), ledger.NoEffect)
			}
			req := undo1
			if c.named {
				req.Attempt = 2
			}
			for range 2 {
				if r := bound.Compensate(t.Context(), req, five); r.Status != c.want {
					t.Errorf("got %+v", r)
				}
			}
			if diff := cmp.Diff(map[string]int{"acme/r1:c1~undo1": c.voids}, b.all()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// decideOn settles an unknown call by a person's word.
func decideOn(tb testing.TB, store ledger.Store, key ledger.Key, what ledger.Settlement) {
	tb.Helper()
	rec := record(tb, store, key)
	id := fmt.Sprintf("d%d", rec.Version)
	move, err := rec.Resolve(ledger.Stamp{At: time.Now(), WriteID: id}, ledger.Decision{ID: id, Actor: "ann", Reason: "looked", Version: rec.Version}, what)
	apply(tb, store, move, err)
}

// Whoever ends an undo that has no record closes its key first, so that what an
// executor read before that reserves nothing.
func TestUndoThatEndsBetweenReadAndReserveDoesNotRun(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &till{}
	bound := bind(t, newGuard(t, store), b.tool())
	bound.Do(t.Context(), call1, five)
	askUndo(t, store, call1.Key(), time.Now())
	store.OnMoment(func(m memledger.Moment) {
		if m.When != "before" || m.Step.Event != ledger.Start {
			return
		}
		store.OnMoment(nil)
		if r := bound.Close(t.Context(), undo1); r.Status != once.Failed || r.Code != "closed" {
			t.Errorf("closing: %+v", r.Report)
		}
		closeUndo(t, store, call1.Key(), ledger.NoEffect)
	})
	for range 2 {
		r := bound.Compensate(t.Context(), undo1, five)
		want(t, r, once.Failed, ledger.NoEffect, ledger.Done, "closed")
	}
	if rec := record(t, store, call1.Key()); rec.Status != ledger.Completed || rec.Flags.Has(ledger.UndoOpen) || len(b.all()) != 0 {
		t.Errorf("stands %s, voids %v", rec.State(), b.all())
	}
	askUndo(t, store, call1.Key(), time.Now())
	want(t, bound.Compensate(t.Context(), undoOf(call1, 2), five), once.Completed, ledger.Happened, ledger.Done, "")
	if diff := cmp.Diff(map[string]int{"acme/r1:c1~undo2": 1}, b.all()); diff != "" {
		t.Error(diff)
	}
}
