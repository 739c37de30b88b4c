package operator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// half asks for an undo of an unknown call whose own outcome stays unknown, too;
// a run is parked on the call.
func half(t *testing.T) *vault {
	t.Helper()
	v := newVault(t)
	r := v.lostTrack(t)
	v.park(t, r, "w1")
	v.now = v.now.Add(time.Hour)
	v.bank.voided = func() error { return errors.New("no answer") }
	in := undo(r, "k1")
	in.KnowsUnknown = true
	got, err := v.service.Compensate(t.Context(), ops, in)
	if err != nil || !got.Undo.Open || got.Undo.Status != "indeterminate" || got.Undo.Effect != "unknown" || got.RunWaiting != operator.StillWaiting {
		t.Fatalf("%+v, run %q, %v", got.Undo, got.RunWaiting, err)
	}
	return v
}

func TestAnUndoWhoseOutcomeIsUnknownStaysOpenAndBothAreListed(t *testing.T) {
	t.Parallel()
	v := half(t)
	for range 3 { // whoever looks after it can't settle it
		got, err := v.service.Tend(t.Context(), v.at(t, "c1").Key)
		if err != nil || got.UndoInvoked || got.UndoClosed || got.LookedUp || !got.NeedsSomebody || got.State != "indeterminate, undo_open, decided" || got.Rung != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		v.now = v.now.Add(time.Hour)
	}
	list, err := v.service.List(t.Context(), ops, operator.Filter{})
	if err != nil || len(list.Items) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, item := range list.Items {
		switch item.Key {
		case "acme/run-1:c1":
			if item.Why != operator.WhyUndoOpen || !strings.Contains(item.WhatToDo, "acme/run-1:c1~undo1") {
				t.Errorf("%+v", item)
			}
		case "acme/run-1:c1~undo1":
			if item.Why != operator.WhyUnknown {
				t.Errorf("%+v", item)
			}
		}
	}
	_, err = v.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1~undo1"})
	if p := theProblem(t, err, operator.NothingToLookUp); !strings.HasSuffix(p.Detail, "an undo has no look-up: look at the receiver and resolve it.") || p.Undo == nil || p.Undo.WhatToDo == "" {
		t.Errorf("%+v", p)
	}
	shown, err := v.service.Show(t.Context(), ops, "run-1:c1")
	if err != nil || shown.Why != operator.WhyUndoOpen || shown.UndoCall.Status != "indeterminate" || shown.WhatToDo != shown.UndoCall.WhatToDo || shown.WhatToDo == "" {
		t.Errorf("%+v, %v", shown.UndoCall, err)
	}
	if v.functions.asked != 1 || v.bank.count(v.bank.voids) != 1 {
		t.Errorf("asked %d times", v.functions.asked)
	}
}

func TestResolvingAnUndoEndsItForItsCallToo(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		outcome string
		retry   bool
		state   string
		n       int // the open or latest undo's voids
		run     operator.RunWaiting
	}{
		"completed":         {operator.OutcomeCompleted, false, "compensated, decided", 1, operator.Woken},
		"failed":            {operator.OutcomeFailed, false, "indeterminate, decided", 1, operator.StillWaiting},
		"failed, run again": {operator.OutcomeFailed, true, "compensated, decided", 2, operator.Woken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := half(t)
			v.bank.voided = nil
			own := v.at(t, "c1~undo1")
			in := failed(own, "r1")
			in.Outcome, in.AllowRetry = tt.outcome, tt.retry
			for n := range 2 {
				got, err := v.service.Resolve(t.Context(), other, in)
				if err != nil || got.Undo.Open || got.Undo.N != 1 || got.Record.Key != "acme/run-1:c1~undo1" || got.RunWaiting != tt.run || got.Replayed != (n == 1) {
					t.Errorf("request %d: %+v, run %q, %v", n, got.Undo, got.RunWaiting, err)
				}
			}
			if after := v.at(t, "c1"); after.State().String() != tt.state || v.bank.voids["acme/run-1:c1~undo1"] != tt.n {
				t.Errorf("the call is %s after %d voids", after.State(), v.bank.voids["acme/run-1:c1~undo1"])
			}
		})
	}
}

// calledFailed makes an undo that a person called failed, and returns what its
// executor would report if it came back.
func calledFailed(t *testing.T) (v *vault, comesBack func()) {
	t.Helper()
	v = half(t)
	own := v.at(t, "c1~undo1")
	if _, err := v.service.Resolve(t.Context(), ops, failed(own, "")); err != nil {
		t.Fatal(err)
	}
	if after := v.at(t, "c1"); after.State().String() != "indeterminate, decided" {
		t.Fatalf("the call is %s", after.State())
	}
	return v, func() {
		t.Helper()
		move, err := v.at(t, "c1~undo1").Settle(v.stamp("late"), own.Attempt.Token, ledger.Settlement{Effect: ledger.Happened})
		v.apply(t, move, err)
	}
}

// denied makes an undo that a person called failed and that took effect after
// all, as its executor says when it is back.
func denied(t *testing.T) *vault {
	t.Helper()
	v, comesBack := calledFailed(t)
	comesBack()
	return v
}

// askAgain asks for the next undo.
func (v *vault) askAgain(t *testing.T) (operator.Decided, error) {
	t.Helper()
	in := undo(v.at(t, "c1"), "k2")
	in.KnowsUnknown = true
	return v.service.Compensate(t.Context(), ops, in)
}

func (v *vault) acknowledges(t *testing.T, id string) (operator.Decided, error) {
	t.Helper()
	return v.service.Acknowledge(t.Context(), other, operator.Command{Key: "run-1:" + id, Reason: "looked at the bank", ExpectedVersion: v.at(t, id).Version})
}

func TestAnUndoThatTookEffectAfterAllIsAcknowledgedOnTheCallOrUnderItsOwnKey(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"c1", "c1~undo1"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			v := denied(t)
			got, err := v.service.Acknowledge(t.Context(), other, operator.Command{Key: "run-1:" + id, Reason: "the void is there", ExpectedVersion: v.at(t, id).Version})
			if err != nil || got.Decision.By != "bob" || got.RunWaiting != operator.Woken {
				t.Fatalf("%+v, %v", got, err)
			}
			owner, own := v.at(t, "c1"), v.at(t, "c1~undo1")
			if owner.Status != ledger.Compensated || own.Flags.Has(ledger.Contradicted) || !own.Flags.Has(ledger.Acknowledged) {
				t.Errorf("the call is %s, its undo %s", owner.State(), own.State())
			}
			if by := owner.Decisions[len(owner.Decisions)-1]; by.By != "bob" || by.Kind != ledger.AcknowledgeUndo {
				t.Errorf("by %+v", by)
			}
			if v.bank.count(v.bank.voids) != 1 {
				t.Errorf("%d voids", v.bank.count(v.bank.voids))
			}
		})
	}
}

// Proves: R112, R116
func TestNothingIsUndoneAgainWhileAnEarlierUndoStands(t *testing.T) {
	t.Parallel()
	v := denied(t)
	v.bank.voided = nil
	_, err := v.askAgain(t)
	if p, ok := errors.AsType[*operator.Problem](err); !ok || p.Status != 409 || !strings.Contains(p.Detail, "c1~undo1") || !strings.Contains(p.Detail, "acknowledge") {
		t.Errorf("got %v", err)
	}
	if owner, voids := v.at(t, "c1"), v.bank.count(v.bank.voids); owner.Undo.N != 1 || voids != 1 {
		t.Errorf("undo %d, %d voids", owner.Undo.N, voids)
	}
}

// The next undo found nothing left to undo, and then the first one's executor
// comes back: the call is undone, whichever key the person names.
func TestAnEarlierUndoThatTookEffectAfterAllMakesTheCallUndone(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"c1", "c1~undo1"} {
		v, comesBack := calledFailed(t)
		v.bank.void = func() error { return once.Rejected(errors.New("nothing to void")) }
		if got, err := v.askAgain(t); err != nil || got.Undo.N != 2 || got.Undo.Open || got.Undo.Status != "failed" {
			t.Fatalf("%+v, %v", got, err)
		}
		comesBack()
		got, err := v.acknowledges(t, id)
		owner, own := v.at(t, "c1"), v.at(t, "c1~undo1")
		if err != nil || owner.Status != ledger.Compensated || own.Flags.Has(ledger.Contradicted) || got.RunWaiting != operator.Woken {
			t.Errorf("%s: %+v, %v: the call is %s, its undo %s", id, got, err, owner.State(), own.State())
		}
		if voids := v.bank.count(v.bank.voids); voids != 1 {
			t.Errorf("%s: %d voids", id, voids)
		}
	}
}

func TestAnEarlierUndoIsAcknowledgedOnceTheOpenOneHasEnded(t *testing.T) {
	t.Parallel()
	v, comesBack := calledFailed(t)
	if got, err := v.askAgain(t); err != nil || !got.Undo.Open || got.Undo.N != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	comesBack()
	_, err := v.acknowledges(t, "c1~undo1")
	if p, ok := errors.AsType[*operator.Problem](err); !ok || p.Status != 409 || !v.at(t, "c1~undo1").Flags.Has(ledger.Contradicted) {
		t.Errorf("got %v", err)
	}
	if _, err := v.service.Resolve(t.Context(), ops, failed(v.at(t, "c1~undo2"), "")); err != nil {
		t.Fatal(err)
	}
	if _, err := v.acknowledges(t, "c1~undo1"); err != nil || v.at(t, "c1").Status != ledger.Compensated {
		t.Errorf("%v: the call is %s", err, v.at(t, "c1").State())
	}
}

// Both were sent before anybody could know: the call is undone, and what is left
// is to look at the second void.
func TestAnUndoOfACallThatIsUndoneAlreadyIsAcknowledgedByItself(t *testing.T) {
	t.Parallel()
	v, comesBack := calledFailed(t)
	v.bank.voided = nil
	if got, err := v.askAgain(t); err != nil || got.Undo.N != 2 || got.Record.Status != "compensated" {
		t.Fatalf("%+v, %v", got, err)
	}
	comesBack()
	before := v.at(t, "c1")
	got, err := v.acknowledges(t, "c1~undo1")
	if err != nil || got.Record.Flags[0] != "acknowledged" || v.at(t, "c1").Version != before.Version {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatIsNotContradictedIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	r := v.called(t)
	v.bank.void = func() error { return once.Rejected(errors.New("no")) }
	if _, err := v.service.Compensate(t.Context(), ops, undo(r, "")); err != nil {
		t.Fatal(err)
	}
	_, err := v.service.Acknowledge(t.Context(), ops, operator.Command{Key: "run-1:c1", Reason: "r", ExpectedVersion: v.at(t, "c1").Version})
	if p, ok := errors.AsType[*operator.Problem](err); !ok || p.Status != 409 {
		t.Errorf("got %v", err)
	}
}

func TestAnExecutorOfAnUndoThatDiedLeavesItUnknown(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	r := v.called(t)
	move, err := r.AskUndo(v.stamp("ask"), ledger.Decision{ID: "d", Actor: "ada", Reason: "r", Version: r.Version}, ledger.UndoAsk{})
	owner := v.apply(t, move, err)
	c := call("c1~undo1")
	move, err = ledger.Record{}.Start(v.stamp("start"), c, ledger.Executor{Token: "dead", Attempt: 1, Deadline: v.now.Add(10 * time.Second), QuietAfter: v.now.Add(time.Minute)})
	v.apply(t, move, err)
	got, err := v.service.Tend(t.Context(), owner.Key)
	if err != nil || got.UndoInvoked || got.UndoClosed {
		t.Errorf("while it may run: %+v, %v", got, err)
	}
	v.now = v.now.Add(11 * time.Second)
	if _, err = v.service.Tend(t.Context(), owner.Key); err != nil {
		t.Fatal(err)
	}
	if own := v.at(t, "c1~undo1"); own.Status != ledger.Indeterminate || v.functions.asked != 0 {
		t.Errorf("it is %s, asked %d times", own.State(), v.functions.asked)
	}
}

func TestAnOpenUndoThatWasDeniedWaitsForSomebodyToLookAndThenEnds(t *testing.T) {
	t.Parallel()
	v := half(t)
	own := v.at(t, "c1~undo1")
	// Whoever resolves it dies before the call hears of it, and then its executor
	// is back.
	move, err := own.Resolve(v.stamp("r"), ledger.Decision{ID: "d", Actor: "ada", Reason: "r", Version: own.Version}, ledger.Settlement{Effect: ledger.NoEffect})
	resolved := v.apply(t, move, err)
	move, err = resolved.Settle(v.stamp("late"), own.Attempt.Token, ledger.Settlement{Effect: ledger.Happened})
	v.apply(t, move, err)
	for _, id := range []string{"c1", "c1~undo1"} {
		if got, err := v.service.Tend(t.Context(), v.at(t, id).Key); err != nil || got.UndoClosed || got.UndoInvoked || !got.NeedsSomebody {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
	}
	_, err = v.service.Acknowledge(t.Context(), other, operator.Command{Key: "run-1:c1", Reason: "seen", ExpectedVersion: v.at(t, "c1").Version})
	p, ok := errors.AsType[*operator.Problem](err)
	if !ok || p.Status != 409 || p.Undo == nil || !strings.Contains(p.Undo.WhatToDo, "POST acknowledge under the undo's own key") {
		t.Errorf("told %+v", err)
	}
	got, err := v.service.Acknowledge(t.Context(), other, operator.Command{Key: "run-1:c1~undo1", Reason: "seen", ExpectedVersion: v.at(t, "c1~undo1").Version})
	if err != nil || got.Undo.Open || got.RunWaiting != operator.Woken || v.at(t, "c1").Status != ledger.Compensated || v.bank.count(v.bank.voids) != 1 {
		t.Errorf("%+v, run %q, the call is %s, %v", got.Undo, got.RunWaiting, v.at(t, "c1").State(), err)
	}
}

func TestAnUndosRecordThatCannotBeReadIsSaidAndHidesNothing(t *testing.T) {
	t.Parallel()
	v := half(t)
	service := v.serviceWith(t, func(cfg *operator.Config) { cfg.Store = tornUndo{v.store} })
	shown, err := service.Show(t.Context(), ops, "run-1:c1")
	if err != nil || shown.UndoCall == nil || shown.UndoCall.Status != "unreadable" || shown.UndoCall.Effect != "unknown" || !shown.UndoCall.Open || shown.WhatToDo == "" {
		t.Errorf("%+v, %v", shown.UndoCall, err)
	}
	_, err = service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1"})
	wantProblem(t, err, operator.NothingToLookUp)
	if _, err := service.Tend(t.Context(), v.at(t, "c1").Key); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if v.functions.asked != 1 {
		t.Errorf("asked %d times", v.functions.asked)
	}
}

// tornUndo can't read records of undos.
type tornUndo struct{ *memledger.Store }

func (s tornUndo) Load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	if _, _, isUndo := key.UndoOf(); isUndo {
		return ledger.Record{}, ledger.ErrCorrupt
	}
	return s.Store.Load(ctx, key)
}
