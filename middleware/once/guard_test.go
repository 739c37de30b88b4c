package once_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// Proves: R1, R2, R22, R24, R25, R44, R49, R79, R80, R81, R82
func TestRepeatIsAnsweredFromTheLedger(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	var atRun ledger.Record
	b.before = func(ctx context.Context) error {
		atRun = record(t, store, once.CallFrom(ctx).Key)
		return nil
	}
	tool := b.tool(func(t *once.Tool[creditIn, credit]) { t.Permission = "credits:write" })
	bound := bind(t, newGuard(t, store), tool)
	req := call1
	req.Permissions, req.Subject = []string{"credits:write"}, "user-1"
	for n := range 3 {
		out := bound.Do(t.Context(), req, five)
		c, err := out.Value()
		if err != nil || c.ID != "cr_A1" || out.Replayed != (n > 0) || out.ExternalID != "cr_A1" {
			t.Errorf("%d: %v, %v, %+v", n, c, err, out.Report)
		}
		want(t, out.Report, once.Completed, ledger.Happened, ledger.Done, "")
	}
	if b.effects.Load() != 1 {
		t.Errorf("effects = %d", b.effects.Load())
	}
	if n := len(store.Log()); n != 2+1+2+1 { // the first call with a look of our own, then one request a replay
		t.Logf("log %+v", store.Log())
		if n > 6 {
			t.Errorf("%d requests", n)
		}
	}
	if atRun.Key.String() != "acme/r1:c1" || atRun.Summary != "account, cents" || atRun.Permission != "user-1: has credits:write" || atRun.Attempt.Deadline.IsZero() || atRun.Fingerprint == "" {
		t.Errorf("written down before the run: %+v", atRun)
	}
}

// Proves: R4, R5, R6, R50, R51, R56
func TestKeyOfAnotherCallIsAConflict(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*once.Request, *creditIn){
		"other arguments": func(_ *once.Request, in *creditIn) { in.Cents = 999 },
		"other recipient": func(_ *once.Request, in *creditIn) { in.Account = "A2" },
		"other turn":      func(r *once.Request, _ *creditIn) { r.Turn = 4 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, b := newStore(t), &bank{}
			bound := bind(t, newGuard(t, store), b.tool())
			bound.Do(t.Context(), call1, five)
			before := record(t, store, call1.Key())
			req, in := call1, five
			change(&req, &in)
			out := bound.Do(t.Context(), req, in)
			want(t, out.Report, once.Conflict, ledger.Happened, ledger.Done, "other_call")
			if _, err := out.Value(); !errors.Is(err, once.Conflict) || strings.Contains(err.Error(), "cr_A1") {
				t.Errorf("error %v", err)
			}
			if out.ExternalID != "" || b.effects.Load() != 1 {
				t.Errorf("external id %q, effects %d", out.ExternalID, b.effects.Load())
			}
			if after := record(t, store, call1.Key()); after.Version != before.Version || after.Rev != before.Rev {
				t.Error("the record was touched")
			}
		})
	}
	t.Run("other tool", func(t *testing.T) {
		t.Parallel()
		b := &bank{}
		g := newGuard(t, newStore(t))
		other := b.tool(func(t *once.Tool[creditIn, credit]) { t.Name = "void_credit" })
		h := handlerOf(t, g, b.tool(), other)
		ask(t.Context(), t, h, envelope("invoke"))
		a := ask(t.Context(), t, h, envelope("invoke", "issue_credit", "void_credit"))
		if a.Status != once.Conflict || b.effects.Load() != 1 {
			t.Errorf("got %+v, effects %d", a, b.effects.Load())
		}
	})
	t.Run("other call id", func(t *testing.T) {
		t.Parallel()
		b := &bank{}
		bound := bind(t, newGuard(t, newStore(t)), b.tool())
		second := call1
		second.CallID = "c2"
		bound.Do(t.Context(), call1, five)
		want(t, bound.Do(t.Context(), second, five).Report, once.Completed, ledger.Happened, ledger.Done, "")
		if b.effects.Load() != 2 {
			t.Errorf("two calls with equal arguments had %d effects", b.effects.Load())
		}
	})
	t.Run("other tenant", func(t *testing.T) {
		t.Parallel()
		b := &bank{}
		bound := bind(t, newGuard(t, newStore(t)), b.tool())
		bound.Do(t.Context(), call1, five)
		other := call1
		other.Tenant = "rival"
		if out := bound.Do(t.Context(), other, creditIn{Account: "A9"}); out.Status != once.Completed {
			t.Errorf("another tenant is blocked: %+v", out.Report)
		}
	})
}

func TestDeployThatAddsADefaultedArgumentIsNoConflict(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	h := handlerOf(t, newGuard(t, store), b.tool())
	ask(t.Context(), t, h, envelope("invoke"))
	newer := b.tool(func(t *once.Tool[creditIn, credit]) {
		t.Normalize = func(in *creditIn) error { in.Note = "credit"; return nil }
	})
	a := ask(t.Context(), t, handlerOf(t, newGuard(t, store), newer), envelope("invoke"))
	if a.Status != once.Completed || !a.Replayed {
		t.Errorf("got %+v", a)
	}
}

// Proves: R26, R34, R65, R66, R153
func TestFailedRunsAgainOnlyByANamedNextAttempt(t *testing.T) {
	t.Parallel()
	b := &bank{}
	expired := true
	b.before = func(context.Context) error {
		if expired {
			return once.NotAttempted(errors.New("token is expired"))
		}
		return nil
	}
	bound := bind(t, newGuard(t, newStore(t)), b.tool())
	out := bound.Do(t.Context(), call1, five)
	want(t, out.Report, once.Failed, ledger.NoEffect, ledger.Done, "not_attempted")
	if out.Message != "token is expired" {
		t.Errorf("message %q", out.Message)
	}
	expired = false
	want(t, bound.Do(t.Context(), call1, five).Report, once.Failed, ledger.NoEffect, ledger.Done, "not_attempted")
	if b.runs.Load() != 1 {
		t.Fatalf("a repeat ran it %d times", b.runs.Load())
	}
	second := call1
	second.Attempt = 2
	out = bound.Do(t.Context(), second, five)
	want(t, out.Report, once.Completed, ledger.Happened, ledger.Done, "")
	if out.Attempt != 2 || b.effects.Load() != 1 {
		t.Errorf("attempt %d, effects %d", out.Attempt, b.effects.Load())
	}
}

// Proves: R26, R34
func TestNamedNextAttemptStartsNothingBeyondTheReceiversKeyWindow(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := &bank{before: func(context.Context) error { return once.NotAttempted(errors.New("locked")) }}
	g := newGuard(t, newStore(t), func(o *once.Options) { o.Clock = func() time.Time { return now } })
	bound := bind(t, g, b.tool(func(t *once.Tool[creditIn, credit]) { t.Downstream.KeyWindow = time.Hour }))
	bound.Do(t.Context(), call1, five)
	now = now.Add(2 * time.Hour)
	second := call1
	second.Attempt = 2
	want(t, bound.Do(t.Context(), second, five).Report, once.Failed, ledger.NoEffect, ledger.Done, "not_attempted")
	if b.runs.Load() != 1 {
		t.Errorf("ran %d times", b.runs.Load())
	}
}

// Proves: R26, R34
func TestGrantRunsAFailedCallOnceMore(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	b.after = func(context.Context) error { return errors.New("answer lost") }
	bound := bind(t, newGuard(t, store), b.tool())
	want(t, bound.Do(t.Context(), call1, five).Report, once.Indeterminate, ledger.Unknown, ledger.Park, "outcome_unknown")
	rec := record(t, store, call1.Key())
	move, err := rec.Resolve(ledger.Stamp{At: time.Now(), WriteID: "w"}, ledger.Decision{ID: "d", Actor: "ann", Reason: "looked", Version: rec.Version}, ledger.Settlement{Effect: ledger.NoEffect, Retryable: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Apply(t.Context(), move); err != nil {
		t.Fatal(err)
	}
	b.after = nil
	out := bound.Do(t.Context(), call1, five)
	want(t, out.Report, once.Completed, ledger.Happened, ledger.Done, "")
	if out.Attempt != 2 || b.runs.Load() != 2 {
		t.Errorf("attempt %d, runs %d", out.Attempt, b.runs.Load())
	}
	bound.Do(t.Context(), call1, five)
	if b.runs.Load() != 2 {
		t.Error("one grant ran it twice")
	}
}

func TestClosedCallNeverRuns(t *testing.T) {
	t.Parallel()
	b := &bank{}
	h := handlerOf(t, newGuard(t, newStore(t)), b.tool())
	for _, mode := range []string{"close", "close", "invoke"} {
		a := ask(t.Context(), t, h, envelope(mode))
		if a.Status != once.Failed || a.Effect != ledger.NoEffect || a.Error.Code != "closed" || a.Next != ledger.Done {
			t.Errorf("%s: %+v", mode, a)
		}
	}
	a := ask(t.Context(), t, h, envelope("invoke", `"attempt":1`, `"attempt":2`))
	if a.Status != once.Failed || b.runs.Load() != 0 {
		t.Errorf("a named attempt ran a closed call: %+v", a)
	}
}

func TestCloseTakesTheRightToRunAgainAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		err   error
		want  once.Status
		final bool
	}{
		{"not attempted", once.NotAttempted(errors.New("x")), once.Failed, true},
		{"took effect", nil, once.Completed, false},
		{"unknown", errors.New("x"), once.Indeterminate, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := &bank{after: func(context.Context) error { return c.err }}
			h := handlerOf(t, newGuard(t, newStore(t)), b.tool())
			ask(t.Context(), t, h, envelope("invoke"))
			a := ask(t.Context(), t, h, envelope("close"))
			if a.Status != c.want {
				t.Errorf("close: %+v", a)
			}
			ask(t.Context(), t, h, envelope("invoke", `"attempt":1`, `"attempt":2`))
			if b.runs.Load() != 1 {
				t.Errorf("ran %d times", b.runs.Load())
			}
		})
	}
}

// Proves: R57, R58, R61, R71, R133, R140
func TestMisdeclaredToolsAreAllNamedAtStartUp(t *testing.T) {
	t.Parallel()
	run := func(context.Context, creditIn) (credit, error) { return credit{}, nil }
	_, err := newGuard(t, newStore(t)).Handler(
		once.Tool[creditIn, credit]{Name: "refund", Class: once.External, Attempts: 3, Downstream: once.Downstream{AbsenceIsProof: true}},
		once.Tool[creditIn, credit]{Name: "typo", Class: "extrenal", Run: run},
		once.Tool[creditIn, credit]{Name: "none", Run: run, ApproveWithin: 90 * 24 * time.Hour, Timeout: -1},
		once.Tool[creditIn, credit]{Name: "Bad Name", Class: once.Write, Run: run, RerunExpired: true},
		once.Tool[struct {
			Key string `json:"idempotencyKey"`
		}, credit]{Name: "keyed", Class: once.Write},
		once.Tool[int, credit]{Name: "number", Class: once.Write, Run: func(context.Context, int) (credit, error) { return credit{}, nil }},
		once.Tool[creditIn, credit]{Name: "twice", Class: once.Read, Run: run},
		once.Tool[creditIn, credit]{Name: "twice", Class: once.Read, Run: run},
		nil,
	)
	if err == nil {
		t.Fatal("bound")
	}
	for _, says := range []string{
		`"refund": Run: is required`, `"refund": Attempts: is 3; class external gets exactly one`, `"refund": Reconcile: is required`,
		`"typo": Class: is "extrenal"`, `"none": Class: is required`, `"none": ApproveWithin`, `"none": Timeout`, `"Bad Name": Name`, `"Bad Name": RerunExpired`,
		`"keyed": Schema: property "idempotencyKey"`, `"number": In`, `"twice": declared twice`, "a tool is nil",
	} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("not named: %s", says)
		}
	}
	t.Log(err)
}

func TestWrongOptionsAreAllNamed(t *testing.T) {
	t.Parallel()
	_, err := once.New(nil, &once.Options{Reserve: -1, JoinFor: -1, Retention: ledger.Retention{RetryWindow: time.Hour}, Observers: []once.Observer{nil}})
	for _, says := range []string{"store is nil", "Options.Reserve", "Options.JoinFor", "Options.Retention.LongestRun", "Options.Observers"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("not named: %s in %v", says, err)
		}
	}
}

// Proves: R129
func TestEveryAttemptAndReplayIsAuthorised(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	asked := 0
	allowed := true
	tool := b.tool(func(t *once.Tool[creditIn, credit]) {
		t.Permission = "credits:write"
		t.Authorize = func(_ context.Context, _ once.Request, in creditIn) error {
			asked++
			if !allowed {
				return fmt.Errorf("canary-secret for %s", in.Account)
			}
			return nil
		}
	})
	h := handlerOf(t, newGuard(t, store), tool)
	with := `"principal":{"subject":"u","permissions":["credits:write"]},"reply"`

	a := ask(t.Context(), t, h, envelope("invoke"))
	if a.Status != once.Refused || a.Error.Code != "not_authorised" || a.Effect != ledger.NoEffect || a.Next != ledger.Done || b.runs.Load() != 0 {
		t.Errorf("without the permission: %+v", a)
	}
	if a = ask(t.Context(), t, h, envelope("invoke", `"reply"`, with)); a.Status != once.Completed || asked != 1 {
		t.Errorf("with it: %+v, asked %d", a, asked)
	}
	if a = ask(t.Context(), t, h, envelope("invoke", `"reply"`, with)); !a.Replayed || asked != 2 {
		t.Errorf("replay: %+v, asked %d", a, asked)
	}
	allowed = false
	a = ask(t.Context(), t, h, envelope("invoke", `"reply"`, with))
	if a.Status != once.Refused || a.Effect != ledger.Happened || a.Next != ledger.Inspect || a.Result != nil || a.ExternalID != "" || strings.Contains(a.Error.Message+a.ModelSays, "canary") {
		t.Errorf("replay for somebody else: %+v", a)
	}
	if a = ask(t.Context(), t, h, envelope("reconcile")); a.Result != nil || a.ModelSays != "" || a.Effect != ledger.Happened {
		t.Errorf("reconcile gave a result to somebody who may not make the call: %+v", a)
	}
}

// Proves: R129
func TestPanickingAuthorizeRefuses(t *testing.T) {
	t.Parallel()
	b := &bank{}
	bound := bind(t, newGuard(t, newStore(t)), b.tool(func(t *once.Tool[creditIn, credit]) {
		t.Authorize = func(context.Context, once.Request, creditIn) error { panic("canary") }
	}))
	want(t, bound.Do(t.Context(), call1, five).Report, once.Refused, ledger.NoEffect, ledger.Done, "not_authorised")
	if b.runs.Load() != 0 {
		t.Error("the tool ran")
	}
}

// Proves: R134
func TestCallBeyondRetentionIsAnsweredAndNeverReserved(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	bound := bind(t, newGuard(t, store), b.tool())
	late := call1
	late.RunStartedAt = time.Now().Add(-ledger.DefaultRetention().Total() - time.Minute)
	out := bound.Do(t.Context(), late, five)
	want(t, out.Report, once.Expired, ledger.NoEffect, ledger.Done, "past_retention")
	if record(t, store, late.Key()).Exists() || b.runs.Load() != 0 {
		t.Error("an expired call left something")
	}
	bound.Do(t.Context(), call1, five)
	out = bound.Do(t.Context(), late, five)
	want(t, out.Report, once.Completed, ledger.Happened, ledger.Done, "")

	never := b.tool(func(t *once.Tool[creditIn, credit]) {
		t.Run = func(context.Context, creditIn) (credit, error) {
			return credit{}, once.NotAttempted(errors.New("x"))
		}
	})
	bound = bind(t, newGuard(t, store), never)
	other := call1
	other.CallID = "c2"
	bound.Do(t.Context(), other, five)
	other.RunStartedAt, other.Attempt = late.RunStartedAt, 2
	if out = bound.Do(t.Context(), other, five); out.Attempt != 1 {
		t.Errorf("a late named attempt ran: %+v", out.Report)
	}
}

// Proves: R42
func TestObserversSeeFirstRunsReplaysAndTheHandlersError(t *testing.T) {
	t.Parallel()
	var seen []string
	watch := func(name string) once.Observer {
		return func(ctx context.Context, call once.Call) (context.Context, func(once.Report, error)) {
			seen = append(seen, name+" in "+call.Key.String())
			return ctx, func(r once.Report, cause error) {
				seen = append(seen, fmt.Sprintf("%s out %s replayed=%t cause=%v", name, r.Status, r.Replayed, cause))
			}
		}
	}
	broken := func(context.Context, once.Call) (context.Context, func(once.Report, error)) { panic("telemetry") }
	half := func(context.Context, once.Call) (context.Context, func(once.Report, error)) {
		return nil, func(once.Report, error) { panic("telemetry") }
	}
	b := &bank{after: func(context.Context) error { return errors.New("wire cut") }}
	g := newGuard(t, newStore(t), func(o *once.Options) { o.Observers = []once.Observer{watch("outer"), broken, half, watch("inner")} })
	bound := bind(t, g, b.tool())
	bound.Do(t.Context(), call1, five)
	bound.Do(t.Context(), call1, five)
	got := strings.Join(seen, "\n")
	const wanted = `outer in acme/r1:c1
inner in acme/r1:c1
inner out indeterminate replayed=false cause=wire cut
outer out indeterminate replayed=false cause=wire cut
outer in acme/r1:c1
inner in acme/r1:c1
inner out indeterminate replayed=true cause=<nil>
outer out indeterminate replayed=true cause=<nil>`
	if got != wanted {
		t.Errorf("got\n%s\nwant\n%s", got, wanted)
	}
}

func TestPolicySaysWhatToDoAboutAnUnknownCall(t *testing.T) {
	t.Parallel()
	for policy, next := range map[string]ledger.Next{"pause": ledger.Park, "tell": ledger.Done, "fail": ledger.Done} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			b := &bank{after: func(context.Context) error { return errors.New("x") }}
			h := handlerOf(t, newGuard(t, newStore(t)), b.tool())
			a := ask(t.Context(), t, h, envelope("invoke", `"reply"`, `"policy":{"on_indeterminate":"`+policy+`"},"reply"`))
			if a.Next != next || a.Status != once.Indeterminate || strings.Contains(a.ModelSays, "fail") {
				t.Errorf("got %+v, want next %s", a, next)
			}
		})
	}
}

func TestReasonOfAnEarlierAttemptStaysOnTheRecord(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{before: func(context.Context) error { return once.NotAttempted(errors.New("the account is locked")) }}
	bound := bind(t, newGuard(t, store), b.tool())
	req := call1
	for req.Attempt = 1; req.Attempt < 3; req.Attempt++ {
		bound.Do(t.Context(), req, five)
	}
	b.before = nil
	want(t, bound.Do(t.Context(), req, five).Report, once.Completed, ledger.Happened, ledger.Done, "")
	var reasons []string
	for _, e := range record(t, store, call1.Key()).Evidence {
		reasons = append(reasons, e.Reason)
	}
	if got := strings.Join(reasons, "|"); got != "attempt 1: not_attempted: the account is locked|attempt 2: not_attempted: the account is locked" {
		t.Errorf("kept %q", got)
	}
}

func TestHandlerRefusesAToolThatNoFunctionCanFinish(t *testing.T) {
	t.Parallel()
	b, guard := &bank{}, newGuard(t, newStore(t))
	longest := func(d time.Duration) once.Tool[creditIn, credit] {
		return b.tool(func(t *once.Tool[creditIn, credit]) { t.Timeout = d })
	}
	handlerOf(t, guard, longest(15*time.Minute))
	if _, err := guard.Handler(longest(15*time.Minute + time.Nanosecond)); err == nil || !strings.Contains(err.Error(), `tool "issue_credit": Timeout`) {
		t.Errorf("got %v", err)
	}
	bind(t, guard, longest(time.Hour)) // in a process of one's own it may take as long as it likes
}
