package once_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// decide stores what a person says of call1.
func decide(t *testing.T, store ledger.Store, id string, what ledger.Settlement) {
	t.Helper()
	rec := record(t, store, call1.Key())
	move, err := rec.Resolve(ledger.Stamp{At: time.Now(), WriteID: id}, ledger.Decision{ID: id, Actor: "ann", Reason: "looked", Version: rec.Version}, what)
	if err == nil {
		_, err = store.Apply(t.Context(), move)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func lost(context.Context) error { return errors.New("connection reset") }

// attempts is a tool whose n-th run waits for its turn and then ends as it is told.
type attempts struct {
	runs, effects atomic.Int64
	ends          []chan error // by run; nil: at once, with its effect
}

func (a *attempts) run(context.Context, creditIn) (credit, error) {
	n := a.runs.Add(1)
	if int(n) <= len(a.ends) && a.ends[n-1] != nil {
		if err := <-a.ends[n-1]; err != nil {
			return credit{}, err
		}
	}
	a.effects.Add(1)
	return credit{ID: fmt.Sprintf("cr_%d", n)}, nil
}

// A grant lets a second attempt run while the first still hangs. Whatever the
// first one says, during the second or after it, the second one's result stays.
func TestAttemptThatIsLateNeitherOverwritesNorFreesItsSuccessorsRecord(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{
		"it says it took effect":      nil,
		"it says nothing was sent":    once.NotAttempted(errors.New("x")),
		"it says it was refused":      once.Rejected(errors.New("no")),
		"it does not know":            errors.New("x"),
		"it took effect, and stopped": once.Landed("cr_1", errors.New("x")),
	} {
		for _, during := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, while its successor runs %t", name, during), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					lateAttempt(t, end, during)
				})
			})
		}
	}
}

func lateAttempt(t *testing.T, end error, during bool) {
	t.Helper()
	store, a := newStore(t), &attempts{ends: []chan error{make(chan error), make(chan error)}}
	bound := bind(t, newGuard(t, store), once.Tool[creditIn, credit]{Name: "issue_credit", Class: once.External, Run: a.run})
	want(t, bound.Do(t.Context(), call1, five).Report, once.Indeterminate, ledger.Unknown, ledger.Park, "timeout")
	decide(t, store, "d1", ledger.Settlement{Effect: ledger.NoEffect, Retryable: true})
	var second sync.WaitGroup
	second.Go(func() {
		want(t, bound.Do(t.Context(), call1, five).Report, once.Completed, ledger.Happened, ledger.Done, "")
	})
	synctest.Wait()
	running := record(t, store, call1.Key())
	if during {
		a.ends[0] <- end
		synctest.Wait()
		if rec := record(t, store, call1.Key()); rec.Status != ledger.Started || rec.Attempt.Token != running.Attempt.Token {
			t.Errorf("the first attempt made the running one %s", rec.State())
		}
	}
	a.ends[1] <- nil
	second.Wait()
	if !during {
		a.ends[0] <- end
		synctest.Wait()
	}
	for attempt := range 4 {
		again := call1
		again.Attempt = attempt
		out := bound.Do(t.Context(), again, five)
		if c, err := out.Value(); err != nil || c.ID != "cr_2" || out.Attempt != 2 {
			t.Errorf("a repeat hears %v, %v, %+v", c, err, out.Report)
		}
	}
	if a.runs.Load() != 2 {
		t.Errorf("ran %d times", a.runs.Load())
	}
	// Two effects, by a person's mistake, are not kept quiet.
	if rec := record(t, store, call1.Key()); rec.Flags.Has(ledger.Contradicted) != (end == nil || strings.Contains(fmt.Sprintf("%#v", end), "cr_1")) {
		t.Errorf("stored %s", rec.State())
	}
}

func TestClockThatIsAheadTakesNoCallOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, a := newStore(t), &attempts{ends: []chan error{make(chan error)}}
		tool := once.Tool[creditIn, credit]{Name: "issue_credit", Class: once.External, Run: a.run}
		var first once.Outcome[credit]
		var running sync.WaitGroup
		running.Go(func() { first = bind(t, newGuard(t, store), tool).Do(t.Context(), call1, five) })
		synctest.Wait()
		ahead := newGuard(t, store, func(o *once.Options) { o.Clock = func() time.Time { return time.Now().Add(time.Hour) } })
		out := bind(t, ahead, tool).Do(t.Context(), call1, five)
		want(t, out.Report, once.Indeterminate, ledger.Unknown, ledger.Park, "executor_lost")
		a.ends[0] <- nil
		running.Wait()
		want(t, first.Report, once.Completed, ledger.Happened, ledger.Done, "")
		if a.runs.Load() != 1 || a.effects.Load() != 1 || record(t, store, call1.Key()).Status != ledger.Completed {
			t.Errorf("runs %d, effects %d, stored %s", a.runs.Load(), a.effects.Load(), record(t, store, call1.Key()).State())
		}
	})
}

// Proves: R43
func TestCallWhoseExecutorWasGivenUpHasNoSecondEffect(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{"and that lives after all": nil, "and that died": errNeverSaid} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, b := newStore(t), &bank{}
				abandon(t, store, b)
				token := record(t, store, call1.Key()).Attempt.Token
				time.Sleep(11 * time.Second) // in the bubble's time; its deadline has passed
				reap, err := record(t, store, call1.Key()).Orphan(ledger.Stamp{At: time.Now(), WriteID: "sweeper"})
				if err == nil {
					_, err = store.Apply(t.Context(), reap)
				}
				if err != nil {
					t.Fatal(err)
				}
				bound := bind(t, newGuard(t, store), b.tool())
				for attempt := range 4 { // the step is replayed, by whatever name
					again := call1
					again.Attempt = attempt
					want(t, bound.Do(t.Context(), again, five).Report, once.Indeterminate, ledger.Unknown, ledger.Park, "executor_lost")
				}
				if end == nil {
					late, err := record(t, store, call1.Key()).Settle(ledger.Stamp{At: time.Now(), WriteID: "late"}, token, ledger.Settlement{Effect: ledger.Happened, Result: []byte(`{"id":"cr_A1"}`)})
					if err == nil {
						_, err = store.Apply(t.Context(), late)
					}
					if err != nil {
						t.Fatal(err)
					}
					want(t, bound.Do(t.Context(), call1, five).Report, once.Completed, ledger.Happened, ledger.Done, "")
				}
				if b.runs.Load() != 0 || b.effects.Load() != 1 {
					t.Errorf("runs %d, effects %d", b.runs.Load(), b.effects.Load())
				}
			})
		})
	}
}

var errNeverSaid = errors.New("never said")

func TestConflictIsSeenInEveryStateAndLeavesTheCallAsItWas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ends   error
		effect ledger.Effect
		window time.Duration
		state  string
	}{
		"running":            {errNeverSaid, ledger.Unknown, 0, "started"},
		"completed":          {nil, ledger.Happened, 0, "completed"},
		"unknown":            {errors.New("x"), ledger.Unknown, 0, "indeterminate"},
		"not sent":           {once.NotAttempted(errors.New("x")), ledger.NoEffect, 0, "failed, retryable"},
		"refused":            {once.Rejected(errors.New("x")), ledger.NoEffect, 0, "failed, final"},
		"waits for approval": {nil, ledger.NoEffect, time.Hour, "reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				free := make(chan struct{})
				store, b := newStore(t), &bank{after: func(context.Context) error { return c.ends }}
				if errors.Is(c.ends, errNeverSaid) {
					b.after = func(context.Context) error { <-free; return nil }
				}
				bound := bind(t, newGuard(t, store), b.tool(func(t *once.Tool[creditIn, credit]) { t.ApproveWithin = c.window }))
				var running sync.WaitGroup
				running.Go(func() { bound.Do(t.Context(), call1, five) })
				synctest.Wait()
				before := record(t, store, call1.Key())
				if before.State().String() != c.state {
					t.Fatalf("it is %s", before.State())
				}
				for attempt := range 3 {
					req := call1
					req.Attempt = attempt
					out := bound.Do(t.Context(), req, creditIn{Account: "A1", Cents: 999})
					want(t, out.Report, once.Conflict, c.effect, ledger.Done, "other_call")
					out = bound.Reconcile(t.Context(), req, creditIn{Account: "A1", Cents: 999})
					if out.Status == once.Completed || out.ExternalID != "" {
						t.Errorf("a look-up with other arguments hears %+v", out.Report)
					}
				}
				if after := record(t, store, call1.Key()); !reflect.DeepEqual(before, after) {
					t.Errorf("the record was touched: %+v", after)
				}
				close(free)
				running.Wait()
				if b.runs.Load() > 1 || b.effects.Load() > 1 {
					t.Errorf("runs %d, effects %d", b.runs.Load(), b.effects.Load())
				}
			})
		})
	}
}

func TestUnknownCallIsStillFoundAfterAConflictOnItsKey(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{after: lost}
	bound := bind(t, newGuard(t, store), b.tool(b.withLookUp))
	bound.Do(t.Context(), call1, five)
	want(t, bound.Do(t.Context(), call1, creditIn{Account: "A2"}).Report, once.Conflict, ledger.Unknown, ledger.Done, "other_call")
	want(t, bound.Do(t.Context(), call1, five).Report, once.Completed, ledger.Happened, ledger.Done, "")
	if b.runs.Load() != 1 || b.effects.Load() != 1 {
		t.Errorf("runs %d, effects %d", b.runs.Load(), b.effects.Load())
	}
}

func TestOfManyWhoNameTheNextAttemptOneRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bank{before: func(context.Context) error { return once.NotAttempted(errors.New("locked")) }}
		bound := bind(t, newGuard(t, newStore(t)), b.tool())
		bound.Do(t.Context(), call1, five)
		b.before = nil
		second := call1
		second.Attempt = 2
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				want(t, bound.Do(t.Context(), second, five).Report, once.Completed, ledger.Happened, ledger.Done, "")
			})
		}
		all.Wait()
		if b.runs.Load() != 2 || b.effects.Load() != 1 {
			t.Errorf("runs %d, effects %d", b.runs.Load(), b.effects.Load())
		}
	})
}

func TestStoreThatIsDownStopsWritesAndNotDirectReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for class, runs := range map[once.Class]int64{once.Read: 1, once.Write: 0, once.External: 0, once.Destructive: 0} {
			b := &bank{}
			out := bind(t, newGuard(t, downStore{newStore(t)}), b.tool(func(t *once.Tool[creditIn, credit]) { t.Class = class })).Do(t.Context(), call1, five)
			if b.runs.Load() != runs || (out.Status == once.Completed) != (class == once.Read) {
				t.Errorf("%s: ran %d times: %+v", class, b.runs.Load(), out.Report)
			}
		}
	})
}

// A call made inside another one is a call of its own.
func TestCallInsideACallHasItsOwnKeyAndRecord(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	g := newGuard(t, store)
	inner := bind(t, g, b.tool(func(t *once.Tool[creditIn, credit]) { t.Timeout = 5 * time.Second })) // fits into the outer one's
	outer := bind(t, g, once.Tool[creditIn, string]{Name: "settle_case", Class: once.Write, Run: func(ctx context.Context, in creditIn) (string, error) {
		child := once.CallFrom(ctx).Request
		child.CallID, child.ParentRunID = child.CallID+".credit", child.RunID
		c, err := inner.Do(ctx, child, in).Value()
		if key := once.CallFrom(ctx).Key; key != call1.Key() {
			t.Errorf("after the inner call the outer one is %s", key)
		}
		return "case closed by " + c.ID, err
	}})
	for range 3 {
		if text, err := outer.Do(t.Context(), call1, five).Value(); err != nil || text != "case closed by cr_A1" {
			t.Errorf("got %q, %v", text, err)
		}
	}
	child := ledger.Key{Tenant: "acme", RunID: "r1", CallID: "c1.credit"}
	if outer, inner := record(t, store, call1.Key()), record(t, store, child); outer.Tool != "settle_case" || inner.Tool != "issue_credit" || inner.Status != ledger.Completed || string(inner.Outcome.Result) == string(outer.Outcome.Result) {
		t.Errorf("outer %s %s, inner %s %s", outer.Tool, outer.Outcome.Result, inner.Tool, inner.Outcome.Result)
	}
	if b.effects.Load() != 1 {
		t.Errorf("effects %d", b.effects.Load())
	}
}

func TestTwoGuardsOnOneLedgerKeepTheirOwnSettings(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	late := call1
	late.RunStartedAt = time.Now().Add(-48 * time.Hour)
	short := newGuard(t, store, func(o *once.Options) { o.Retention = ledger.Retention{LongestRun: time.Hour} })
	want(t, bind(t, short, b.tool()).Do(t.Context(), late, five).Report, once.Expired, ledger.NoEffect, ledger.Done, "past_retention")
	strict := b.tool(func(t *once.Tool[creditIn, credit]) { t.Permission = "credits:write" })
	want(t, bind(t, newGuard(t, store), strict).Do(t.Context(), late, five).Report, once.Refused, ledger.NoEffect, ledger.Done, "not_authorised")
	want(t, bind(t, newGuard(t, store), b.tool()).Do(t.Context(), late, five).Report, once.Completed, ledger.Happened, ledger.Done, "")
	if b.effects.Load() != 1 {
		t.Errorf("effects %d", b.effects.Load())
	}
}

func TestIDsThatLookLikeNothingAreDifferentCalls(t *testing.T) {
	t.Parallel()
	b := &bank{}
	bound := bind(t, newGuard(t, newStore(t)), b.tool())
	ids := []string{"0", "00", "-", "false", "null", "undefined", "1", "None"}
	for range 2 {
		for _, id := range ids {
			req := call1
			req.CallID = id
			if c, err := bound.Do(t.Context(), req, creditIn{Account: "of-" + id}).Value(); err != nil || c.ID != "cr_of-"+id {
				t.Errorf("%s: %v, %v", id, c, err)
			}
		}
	}
	if b.effects.Load() != int64(len(ids)) {
		t.Errorf("%d effects of %d calls", b.effects.Load(), len(ids))
	}
}

func TestErrorNamesItsCallAndWhatStands(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{after: lost}
	bound := bind(t, newGuard(t, store), b.tool())
	bound.Do(t.Context(), call1, five)
	_, err := bound.Do(t.Context(), call1, creditIn{Account: "A2"}).Value()
	wrapped := fmt.Errorf("refund: %w", err)
	e, ok := errors.AsType[*once.Error](wrapped)
	if !ok || !errors.Is(wrapped, once.Conflict) || errors.Is(wrapped, once.Refused) {
		t.Fatalf("got %v", err)
	}
	if e.Key != call1.Key() || e.Tool != "issue_credit" || e.Effect != ledger.Unknown || e.Since.IsZero() || time.Since(e.Since) > time.Minute || err.Error() != "once: issue_credit: acme/r1:c1: conflict: other_call: "+e.Message {
		t.Errorf("%q: %+v", err, e.Report)
	}
}

func TestDecisionStaysOnTheRecordThatItsGrantRanAgain(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{after: lost}
	bound := bind(t, newGuard(t, store), b.tool())
	bound.Do(t.Context(), call1, five)
	decide(t, store, "d1", ledger.Settlement{Effect: ledger.NoEffect, Retryable: true})
	b.after = nil
	bound.Do(t.Context(), call1, five)
	rec := record(t, store, call1.Key())
	if rec.Status != ledger.Completed || rec.Attempt.Number != 2 || len(rec.Attempt.Earlier) != 1 || len(rec.Decisions) != 1 || rec.Decisions[0].By != "ann" || rec.Decisions[0].Reason != "looked" {
		t.Errorf("%s, attempt %+v, decisions %+v", rec.State(), rec.Attempt, rec.Decisions)
	}
}

// What is equivalent, the tool says, in Normalize; without it texts are texts.
// Proves: R53
func TestPathSpellingsThatTheToolCallsEqualAreOneCall(t *testing.T) {
	t.Parallel()
	type upload struct {
		Path string `json:"path"`
	}
	for _, normalises := range []bool{true, false} {
		effects := 0
		tool := once.Tool[upload, string]{Name: "upload", Class: once.Write, Run: func(_ context.Context, in upload) (string, error) {
			effects++
			return in.Path, nil
		}}
		if normalises {
			tool.Normalize = func(in *upload) error {
				if !path.IsAbs(in.Path) {
					return errors.New("path: want an absolute one")
				}
				in.Path = path.Clean(in.Path)
				return nil
			}
		}
		bound := bind(t, newGuard(t, newStore(t)), tool)
		for i, spelling := range []string{"/reports/q3.pdf", "/reports/./q3.pdf", "/reports//q3.pdf", "/tmp/../reports/q3.pdf"} {
			out := bound.Do(t.Context(), call1, upload{spelling})
			if where, err := out.Value(); (err == nil && where == "/reports/q3.pdf") != (normalises || i == 0) || (out.Status == once.Conflict) != (!normalises && i > 0) {
				t.Errorf("normalises %t, %s: %q, %v", normalises, spelling, where, err)
			}
		}
		if effects != 1 {
			t.Errorf("effects %d", effects)
		}
	}
}
