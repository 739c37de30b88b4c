package once_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

func reader(run func(context.Context, creditIn) (credit, error)) once.Tool[creditIn, credit] {
	return once.Tool[creditIn, credit]{Name: "issue_credit", Class: once.Read, Run: run}
}

// Proves: R59, R60, R74
func TestReadIsTriedUpToThreeTimesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		errs []error
		runs int
		want once.Status
		code string
	}{
		{"works", nil, 1, once.Completed, ""},
		{"times out once", []error{context.DeadlineExceeded}, 2, once.Completed, ""},
		{"fails twice", []error{errors.New("a"), once.NotAttempted(errors.New("b"))}, 3, once.Completed, ""},
		{"fails for good", []error{errors.New("a"), errors.New("b"), errors.New("canary")}, 3, once.Failed, "read_failed"},
		{"is told no", []error{once.Rejected(errors.New("no such order"))}, 1, once.Failed, "rejected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, runs := newStore(t), 0
				bound := bind(t, newGuard(t, store), reader(func(ctx context.Context, _ creditIn) (credit, error) {
					runs++
					if got := once.CallFrom(ctx).Attempt; got != runs {
						t.Errorf("attempt %d of run %d", got, runs)
					}
					if runs <= len(c.errs) {
						return credit{}, c.errs[runs-1]
					}
					return credit{ID: "x"}, nil
				}))
				out := bound.Do(t.Context(), call1, five)
				if out.Status != c.want || out.Code != c.code || runs != c.runs || out.Next != ledger.Done {
					t.Errorf("got %+v after %d runs", out.Report, runs)
				}
				if v, err := out.Value(); (err == nil) != (c.want == once.Completed) || err == nil && v.ID != "x" {
					t.Errorf("value %v, %v", v, err)
				}
				if len(store.Log()) != 0 {
					t.Errorf("a direct read made %d requests", len(store.Log()))
				}
			})
		})
	}
}

func TestReadIsNotTriedAgainWithoutTheTimeForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		bound := bind(t, newGuard(t, newStore(t)), reader(func(ctx context.Context, _ creditIn) (credit, error) {
			runs++
			<-ctx.Done()
			return credit{}, ctx.Err()
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		want(t, bound.Do(ctx, call1, five).Report, once.Failed, ledger.NoEffect, ledger.Done, "read_failed")
		if runs != 1 {
			t.Errorf("ran %d times", runs)
		}
	})
}

func TestReadThatPanicsIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	runs := 0
	bound := bind(t, newGuard(t, newStore(t)), reader(func(context.Context, creditIn) (credit, error) { runs++; panic("canary") }))
	want(t, bound.Do(t.Context(), call1, five).Report, once.Failed, ledger.NoEffect, ledger.Done, "read_failed")
	if runs != 1 {
		t.Errorf("ran %d times", runs)
	}
}

func TestReadThatIsAskedForABriefAnswerIsRecordedOnce(t *testing.T) {
	t.Parallel()
	store, runs := newStore(t), 0
	h := handlerOf(t, newGuard(t, store), reader(func(context.Context, creditIn) (credit, error) {
		runs++
		return credit{ID: string(rune('a' + runs - 1))}, nil
	}))
	brief := envelope("invoke", `"full"`, `"brief"`)
	for range 2 {
		a := ask(t.Context(), t, h, brief)
		if a.Status != once.Completed || a.Result != nil || a.ModelSays != "" {
			t.Errorf("brief: %+v", a)
		}
	}
	rec := record(t, store, call1.Key())
	if rec.Status != ledger.Completed || string(rec.Outcome.Result) != `{"id":"a"}` || rec.Version != 1 {
		t.Errorf("recorded %s %s", rec.State(), rec.Outcome.Result)
	}
	if n := len(store.Log()); n != 3 { // one a call, and ours
		t.Errorf("%d requests", n)
	}
	if a := ask(t.Context(), t, h, envelope("invoke", `"full"`, `"brief"`, ":5", ":6")); a.Status != once.Conflict {
		t.Errorf("other arguments: %+v", a)
	}
}

func TestJournalledReadAnswersARepeatWithTheFirstResult(t *testing.T) {
	t.Parallel()
	runs := 0
	tool := reader(func(context.Context, creditIn) (credit, error) {
		runs++
		return credit{ID: string(rune('a' + runs - 1))}, nil
	})
	tool.Journal = true
	bound := bind(t, newGuard(t, newStore(t)), tool)
	for n := range 3 {
		out := bound.Do(t.Context(), call1, five)
		if c, err := out.Value(); err != nil || c.ID != "a" || out.Replayed != (n > 0) {
			t.Errorf("%d: %v, %v, %+v", n, c, err, out.Report)
		}
	}
}

func TestJournalledReadThatCantBeRecordedIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tool := reader(func(context.Context, creditIn) (credit, error) { return credit{ID: "a"}, nil })
		tool.Journal = true
		out := bind(t, newGuard(t, downStore{newStore(t)}), tool).Do(t.Context(), call1, five)
		want(t, out.Report, once.Refused, ledger.Unknown, ledger.Inspect, "store_unavailable")
		if _, err := out.Value(); err == nil {
			t.Error("gave out what was not stored")
		}
	})
}

// Proves: R134
func TestReadMayDeclareThatItRunsBeyondRetention(t *testing.T) {
	t.Parallel()
	late := call1
	late.RunStartedAt = time.Now().Add(-365 * 24 * time.Hour)
	for rerun, status := range map[bool]once.Status{true: once.Completed, false: once.Expired} {
		tool := reader(func(context.Context, creditIn) (credit, error) { return credit{ID: "a"}, nil })
		tool.RerunExpired = rerun
		if out := bind(t, newGuard(t, newStore(t)), tool).Do(t.Context(), late, five); out.Status != status {
			t.Errorf("rerun %t: %s", rerun, out.Status)
		}
	}
}

func TestEnvelopeOfADirectReadHasItsResult(t *testing.T) {
	t.Parallel()
	h := handlerOf(t, newGuard(t, newStore(t)), reader(func(context.Context, creditIn) (credit, error) { return credit{ID: "a"}, nil }))
	a := ask(t.Context(), t, h, envelope("invoke"))
	if string(a.Result) != `{"id":"a"}` || a.ModelSays != `This call took effect. Result: {"id":"a"}` {
		t.Errorf("got %+v", a)
	}
}
