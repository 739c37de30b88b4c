package once_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// approver decides on call1 for a person.
func approver(t *testing.T, store *memledger.Store, now func() time.Time) func(approve bool) {
	t.Helper()
	return func(approve bool) {
		t.Helper()
		rec := record(t, store, call1.Key())
		d := ledger.Decision{ID: "d" + now().String(), Actor: "ann", Reason: "because", Version: rec.Version}
		decide := rec.Approve
		if !approve {
			decide = rec.Deny
		}
		move, err := decide(ledger.Stamp{At: now(), WriteID: d.ID}, d)
		if err == nil {
			_, err = store.Apply(t.Context(), move)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Proves: R33, R126, R127, R128, R154
func TestCallThatNeedsApprovalRunsOnceAfterIt(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	now := time.Now()
	clock := func() time.Time { return now }
	g := newGuard(t, store, func(o *once.Options) { o.Clock = clock })
	bound := bind(t, g, b.tool(func(t *once.Tool[creditIn, credit]) { t.ApproveWithin = time.Hour }))
	decide := approver(t, store, clock)
	for range 2 {
		out := bound.Do(t.Context(), call1, five)
		want(t, out.Report, once.ApprovalRequired, ledger.NoEffect, ledger.Park, "awaiting_approval")
	}
	if rec := record(t, store, call1.Key()); rec.Status != ledger.Reserved || b.runs.Load() != 0 {
		t.Errorf("stands %s, ran %d", rec.State(), b.runs.Load())
	}
	want(t, bound.Do(t.Context(), call1, creditIn{Account: "A1", Cents: 999}).Report, once.Conflict, ledger.NoEffect, ledger.Done, "other_call")
	now = now.Add(59 * time.Minute)
	decide(true)
	for range 3 {
		out := bound.Do(t.Context(), call1, five)
		want(t, out.Report, once.Completed, ledger.Happened, ledger.Done, "")
	}
	rec := record(t, store, call1.Key())
	if b.runs.Load() != 1 || !rec.Attempt.Deadline.Equal(now.Add(10*time.Second).Truncate(time.Millisecond)) {
		t.Errorf("ran %d times, until %v", b.runs.Load(), rec.Attempt.Deadline)
	}
}

func TestDeniedOrExpiredCallNeverRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		decide func(func(bool), *time.Time)
		code   string
	}{
		"denied":                  {func(d func(bool), _ *time.Time) { d(false) }, "denied"},
		"nobody decided":          {func(_ func(bool), now *time.Time) { *now = now.Add(2 * time.Hour) }, "approval_expired"},
		"approved, and then late": {func(d func(bool), now *time.Time) { d(true); *now = now.Add(2 * time.Hour) }, "approval_expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, b := newStore(t), &bank{}
			now := time.Now()
			clock := func() time.Time { return now }
			bound := bind(t, newGuard(t, store, func(o *once.Options) { o.Clock = clock }), b.tool(func(t *once.Tool[creditIn, credit]) { t.ApproveWithin = time.Hour }))
			bound.Do(t.Context(), call1, five)
			c.decide(approver(t, store, clock), &now)
			for range 2 {
				want(t, bound.Do(t.Context(), call1, five).Report, once.Failed, ledger.NoEffect, ledger.Done, c.code)
			}
			if b.runs.Load() != 0 {
				t.Error("it ran")
			}
		})
	}
}

func TestNewerApprovalPolicyAsksAgain(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	g := newGuard(t, store)
	policy := func(epoch int) *once.Bound[creditIn, credit] {
		return bind(t, g, b.tool(func(t *once.Tool[creditIn, credit]) { t.ApproveWithin, t.ApprovalPolicy = time.Hour, epoch }))
	}
	policy(1).Do(t.Context(), call1, five)
	approver(t, store, time.Now)(true)
	want(t, policy(2).Do(t.Context(), call1, five).Report, once.ApprovalRequired, ledger.NoEffect, ledger.Park, "awaiting_approval")
	if b.runs.Load() != 0 {
		t.Error("an old approval was used")
	}
	approver(t, store, time.Now)(true)
	want(t, policy(2).Do(t.Context(), call1, five).Report, once.Completed, ledger.Happened, ledger.Done, "")
}

func TestApprovedCallThatFailedRunsAgainOnlyByAGrant(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{before: func(context.Context) error { return once.NotAttempted(errors.New("locked")) }}
	bound := bind(t, newGuard(t, store), b.tool(func(t *once.Tool[creditIn, credit]) { t.ApproveWithin = time.Hour }))
	bound.Do(t.Context(), call1, five)
	approver(t, store, time.Now)(true)
	bound.Do(t.Context(), call1, five)
	again := call1
	again.Attempt = 2
	want(t, bound.Do(t.Context(), again, five).Report, once.Failed, ledger.NoEffect, ledger.Done, "not_attempted")
	if b.runs.Load() != 1 {
		t.Errorf("ran %d times", b.runs.Load())
	}
}

func TestToolThatCameToNeedApprovalDoesNotStartWhatHadNone(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{before: func(context.Context) error { return once.NotAttempted(errors.New("locked")) }}
	g := newGuard(t, store)
	bind(t, g, b.tool()).Do(t.Context(), call1, five)
	again := call1
	again.Attempt = 2
	bind(t, g, b.tool(func(t *once.Tool[creditIn, credit]) { t.ApproveWithin = time.Hour })).Do(t.Context(), again, five)
	if b.runs.Load() != 1 {
		t.Errorf("ran %d times", b.runs.Load())
	}
}
