package operator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

type creditIn struct {
	AccountID   string `json:"account_id"`
	AmountCents int64  `json:"amount_cents"`
}

type credit struct {
	CreditID string `json:"credit_id"`
}

// guarded puts a real guard on the bench's ledger behind its tools. The tool
// loses every answer; looked counts its look-ups.
func (b *bench) guarded(t *testing.T, byKey bool, find func(ledger.Record) (credit, bool, error)) (handler lambda.Handler, ran *int) {
	t.Helper()
	ran = new(int)
	guard, err := once.New(b.store, &once.Options{Clock: func() time.Time { return b.now }})
	if err != nil {
		t.Fatal(err)
	}
	handler, err = guard.Handler(once.Tool[creditIn, credit]{
		Name: "issue_credit", Class: once.External, Permission: "credits:write", ReconcileByKey: byKey,
		ExternalID: func(c credit) string { return c.CreditID },
		Run: func(context.Context, creditIn) (credit, error) {
			*ran++
			return credit{}, errors.New("the answer was lost")
		},
		Reconcile: func(_ context.Context, rec ledger.Record, _ creditIn) (credit, bool, error) { return find(rec) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return handler, ran
}

const invocation = `{"onceward":1,"mode":"invoke","tenant":"acme","run":{"id":"run-1"},"call":{"id":"c1","tool":"issue_credit","turn":1,
	"arguments":{"account_id":"` + canaryInput + `","amount_cents":2500}},"principal":{"subject":"user-1","permissions":["credits:write"]}}`

// lost runs the call once, so that its outcome is unknown.
func (b *bench) lost(t *testing.T, handler lambda.Handler) ledger.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := handler.Invoke(ctx, []byte(invocation)); err != nil {
		t.Fatal(err)
	}
	r, err := b.store.Load(t.Context(), ledger.Key{Tenant: "acme", RunID: "run-1", CallID: "c1"})
	if err != nil || r.Status != ledger.Indeterminate {
		t.Fatalf("the call is %s, %v", r.State(), err)
	}
	return r
}

// through makes the tools' functions the guard.
func (b *bench) through(t *testing.T, handler lambda.Handler) {
	t.Helper()
	b.tools.answer = func() ([]byte, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return handler.Invoke(ctx, b.tools.payloads[len(b.tools.payloads)-1])
	}
}

// Proves: R85, R86, R88, R90
func TestTheGuardUnderstandsWhatAnOperatorAsks(t *testing.T) {
	t.Parallel()
	for _, stored := range []bool{true, false} {
		b := newBench(t)
		known := false
		handler, ran := b.guarded(t, true, func(rec ledger.Record) (credit, bool, error) {
			if rec.Key.String() != "acme/run-1:c1" {
				t.Errorf("asked about %s", rec.Key)
			}
			return credit{"cr_9"}, known, nil
		})
		r := b.lost(t, handler)
		if stored {
			b.turn(t, nil, "c1")
		}
		b.park(t, r, "w1")
		b.through(t, handler)

		got, err := b.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1"})
		if err != nil || got.Settled || got.LookUp.Status != "indeterminate" || got.LookUp.Code != "look_up_absent" || got.RunWaiting != operator.StillWaiting {
			t.Fatalf("stored %t: got %+v, %v", stored, got, err)
		}
		known = true
		got, err = b.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1", ExpectedVersion: r.Version})
		if err != nil || !got.Settled || got.LookUp.Status != "completed" || got.RunWaiting != operator.Woken || got.Record.ExternalID != "cr_9" {
			t.Errorf("stored %t: got %+v, %v", stored, got, err)
		}
		clean(t, got)
		if *ran != 1 {
			t.Errorf("stored %t: the tool ran %d times", stored, *ran)
		}
	}
}

func TestAGuardThatNeedsTheArgumentsSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	handler, _ := b.guarded(t, false, func(ledger.Record) (credit, bool, error) { return credit{"cr_9"}, true, nil })
	b.lost(t, handler)
	b.through(t, handler)
	_, err := b.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1"})
	wantProblem(t, err, operator.NoArguments)
}

// Proves: R109, R110
func TestALateOutcomeDoesNotOverwriteADecision(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	if _, err := b.service.Resolve(t.Context(), ops, failed(r, "")); err != nil {
		t.Fatal(err)
	}
	stored, _ := b.store.Load(t.Context(), r.Key)
	move, err := stored.Settle(b.stamp("late"), r.Attempt.Token, ledger.Settlement{Effect: ledger.Happened, ExternalID: "cr_9"})
	b.apply(t, move, err)
	got, err := b.service.Show(t.Context(), ops, "run-1:c1")
	if err != nil || got.Status != "failed" || got.Why != operator.WhyContradicted || len(got.Evidence) != 1 {
		t.Fatalf("%s, %s, evidence %+v, %v", got.State, got.Why, got.Evidence, err)
	}
	clean(t, got)
	seen, err := b.service.Acknowledge(t.Context(), other, operator.Command{Key: "run-1:c1", Reason: "told the customer", ExpectedVersion: got.Version})
	if err != nil || seen.Record.Effect != "happened" || seen.Record.Why != "" {
		t.Errorf("%+v, %v", seen.Record, err)
	}
}
