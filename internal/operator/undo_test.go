package operator_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// Proves: R112, R116
func TestAnEffectIsUndoneOnceAPersonAsks(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	r := v.called(t)
	if _, err := v.runs.Hear(t.Context(), runs.ID{Tenant: "acme", Run: "run-1"}, 1, []runs.Heard{{CallID: "c1", Status: "completed", Says: "done"}}); err != nil {
		t.Fatal(err)
	}
	var before []ledger.Event
	v.bank.void = func() error {
		for _, step := range v.store.Log() {
			if step.Op == memledger.Apply && step.Persisted {
				before = append(before, step.Event)
			}
		}
		return nil
	}
	got, err := v.service.Compensate(t.Context(), ops, undo(r, "k1"))
	if err != nil {
		t.Fatal(err)
	}
	clean(t, got)
	want := &operator.UndoCall{Key: "acme/run-1:c1~undo1", N: 1, Status: "completed", Effect: "happened"}
	if diff := cmp.Diff(want, got.Undo); diff != "" {
		t.Errorf("undo (-want +got):\n%s", diff)
	}
	if got.Record.State != "compensated" || got.Record.Effect != "undone" || got.Decision.Kind != "ask_undo" || got.Decision.By != "ada" || !got.RecordKeeping || got.Replayed {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]ledger.Event{ledger.Start, ledger.Complete, ledger.AskUndo, ledger.Start}, before); diff != "" {
		t.Errorf("stored before the undo ran (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"acme/run-1:c1~undo1": 1}, v.bank.voids); diff != "" || v.bank.count(v.bank.credits) != 1 {
		t.Errorf("voids (-want +got):\n%s", diff)
	}
	own, err := v.service.Show(t.Context(), ops, "run-1:c1~undo1")
	if err != nil || own.Undoes != "acme/run-1:c1" || own.Summary == "" || own.Heard != nil {
		t.Errorf("the undo's own record: %+v, %v", own, err)
	}
	shown, err := v.service.Show(t.Context(), ops, "run-1:c1")
	if err != nil || shown.WhatToDo != "" || shown.Undo.Open || !cmp.Equal(want, shown.UndoCall) {
		t.Errorf("shown %+v, %v", shown, err)
	}
}

// Proves: R107
func TestOfTwoPeopleWhoAskOneWinsAndTheEffectIsUndoneOnce(t *testing.T) {
	t.Parallel()
	t.Run("one after the other", func(t *testing.T) {
		t.Parallel()
		v := newVault(t)
		r := v.called(t)
		if _, err := v.service.Compensate(t.Context(), ops, undo(r, "")); err != nil {
			t.Fatal(err)
		}
		_, err := v.service.Compensate(t.Context(), other, undo(r, ""))
		p := theProblem(t, err, operator.AlreadyDecided)
		if p.DecidedBy.Actor != "ada" || p.DecidedBy.Decision != "ask_undo" || p.Record.Status != "compensated" || p.Undo == nil || p.Undo.N != 1 || p.Undo.Open {
			t.Errorf("told %+v of %s", p.DecidedBy, p.Record.State)
		}
	})
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		v := newVault(t)
		r := v.called(t)
		var all sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			all.Go(func() {
				id := operator.Identity{Tenant: "acme", Actor: string(rune('a' + i)), Scopes: ops.Scopes}
				_, errs[i] = v.service.Compensate(t.Context(), id, undo(r, ""))
			})
		}
		all.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			if p := theProblem(t, err, operator.AlreadyDecided); p.Status != 409 || p.DecidedBy == nil || p.DecidedBy.Decision != "ask_undo" {
				t.Errorf("told %+v", p)
			}
		}
		if after := v.at(t, "c1"); won != 1 || v.bank.count(v.bank.voids) != 1 || after.Status != ledger.Compensated {
			t.Errorf("%d won, %d voids, %s", won, v.bank.count(v.bank.voids), after.State())
		}
	})
}

func TestTheSameRequestAgainIsAnsweredTheSameAndCarriesTheUndoOn(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	r := v.called(t)
	v.functions.lose = func(mode once.Mode) (bool, bool) { return mode == once.ModeCompensate, false }
	got, err := v.service.Compensate(t.Context(), ops, undo(r, "k1"))
	if err != nil || !got.Undo.Open || got.Undo.Status != "none" || got.Undo.WhatToDo == "" || got.Record.State != "completed, undo_open" {
		t.Fatalf("%+v of %s, %v", got.Undo, got.Record.State, err)
	}
	first := got.Decision
	v.functions.lose = nil
	for n := range 3 {
		got, err = v.service.Compensate(t.Context(), ops, undo(r, "k1"))
		if err != nil || !got.Replayed || got.Undo.Open || got.Undo.N != 1 || got.Record.Status != "compensated" || got.Decision != first {
			t.Errorf("request %d: %+v, %v", n, got, err)
		}
	}
	if v.bank.count(v.bank.voids) != 1 || v.functions.asked != 2 {
		t.Errorf("%d voids, asked %d times", v.bank.count(v.bank.voids), v.functions.asked)
	}
	again := undo(r, "k1")
	again.Reason = "another reason"
	_, err = v.service.Compensate(t.Context(), ops, again)
	wantProblem(t, err, operator.KeyReused)
}

func TestAnyRequestOnTheCallOrItsUndoCarriesAnOpenUndoOn(t *testing.T) {
	t.Parallel()
	ask := map[string]func(context.Context, *vault, ledger.Record) error{
		"reconcile": func(ctx context.Context, v *vault, _ ledger.Record) error {
			_, err := v.service.Reconcile(ctx, other, operator.Inquiry{Key: "run-1:c1"})
			return err
		},
		"resolve": func(ctx context.Context, v *vault, r ledger.Record) error {
			_, err := v.service.Resolve(ctx, other, failed(r, ""))
			return err
		},
		"another compensate": func(ctx context.Context, v *vault, r ledger.Record) error {
			_, err := v.service.Compensate(ctx, other, undo(r, ""))
			return err
		},
		"tend": func(ctx context.Context, v *vault, r ledger.Record) error {
			got, err := v.service.Tend(ctx, r.Key)
			if !got.UndoInvoked || !got.UndoClosed || got.NeedsSomebody {
				return errors.Join(errors.New("tended too little"), err)
			}
			return err
		},
	}
	for name, request := range ask {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVault(t)
			r := v.called(t)
			v.functions.lose = func(mode once.Mode) (bool, bool) { return mode == once.ModeCompensate, false }
			if _, err := v.service.Compensate(t.Context(), ops, undo(r, "")); err != nil {
				t.Fatal(err)
			}
			v.functions.lose = nil
			err := request(t.Context(), v, r)
			if p, ok := errors.AsType[*operator.Problem](err); ok != (name != "tend") || ok && (p.Status != 409 || p.Undo == nil || p.Undo.Open || p.Undo.Status != "completed") {
				t.Errorf("answered %+v", err)
			}
			if after := v.at(t, "c1"); after.Status != ledger.Compensated || v.bank.count(v.bank.voids) != 1 {
				t.Errorf("%s after %d voids", after.State(), v.bank.count(v.bank.voids))
			}
		})
	}
}

func TestAFailedUndoCanBeAskedForAgain(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"rejected":      once.Rejected(errors.New("the month is closed")),
		"not attempted": once.NotAttempted(errors.New("no connection")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVault(t)
			r := v.called(t)
			v.bank.void = func() error { return refusal }
			got, err := v.service.Compensate(t.Context(), ops, undo(r, "k1"))
			if err != nil || got.Undo.Open || got.Undo.Status != "failed" || got.Undo.Error == nil || got.Record.State != "completed" || got.Record.Effect != "happened" {
				t.Fatalf("%+v of %s, %v", got.Undo, got.Record.State, err)
			}
			if own := v.at(t, "c1~undo1"); own.State().String() != "failed, final" {
				t.Errorf("its own record is %s", own.State())
			}
			v.bank.void = nil
			again := undo(v.at(t, "c1"), "k2")
			got, err = v.service.Compensate(t.Context(), other, again)
			if err != nil || got.Undo.N != 2 || got.Undo.Key != "acme/run-1:c1~undo2" || got.Record.Status != "compensated" {
				t.Fatalf("%+v of %s, %v", got.Undo, got.Record.State, err)
			}
			// The first request again speaks of the first undo, and runs nothing.
			got, err = v.service.Compensate(t.Context(), ops, undo(r, "k1"))
			if err != nil || !got.Replayed || got.Undo.N != 1 || got.Undo.Status != "failed" {
				t.Errorf("%+v, %v", got.Undo, err)
			}
			if diff := cmp.Diff(map[string]int{"acme/run-1:c1~undo2": 1}, v.bank.voids); diff != "" {
				t.Errorf("voids (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnUnknownCallIsUndoneOnlyByExplicitWordAndOnceNothingTravelsAnyMore(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	r := v.lostTrack(t)
	v.park(t, r, "w1")
	_, err := v.service.Compensate(t.Context(), ops, undo(r, ""))
	p := theProblem(t, err, operator.InvalidRequest)
	if len(p.Errors) != 1 || p.Errors[0].Location != "body.knows_unknown" || !strings.Contains(p.Errors[0].Message, "may undo nothing") {
		t.Errorf("told %+v", p.Errors)
	}
	in := undo(r, "")
	in.ExpectedVersion += 5
	for _, in.KnowsUnknown = range []bool{false, true} {
		_, err = v.service.Compensate(t.Context(), ops, in)
		if p := theProblem(t, err, operator.StaleVersion); p.Record == nil || p.Record.Version != r.Version {
			t.Errorf("another version, word %t: %+v", in.KnowsUnknown, p)
		}
	}
	in.ExpectedVersion = r.Version
	_, err = v.service.Compensate(t.Context(), ops, in)
	if p := theProblem(t, err, operator.NotAllowed); p.NotBefore != r.Attempt.QuietAfter.Format(time.RFC3339Nano) || p.Record == nil || !strings.Contains(p.Detail, p.NotBefore) {
		t.Errorf("not before %q: %s", p.NotBefore, p.Detail)
	}
	v.now = r.Attempt.QuietAfter.Add(time.Millisecond)
	if after := v.at(t, "c1"); after.Version != r.Version || v.functions.asked != 0 {
		t.Errorf("refused, and %s at %d, asked %d times", after.State(), after.Version, v.functions.asked)
	}
	got, err := v.service.Compensate(t.Context(), ops, in)
	if err != nil || got.Record.Status != "compensated" || got.RunWaiting != operator.Woken || v.bell.times() != 1 {
		t.Errorf("%+v, %s, run %q, %v", got.Undo, got.Record.State, got.RunWaiting, err)
	}
}

func TestAnUndoOfAnUnknownCallThatDidNothingLeavesTheRunWaiting(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	r := v.lostTrack(t)
	v.park(t, r, "w1")
	v.now = v.now.Add(time.Hour)
	v.bank.void = func() error { return once.Rejected(errors.New("there is no such credit")) }
	in := undo(r, "")
	in.KnowsUnknown = true
	got, err := v.service.Compensate(t.Context(), ops, in)
	if err != nil || got.Undo.Status != "failed" || got.Record.Status != "indeterminate" || got.RunWaiting != operator.StillWaiting || v.bell.times() != 0 {
		t.Errorf("%+v, %s, run %q, %v", got.Undo, got.Record.State, got.RunWaiting, err)
	}
}

func TestWhatCannotBeUndoneIsSaidBeforeAnythingIsStored(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	r := v.called(t)
	notCalled := func(tool string) ledger.Record {
		c := call("c-" + tool)
		c.Tool = tool
		x := ledger.Executor{Token: "t", Attempt: 1, Deadline: v.now.Add(time.Minute), QuietAfter: v.now.Add(time.Minute)}
		move, err := ledger.Record{}.Start(v.stamp("s"+tool), c, x)
		started := v.apply(t, move, err)
		move, err = started.Settle(v.stamp("e"+tool), x.Token, ledger.Settlement{Effect: ledger.Happened})
		return v.apply(t, move, err)
	}
	ask := func(r ledger.Record) error {
		_, err := v.service.Compensate(t.Context(), ops, undo(r, ""))
		return err
	}
	wantProblem(t, ask(notCalled("no_undo")), operator.NoCompensation)
	wantProblem(t, ask(notCalled("elsewhere")), operator.ToolNotConfigured)
	v.functions.lose = func(once.Mode) (bool, bool) { return true, false }
	wantProblem(t, ask(r), operator.ToolUnreachable)
	v.functions.lose = nil
	for _, id := range []string{"c1", "c-no_undo", "c-elsewhere"} {
		if after := v.at(t, id); after.Version != 2 || after.Undo.N != 0 || len(after.Decisions) != 0 {
			t.Errorf("%s: stored %s at version %d", id, after.State(), after.Version)
		}
	}
	running := v.start(t, "running")
	if p := theProblem(t, ask(running), operator.NotAllowed); p.NotBefore == "" {
		t.Errorf("told %+v", p)
	}
	wantProblem(t, ask(v.reserve(t, "reserved")), operator.NotAllowed)
	move, err := running.Settle(v.stamp("no"), running.Attempt.Token, ledger.Settlement{Effect: ledger.NoEffect})
	wantProblem(t, ask(v.apply(t, move, err)), operator.AlreadySettled)
	stale := r
	stale.Version = 7
	wantProblem(t, ask(stale), operator.StaleVersion)
	if _, err := v.service.Compensate(t.Context(), operator.Identity{Tenant: "acme", Actor: "ada", Scopes: []string{"calls:read"}}, undo(r, "")); err != nil {
		wantProblem(t, err, operator.MissingScope)
	}
	if _, err := v.service.Compensate(t.Context(), ops, operator.Compensation{Command: operator.Command{Key: "run-1:c1", ExpectedVersion: 2, Reason: " "}}); err != nil {
		wantProblem(t, err, operator.InvalidRequest)
	}
	if v.functions.asked != 0 {
		t.Errorf("asked %d times", v.functions.asked)
	}
	if err := ask(r); err != nil {
		t.Fatal(err)
	}
	if p := theProblem(t, ask(v.at(t, "c1~undo1")), operator.NotAllowed); !strings.Contains(p.Detail, "can't be undone") {
		t.Errorf("told %s", p.Detail)
	}
}

func TestAnUndoThatIsRefusedAfterItWasAskedForIsEndedWithItsReason(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]bool{"heard": false, "the first answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVault(t)
			r := v.called(t)
			able := v.functions.handler
			v.functions.lose = func(mode once.Mode) (bool, bool) {
				if mode == once.ModeCompensate { // deployed meanwhile: a version without the tool's compensation
					v.functions.handler = withoutUndo(t, v)
				}
				return false, lose && mode == once.ModeCompensate
			}
			got, err := v.service.Compensate(t.Context(), ops, undo(r, "k1"))
			if lose {
				if err != nil || !got.Undo.Open || got.Undo.Status != "none" {
					t.Fatalf("%+v, %v", got.Undo, err)
				}
				lose = false
				if _, err = v.service.Tend(t.Context(), r.Key); err != nil {
					t.Fatal(err)
				}
				got, err = v.service.Compensate(t.Context(), ops, undo(r, "k1"))
			}
			if err != nil || got.Undo.Open || got.Undo.Status != "failed" || got.Undo.Error == nil || got.Record.State != "completed" {
				t.Fatalf("%+v of %s, %v", got.Undo, got.Record.State, err)
			}
			shown, err := v.service.Show(t.Context(), ops, "run-1:c1")
			if err != nil || len(shown.Evidence) != 1 || !strings.Contains(shown.Evidence[0].Reason, "undo 1 did nothing: not_supported") {
				t.Errorf("evidence %+v, %v", shown.Evidence, err)
			}
			v.functions.handler, v.functions.lose = able, nil
			got, err = v.service.Compensate(t.Context(), ops, undo(v.at(t, "c1"), "k2"))
			if err != nil || got.Undo.N != 2 || got.Record.Status != "compensated" {
				t.Errorf("%+v, %v", got.Undo, err)
			}
		})
	}
}

func withoutUndo(t *testing.T, v *vault) interface {
	Invoke(ctx context.Context, payload []byte) ([]byte, error)
} {
	t.Helper()
	guard, err := once.New(v.store, &once.Options{Clock: func() time.Time { return v.now }})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := guard.Handler(once.Tool[creditIn, credit]{
		Name: "issue_credit", Class: once.External, Run: func(context.Context, creditIn) (credit, error) { return credit{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}
