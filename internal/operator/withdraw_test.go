package operator_test

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// unbegun asks for an undo whose invocation never arrives.
func unbegun(t *testing.T) *vault {
	t.Helper()
	v := newVault(t)
	r := v.called(t)
	v.functions.lose = func(mode once.Mode) (bool, bool) { return mode == once.ModeCompensate, false }
	if got, err := v.service.Compensate(t.Context(), ops, undo(r, "k1")); err != nil || !got.Undo.Open || !strings.Contains(got.Undo.WhatToDo, "POST withdraw") {
		t.Fatalf("%+v, %v", got.Undo, err)
	}
	return v
}

func (v *vault) withdrawal(t *testing.T) operator.Command {
	t.Helper()
	return operator.Command{Key: "run-1:c1~undo1", Reason: "voided by hand", ExpectedVersion: v.at(t, "c1").Version, IdempotencyKey: "w1"}
}

func TestAnUndoThatHasNotBegunIsTakenBackAndNeverBegins(t *testing.T) {
	t.Parallel()
	v := unbegun(t)
	in := v.withdrawal(t)
	for n := range 2 {
		got, err := v.service.Withdraw(t.Context(), other, in)
		if err != nil || got.Replayed != (n == 1) || got.Undo.Open || got.Undo.Status != "failed" || got.Decision.By != "bob" || got.Decision.Kind != "withdraw" || got.Record.SettledBy.ID != "bob" {
			t.Fatalf("request %d: %+v of %+v, %v", n, got, got.Undo, err)
		}
		clean(t, got.Undo)
	}
	v.functions.lose = nil
	for range 2 {
		if got, err := v.service.Tend(t.Context(), v.at(t, "c1").Key); err != nil || got.UndoInvoked || got.State != "completed" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	shown, err := v.service.Show(t.Context(), ops, "run-1:c1")
	if err != nil || len(shown.Evidence) != 1 || shown.Evidence[0].By != "bob" || !strings.Contains(shown.Evidence[0].Reason, "voided by hand") || v.bank.count(v.bank.voids) != 0 {
		t.Errorf("evidence %+v, %v", shown.Evidence, err)
	}
	if got, err := v.service.Compensate(t.Context(), ops, undo(v.at(t, "c1"), "k2")); err != nil || got.Undo.N != 2 || got.Record.Status != "compensated" {
		t.Errorf("asked again: %+v, %v", got, err)
	}
	in.IdempotencyKey = ""
	_, err = v.service.Withdraw(t.Context(), ops, in)
	if p := theProblem(t, err, operator.AlreadyDecided); p.DecidedBy.Actor != "bob" {
		t.Errorf("told %+v", p.DecidedBy)
	}
}

func TestOnlyAnUndoThatIsOpenAndHasNotBegunIsTakenBack(t *testing.T) {
	t.Parallel()
	v := unbegun(t)
	stale := v.withdrawal(t)
	stale.ExpectedVersion--
	_, err := v.service.Withdraw(t.Context(), ops, stale)
	wantProblem(t, err, operator.StaleVersion)
	for _, key := range []string{"run-1:c1~undo2", "run-1:c2~undo1"} {
		in := v.withdrawal(t)
		in.Key = key
		_, err = v.service.Withdraw(t.Context(), ops, in)
		wantProblem(t, err, operator.NotFound)
	}
	in := v.withdrawal(t)
	v.functions.lose = nil
	v.store.OnMoment(func(m memledger.Moment) { // it begins just before it is closed
		if m.When == "before" && m.Step.Op == memledger.Apply && m.Step.Event == ledger.Close {
			v.store.OnMoment(nil)
			if _, err := v.service.Tend(t.Context(), v.at(t, "c1").Key); err != nil {
				t.Error(err)
			}
		}
	})
	_, err = v.service.Withdraw(t.Context(), ops, in)
	if p := theProblem(t, err, operator.AlreadySettled); p.Undo == nil || p.Undo.Status != "completed" {
		t.Errorf("told %+v", p)
	}
	if after := v.at(t, "c1"); after.Status != ledger.Compensated || v.bank.count(v.bank.voids) != 1 {
		t.Errorf("%s after %d voids", after.State(), v.bank.count(v.bank.voids))
	}
}

func TestAWithdrawalWhoseAnswerIsLostIsFinishedByTheNextRequest(t *testing.T) {
	t.Parallel()
	for _, fault := range []memledger.Fault{
		{Op: memledger.Apply, Event: ledger.Close, Persist: true},
		{Op: memledger.Apply, Event: ledger.Close},
		{Op: memledger.Apply, Event: ledger.Note},
		{Op: memledger.Apply, Event: ledger.UndoFail, Persist: true},
		{Op: memledger.Apply, Event: ledger.UndoFail},
	} {
		v := unbegun(t)
		in := v.withdrawal(t)
		v.store.Arm(fault)
		if _, err := v.service.Withdraw(t.Context(), ops, in); err != nil {
			t.Error(err)
		}
		if got, err := v.service.Withdraw(t.Context(), ops, in); err != nil || !got.Replayed || got.Undo.Open || v.at(t, "c1").State().String() != "completed" {
			t.Errorf("%s: %+v, %v", fault.Event, got.Undo, err)
		}
	}
}
