package once_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

func needsApproval(t *once.Tool[creditIn, credit]) { t.ApproveWithin = time.Hour }

// Proves: R128
func TestApprovedCallWhoseProcessDiedIsLookedUpAndNotApprovedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := newStore(t), &bank{}
		bound := bind(t, newGuard(t, store), b.tool(needsApproval, b.withLookUp))
		want(t, bound.Do(t.Context(), call1, five).Report, once.ApprovalRequired, ledger.NoEffect, ledger.Park, "awaiting_approval")
		approver(t, store, time.Now)(true)
		// The process pays, and dies before the ledger hears of it.
		bind(t, newGuard(t, dyingStore{store}), b.tool(needsApproval)).Do(t.Context(), call1, five)
		if rec := record(t, store, call1.Key()); rec.Status != ledger.Started {
			t.Fatalf("left %s", rec.State())
		}
		time.Sleep(11 * time.Second) // in the bubble's time
		want(t, bound.Do(t.Context(), call1, five).Report, once.Completed, ledger.Happened, ledger.Done, "")
		if b.effects.Load() != 1 || b.runs.Load() != 1 || b.looks.Load() != 1 || len(record(t, store, call1.Key()).Decisions) != 1 {
			t.Errorf("effects %d, runs %d, look-ups %d, decisions %+v", b.effects.Load(), b.runs.Load(), b.looks.Load(), record(t, store, call1.Key()).Decisions)
		}
	})
}

// dyingStore stores no word of an executor about what became of its call.
type dyingStore struct{ ledger.Store }

func (d dyingStore) Apply(ctx context.Context, m ledger.Move) (ledger.Record, error) {
	if m.Proof().Kind == ledger.ByToken {
		return ledger.Record{}, context.DeadlineExceeded
	}
	return d.Store.Apply(ctx, m)
}

func TestApprovalIsUsedUpByOneOfManyStarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := newStore(t), &bank{}
		bound := bind(t, newGuard(t, store), b.tool(needsApproval))
		bound.Do(t.Context(), call1, five)
		approver(t, store, time.Now)(true)
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				want(t, bound.Do(t.Context(), call1, five).Report, once.Completed, ledger.Happened, ledger.Done, "")
			})
		}
		all.Wait()
		if b.effects.Load() != 1 {
			t.Errorf("effects %d", b.effects.Load())
		}
	})
}

func TestDeniedCallCanNotBeApprovedAfterwards(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	bound := bind(t, newGuard(t, store), b.tool(needsApproval))
	bound.Do(t.Context(), call1, five)
	waiting := record(t, store, call1.Key())
	approve := func(r ledger.Record) error {
		move, err := r.Approve(ledger.Stamp{At: time.Now(), WriteID: "w9"}, ledger.Decision{ID: "d9", Actor: "bob", Reason: "fine by me", Version: r.Version})
		if err == nil {
			_, err = store.Apply(t.Context(), move)
		}
		return err
	}
	approver(t, store, time.Now)(false)
	if err := approve(waiting); !errors.Is(err, ledger.ErrStale) {
		t.Errorf("an approval of what was waiting: %v", err)
	}
	if err := approve(record(t, store, call1.Key())); !errors.Is(err, ledger.ErrNotAllowed) {
		t.Errorf("an approval of what was denied: %v", err)
	}
	want(t, bound.Do(t.Context(), call1, five).Report, once.Failed, ledger.NoEffect, ledger.Done, "denied")
	if b.effects.Load() != 0 {
		t.Errorf("effects %d", b.effects.Load())
	}
}

func TestApprovalUnderAnOlderPolicyStaysInTheTrail(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	g := newGuard(t, store)
	policy := func(epoch int) *once.Bound[creditIn, credit] {
		return bind(t, g, b.tool(needsApproval, func(t *once.Tool[creditIn, credit]) { t.ApprovalPolicy = epoch }))
	}
	policy(1).Do(t.Context(), call1, five)
	approver(t, store, time.Now)(true)
	policy(2).Do(t.Context(), call1, five)
	approver(t, store, time.Now)(true)
	policy(2).Do(t.Context(), call1, five)
	rec := record(t, store, call1.Key())
	if len(rec.Decisions) != 2 || rec.Decisions[0].Kind != ledger.Approve || rec.Decisions[1].Kind != ledger.Approve || rec.Approval.Policy != 2 || b.effects.Load() != 1 {
		t.Errorf("decisions %+v, policy %d, effects %d", rec.Decisions, rec.Approval.Policy, b.effects.Load())
	}
}

func TestNothingThatIsRefusedExtendsAnApprovalsWindow(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	now := time.Now()
	clock := func() time.Time { return now }
	bound := bind(t, newGuard(t, store, func(o *once.Options) { o.Clock = clock }), b.tool(needsApproval))
	bound.Do(t.Context(), call1, five)
	window := record(t, store, call1.Key()).Approval.ExpiresAt
	for range 5 {
		now = now.Add(10 * time.Minute)
		bound.Do(t.Context(), call1, five)
		bound.Do(t.Context(), call1, creditIn{Account: "A2"})
		rec := record(t, store, call1.Key())
		if _, err := rec.Approve(ledger.Stamp{At: now, WriteID: "w"}, ledger.Decision{ID: "d", Version: rec.Version}); err == nil {
			t.Error("an approval without an actor was taken")
		}
	}
	if rec := record(t, store, call1.Key()); !rec.Approval.ExpiresAt.Equal(window) {
		t.Errorf("the window ends at %v, it was %v", rec.Approval.ExpiresAt, window)
	}
	now = now.Add(11 * time.Minute)
	want(t, bound.Do(t.Context(), call1, five).Report, once.Failed, ledger.NoEffect, ledger.Done, "approval_expired")
}
