package operator_test

import (
	"context"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
)

func TestVerdictsMoveTheCallAndWakeTheRun(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		make  func(*testing.T, *bench) ledger.Record
		do    func(*operator.Service) func(context.Context, operator.Identity, operator.Command) (operator.Decided, error)
		state string
		run   operator.RunWaiting
	}{
		"approve": {
			func(t *testing.T, b *bench) ledger.Record { t.Helper(); return b.reserve(t, "c1") },
			func(s *operator.Service) func(context.Context, operator.Identity, operator.Command) (operator.Decided, error) {
				return s.Approve
			},
			"reserved, approved", operator.Woken,
		},
		"deny": {
			func(t *testing.T, b *bench) ledger.Record { t.Helper(); return b.reserve(t, "c1") },
			func(s *operator.Service) func(context.Context, operator.Identity, operator.Command) (operator.Decided, error) {
				return s.Deny
			},
			"failed, final", operator.Woken,
		},
		"withdraw": {
			func(t *testing.T, b *bench) ledger.Record {
				t.Helper()
				r := b.start(t, "c1")
				move, err := r.Settle(b.stamp("na"), r.Attempt.Token, ledger.Settlement{Effect: ledger.NoEffect, Retryable: true})
				return b.apply(t, move, err)
			},
			func(s *operator.Service) func(context.Context, operator.Identity, operator.Command) (operator.Decided, error) {
				return s.Withdraw
			},
			"failed, final", operator.Woken,
		},
		"acknowledge": {
			func(t *testing.T, b *bench) ledger.Record {
				t.Helper()
				r := b.start(t, "c1")
				move, err := r.Settle(b.stamp("no"), r.Attempt.Token, ledger.Settlement{Effect: ledger.NoEffect})
				r = b.apply(t, move, err)
				move, err = r.Settle(b.stamp("late"), r.Attempt.Token, ledger.Settlement{Effect: ledger.Happened})
				return b.apply(t, move, err)
			},
			func(s *operator.Service) func(context.Context, operator.Identity, operator.Command) (operator.Decided, error) {
				return s.Acknowledge
			},
			"failed, final, acknowledged", operator.Woken,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := tt.make(t, b)
			b.park(t, r, "w1")
			do := tt.do(b.service)
			c := operator.Command{Key: "run-1:c1", ExpectedVersion: r.Version}
			_, err := do(t.Context(), operator.Identity{Tenant: "acme", Actor: "ada"}, c)
			wantProblem(t, err, operator.MissingScope)
			if name != "approve" {
				_, err := do(t.Context(), ops, c)
				wantProblem(t, err, operator.InvalidRequest)
				c.Reason = "because"
			}
			got, err := do(t.Context(), ops, c)
			if err != nil || got.Record.State != tt.state || got.RunWaiting != tt.run || got.Decision.By != "ada" {
				t.Fatalf("state %q, run %q, %v", got.Record.State, got.RunWaiting, err)
			}
			clean(t, got)
			_, err = do(t.Context(), other, c)
			if p := theProblem(t, err, operator.AlreadyDecided); p.DecidedBy.Actor != "ada" {
				t.Errorf("told %+v", p.DecidedBy)
			}
		})
	}
}

func TestAnApprovalAfterItsWindowIsNotPossible(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.reserve(t, "c1")
	b.now = b.now.Add(2 * time.Hour)
	_, err := b.service.Approve(t.Context(), ops, operator.Command{Key: "run-1:c1", ExpectedVersion: r.Version})
	wantProblem(t, err, operator.NotAllowed)
}
