package once_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// Proves: R18, R111, R116
func TestUndoThatWasAskedForRunsOnceUnderItsOwnKey(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &till{}
	var atRun ledger.Record
	var seen once.Call
	b.noVoid = func(ctx context.Context) error {
		seen = once.CallFrom(ctx)
		atRun = record(t, store, seen.Key)
		return nil
	}
	bound := bind(t, newGuard(t, store), b.tool())
	bound.Do(t.Context(), call1, five)
	askUndo(t, store, call1.Key(), time.Now())
	owner := record(t, store, call1.Key())
	before := len(store.Log())
	for n, requests := range []int{3 + 1, 2, 2} { // the first with a look of our own
		r := bound.Compensate(t.Context(), undo1, five)
		want(t, r, once.Completed, ledger.Happened, ledger.Done, "")
		if r.Key != undo1.Key() || r.Tool != "issue_credit" || r.Replayed != (n > 0) || r.Attempt != 1 {
			t.Errorf("%d: %+v", n, r)
		}
		if got := len(store.Log()) - before; got != requests {
			t.Errorf("%d: %d requests, want %d", n, got, requests)
		}
		before = len(store.Log())
	}
	if diff := cmp.Diff(map[string]int{"acme/r1:c1~undo1": 1}, b.all()); diff != "" {
		t.Errorf("voids (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(owner, record(t, store, call1.Key())); diff != "" {
		t.Errorf("the call's own record was moved (-before +after):\n%s", diff)
	}
	if atRun.Status != ledger.Started || atRun.Tool != owner.Tool || atRun.Class != owner.Class || atRun.Turn != 3 || atRun.Fingerprint != owner.Fingerprint ||
		atRun.Received != owner.Received || atRun.Summary != "undo of account, cents" || atRun.Permission != "asked for by ann" || atRun.Attempt.Deadline.IsZero() {
		t.Errorf("written down before the undo: %+v", atRun)
	}
	if seen.Key != undo1.Key() || !seen.Deadline.Equal(atRun.Attempt.Deadline) || seen.Attempt != 1 || seen.Class != once.External {
		t.Errorf("the undo saw itself as %+v", seen)
	}
	if string(b.undone.Outcome.Result) != `{"id":"cr_A1"}` || b.undone.Outcome.ExternalID != "cr_A1" || b.undone.Key != call1.Key() {
		t.Errorf("the undo was given %+v", b.undone)
	}
	if b.runs.Load() != 1 {
		t.Errorf("the call itself ran %d times", b.runs.Load())
	}
}

// Proves: R113, R114, R115, R116
func TestNothingIsUndoneThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	asked := func(t *testing.T, store *memledger.Store) { t.Helper(); askUndo(t, store, call1.Key(), time.Now()) }
	over := func(t *testing.T, store *memledger.Store) {
		t.Helper()
		asked(t, store)
		closeUndo(t, store, call1.Key(), ledger.NoEffect)
	}
	for _, c := range []struct {
		name    string
		prepare func(*testing.T, *memledger.Store) // of a call that completed
		req     func(*once.Request)
		in      creditIn
		code    string
	}{
		{"nobody asked", nil, nil, five, "undo_not_asked"},
		{"no such call", asked, func(r *once.Request) { r.CallID = "c2~undo1" }, five, "undo_not_asked"},
		{"another tenant's call", asked, func(r *once.Request) { r.Tenant = "rival" }, five, "undo_not_asked"},
		{"a later undo than was asked for", asked, func(r *once.Request) { r.CallID = "c1~undo2" }, five, "undo_not_asked"},
		{"an undo that is over", over, nil, five, "undo_not_open"},
		{"an undo before the one that is open", func(t *testing.T, store *memledger.Store) { t.Helper(); over(t, store); asked(t, store) }, nil, five, "undo_not_open"},
		{"an undo that ended otherwise", func(t *testing.T, store *memledger.Store) {
			t.Helper()
			asked(t, store)
			closeUndo(t, store, call1.Key(), ledger.Happened)
		}, nil, five, "undo_not_open"},
		{"a call of another turn", asked, func(r *once.Request) { r.Turn = 4 }, five, "undo_of_other"},
		{"a call with other arguments", asked, nil, creditIn{Account: "A1", Cents: 6}, "undo_of_other"},
		{"a call that is no undo", asked, func(r *once.Request) { r.CallID = "c1" }, five, "bad_field"},
		{"an undo of an undo", asked, func(r *once.Request) { r.CallID = "c1~undo1~undo1" }, five, "bad_id"},
		{"no run", asked, func(r *once.Request) { r.RunID = "" }, five, "missing_id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store, b := newStore(t), &till{}
			bound := bind(t, newGuard(t, store), b.tool())
			bound.Do(t.Context(), call1, five)
			if c.prepare != nil {
				c.prepare(t, store)
			}
			before := len(store.Log())
			req := undo1
			if c.req != nil {
				c.req(&req)
			}
			for range 2 {
				r := bound.Compensate(t.Context(), req, c.in)
				if r.Status != once.Refused || r.Code != c.code || r.Message == "" {
					t.Errorf("got %+v, want refused %s", r, c.code)
				}
				if r.Effect == ledger.Unknown || r.Next == ledger.Again {
					t.Errorf("effect %s, next %s", r.Effect, r.Next)
				}
			}
			for _, step := range store.Log()[before:] {
				if step.Op.Durable() {
					t.Errorf("stored: %+v", step)
				}
			}
			if len(b.all()) != 0 || b.runs.Load() != 1 {
				t.Errorf("voids %v, runs %d", b.all(), b.runs.Load())
			}
		})
	}
}

func TestUndoBelongsToTheToolThatRanTheCall(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &till{}
	other := b.tool(func(t *once.Tool[creditIn, credit]) { t.Name = "void_credit" })
	none := b.bank.tool(func(t *once.Tool[creditIn, credit]) { t.Name = "no_undo" })
	h := handlerOf(t, newGuard(t, store), b.tool(), other, none)
	ask(t.Context(), t, h, envelope("invoke"))
	askUndo(t, store, call1.Key(), time.Now())
	for tool, code := range map[string]string{"void_credit": "undo_of_other", "no_undo": "not_supported", "burn_down": "unknown_tool"} {
		a := ask(t.Context(), t, h, envelope("compensate", `"c1"`, `"c1~undo1"`, "issue_credit", tool))
		if a.Status != once.Refused || a.Error.Code != code || a.Effect != ledger.NoEffect || a.Next != ledger.Done || a.Key != "acme/r1:c1~undo1" {
			t.Errorf("%s: %+v", tool, a)
		}
	}
	if len(b.all()) != 0 || record(t, store, undo1.Key()).Exists() {
		t.Errorf("voids %v", b.all())
	}
}

// Proves: R116
func TestPersonsAskIsAllTheAuthorisationAnUndoNeeds(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &till{}
	hooks := 0
	strict := b.tool(func(t *once.Tool[creditIn, credit]) {
		t.Permission, t.ApproveWithin = "credits:write", time.Hour
		t.Authorize = func(context.Context, once.Request, creditIn) error { hooks++; return nil }
	})
	g := newGuard(t, store)
	bind(t, g, b.tool()).Do(t.Context(), call1, five)
	askUndo(t, store, call1.Key(), time.Now())
	want(t, bind(t, g, strict).Compensate(t.Context(), undo1, five), once.Completed, ledger.Happened, ledger.Done, "")
	if hooks != 0 || len(b.all()) != 1 {
		t.Errorf("the hook was asked %d times, voids %v", hooks, b.all())
	}
	if rec := record(t, store, undo1.Key()); !rec.Approval.ExpiresAt.IsZero() {
		t.Errorf("an approval was asked for: %+v", rec.Approval)
	}
}

func TestRetentionOfAnUndoCountsFromItsAsk(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		asked  time.Duration // after the run began
		later  time.Duration
		status once.Status
		code   string
	}{
		"a run long past, asked just now": {300 * 24 * time.Hour, time.Minute, once.Completed, ""},
		"asked in time":                   {time.Hour, 46*24*time.Hour - time.Minute, once.Completed, ""},
		"asked too long ago":              {time.Hour, 46*24*time.Hour + time.Minute, once.Expired, "past_retention"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, b := newStore(t), &till{}
			at := now
			bound := bind(t, newGuard(t, store, func(o *once.Options) { o.Clock = func() time.Time { return at } }), b.tool())
			req := call1
			req.RunStartedAt = now
			bound.Do(t.Context(), req, five)
			at = now.Add(c.asked)
			askUndo(t, store, req.Key(), at)
			at = at.Add(c.later)
			r := bound.Compensate(t.Context(), undoOf(req, 1), five)
			if r.Status != c.status || r.Code != c.code || len(b.all()) == 0 != (c.status == once.Expired) {
				t.Errorf("got %+v, voids %v", r, b.all())
			}
		})
	}
}

func TestUndoWithoutTimeIsRefusedAndAskedForAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := newStore(t), &till{}
		bound := bind(t, newGuard(t, store), b.tool())
		bound.Do(t.Context(), call1, five)
		askUndo(t, store, call1.Key(), time.Now())
		short, cancel := context.WithTimeout(t.Context(), 11900*time.Millisecond)
		defer cancel()
		want(t, bound.Compensate(short, undo1, five), once.Refused, ledger.NoEffect, ledger.Again, "too_little_time")
		if record(t, store, undo1.Key()).Exists() || len(b.all()) != 0 {
			t.Error("it left something")
		}
		want(t, bound.Compensate(t.Context(), undo1, five), once.Completed, ledger.Happened, ledger.Done, "")
		want(t, bound.Compensate(short, undo1, five), once.Completed, ledger.Happened, ledger.Done, "")
	})
}

func TestUndoIsGivenTheResultWhereverItLies(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", ledger.InlineResult)
	for name, c := range map[string]struct {
		account string
		arm     memledger.Fault
		times   int
		status  once.Status
		code    string
		result  string
	}{
		"in the record":          {"A1", memledger.Fault{}, 0, once.Completed, "", `{"id":"cr_A1"}`},
		"beside it":              {long, memledger.Fault{}, 0, once.Completed, "", `{"id":"cr_` + long + `"}`},
		"beside it, a read lost": {long, memledger.Fault{Op: memledger.Result}, 1, once.Completed, "", `{"id":"cr_` + long + `"}`},
		"out of reach":           {long, memledger.Fault{Op: memledger.Result}, 4, once.Refused, "store_unavailable", ""},
		"not kept":               {long, memledger.Fault{Op: memledger.KeepResult}, 1, once.Completed, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, b := newStore(t), &till{}
				bound := bind(t, newGuard(t, store), b.tool())
				in := creditIn{Account: c.account, Cents: 5}
				for n := range c.times {
					c.arm.Nth = n + 1
					store.Arm(c.arm)
				}
				bound.Do(t.Context(), call1, in)
				askUndo(t, store, call1.Key(), time.Now())
				r := bound.Compensate(t.Context(), undo1, in)
				if r.Status != c.status || r.Code != c.code || string(b.undone.Outcome.Result) != c.result {
					t.Errorf("got %+v, given %q", r, b.undone.Outcome.Result)
				}
				if c.status == once.Refused && (len(b.all()) != 0 || record(t, store, undo1.Key()).Exists()) {
					t.Error("it left something")
				}
				if b.undone.Key != (ledger.Key{}) && b.undone.Outcome.ExternalID != "cr_"+c.account {
					t.Errorf("external id %q", b.undone.Outcome.ExternalID)
				}
			})
		})
	}
}

func TestUnknownCallIsUndoneByAPersonsWordAndTheToolFindsOutWhat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := newStore(t), &till{}
		b.after = func(context.Context) error { return errors.New("lost") }
		bound := bind(t, newGuard(t, store), b.tool())
		bound.Do(t.Context(), call1, five)
		time.Sleep(2 * time.Minute) // in the bubble's time
		askUndo(t, store, call1.Key(), time.Now())
		want(t, bound.Compensate(t.Context(), undo1, five), once.Completed, ledger.Happened, ledger.Done, "")
		if b.undone.Status != ledger.Indeterminate || b.undone.Outcome.ExternalID != "" || b.undone.Outcome.Result != nil {
			t.Errorf("given %+v", b.undone)
		}
		// The call itself is as unknown as before, until somebody closes the undo.
		want(t, bound.Do(t.Context(), call1, five).Report, once.Indeterminate, ledger.Unknown, ledger.Park, "outcome_unknown")
	})
}

// Proves: R112
func TestOf64WhoSendOneUndoOneVoids(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := newStore(t), &till{}
		b.void = func(context.Context) error { time.Sleep(3 * time.Second); return nil } // in the bubble's time
		h := handlerOf(t, newGuard(t, store), b.tool())
		ask(t.Context(), t, h, envelope("invoke"))
		askUndo(t, store, call1.Key(), time.Now())
		answers := make([]once.Answer, 64)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() { answers[i] = ask(t.Context(), t, h, envelope("compensate", `"c1"`, `"c1~undo1"`)) })
		}
		all.Wait()
		first := 0
		for _, a := range answers {
			if a.Status != once.Completed || a.Effect != ledger.Happened || a.Next != ledger.Done || a.Key != "acme/r1:c1~undo1" {
				t.Errorf("got %+v", a)
			}
			if !a.Replayed {
				first++
			}
		}
		if diff := cmp.Diff(map[string]int{"acme/r1:c1~undo1": 1}, b.all()); diff != "" || first != 1 {
			t.Errorf("%d ran it, voids (-want +got):\n%s", first, diff)
		}
	})
}

func TestUndoByKeyNeedsNoArgumentsAndMindsNone(t *testing.T) {
	t.Parallel()
	const args = `,"arguments":{"account":"A1","cents":5}`
	for _, byKey := range []bool{true, false} {
		for name, change := range map[string][]string{"none": {args, ``}, "others": {`:5`, `:6`}, "of another form": {`"cents"`, `"pence"`}} {
			store, b := newStore(t), &till{}
			h := handlerOf(t, newGuard(t, store), b.tool(func(t *once.Tool[creditIn, credit]) { t.CompensateByKey = byKey }))
			ask(t.Context(), t, h, envelope("invoke"))
			askUndo(t, store, call1.Key(), time.Now())
			a := ask(t.Context(), t, h, envelope("compensate", append(change, `"c1"`, `"c1~undo1"`)...))
			if done := a.Status == once.Completed; done != byKey || len(b.all()) == 1 != byKey {
				t.Errorf("%s, by key %t: %+v, voids %v", name, byKey, a, b.all())
			}
			if byKey && record(t, store, undo1.Key()).Fingerprint != record(t, store, call1.Key()).Fingerprint {
				t.Errorf("%s: the undo's record has a fingerprint of its own", name)
			}
		}
	}
}

// A deploy may change what the arguments come to. What ran is then not what the
// undo would be given, so it does not start; one that ran is still answered.
func TestUndoStartsOnlyOnTheArgumentsThatRan(t *testing.T) {
	t.Parallel()
	for name, deploy := range deploys {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, b := newStore(t), &till{}
			g := newGuard(t, store)
			before, after := handlerOf(t, g, b.tool(defaulting(10))), handlerOf(t, g, b.tool(deploy))
			undo := bare("compensate", `"c1"`, `"c1~undo1"`)
			ask(t.Context(), t, before, bare("invoke"))
			askUndo(t, store, call1.Key(), time.Now())
			if a := ask(t.Context(), t, after, undo); a.Status != once.Refused || a.Error.Code != "undo_of_other" || !strings.Contains(a.Error.Message, "roll the tool back") || a.Effect != ledger.NoEffect {
				t.Errorf("after the deploy: %+v", a)
			}
			if len(b.all()) != 0 {
				t.Errorf("voids %v", b.all())
			}
			for _, h := range []string{"first", "again"} {
				if a := ask(t.Context(), t, before, undo); a.Status != once.Completed {
					t.Errorf("%s, rolled back: %+v", h, a)
				}
			}
			if a := ask(t.Context(), t, after, undo); a.Status != once.Completed || !a.Replayed {
				t.Errorf("a repeat after the deploy: %+v", a)
			}
			closeUndo(t, store, call1.Key(), ledger.Happened)
			if a := ask(t.Context(), t, after, undo); a.Status != once.Completed || !a.Replayed || len(b.all()) != 1 {
				t.Errorf("a repeat after its end: %+v, voids %v", a, b.all())
			}
			if a := ask(t.Context(), t, after, bare("invoke")); a.Status != once.Compensated || a.Effect != ledger.Undone || a.Error.Code != "compensated" {
				t.Errorf("the call: %+v", a)
			}
		})
	}
}

// Asked about by another mode, an undo is answered as it stands.
func TestUndoIsNeitherInvokedNorLookedUp(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &till{void: fails(errors.New("lost"))}
	h := handlerOf(t, newGuard(t, store), b.tool(b.withLookUp, func(t *once.Tool[creditIn, credit]) { t.ReconcileByKey = true }))
	ask(t.Context(), t, h, envelope("invoke"))
	of := func(mode string) once.Answer {
		return ask(t.Context(), t, h, envelope(mode, `"c1"`, `"c1~undo1"`))
	}
	if a := of("reconcile"); a.Status != once.Refused || a.Error.Code != "no_record" || a.Effect != ledger.NoEffect || a.Next != ledger.Done {
		t.Errorf("of nothing: %+v", a)
	}
	askUndo(t, store, call1.Key(), time.Now())
	of("compensate")
	for _, mode := range []string{"reconcile", "close", "compensate"} {
		if a := of(mode); a.Status != once.Indeterminate || a.Error.Code != "outcome_unknown" || a.Next != ledger.Park {
			t.Errorf("%s: %+v", mode, a)
		}
	}
	if a := of("invoke"); a.Status != once.Refused || a.Error.Code != "not_supported" || a.Effect != ledger.Unknown || a.Next != ledger.Inspect {
		t.Errorf("invoked: %+v", a)
	}
	if b.looks.Load() != 0 || b.runs.Load() != 1 || len(b.all()) != 1 {
		t.Errorf("%d look-ups, %d runs, voids %v", b.looks.Load(), b.runs.Load(), b.all())
	}
}

func TestCallWithTheLongestIDCanBeUndone(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &till{}
	h := handlerOf(t, newGuard(t, store), b.tool())
	long := strings.Repeat("c", ledger.MaxCallID)
	req := call1
	req.CallID = long
	ask(t.Context(), t, h, envelope("invoke", `"c1"`, `"`+long+`"`))
	askUndo(t, store, req.Key(), time.Now())
	a := ask(t.Context(), t, h, envelope("compensate", `"c1"`, `"`+long+`~undo1"`, "full", "brief"))
	if a.Status != once.Completed || b.all()[req.Key().Undo(1).String()] != 1 {
		t.Errorf("got %+v, voids %v", a, b.all())
	}
}

func TestToolThatCantUndoSaysSoWhenItIsBound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*once.Tool[creditIn, credit])
		says   string
	}{
		"a read":                {func(t *once.Tool[creditIn, credit]) { t.Class = once.Read }, "Compensate: class read changes nothing"},
		"what is destructive":   {func(t *once.Tool[creditIn, credit]) { t.Class = once.Destructive }, "Compensate: class destructive can't be undone"},
		"by key, without a way": {func(t *once.Tool[creditIn, credit]) { t.Compensate, t.CompensateByKey = nil, true }, "Compensate: is required by CompensateByKey"},
	} {
		if _, err := once.Bind(newGuard(t, newStore(t)), (&till{}).tool(c.change)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, class := range []once.Class{once.Write, once.External} {
		if _, err := once.Bind(newGuard(t, newStore(t)), (&till{}).tool(func(t *once.Tool[creditIn, credit]) { t.Class = class })); err != nil {
			t.Errorf("%s: %v", class, err)
		}
	}
}
