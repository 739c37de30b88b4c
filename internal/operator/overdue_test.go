package operator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

// overdue starts a call and lets its executor's deadline pass.
func (b *bench) overdue(t *testing.T, id string) ledger.Record {
	t.Helper()
	r := b.start(t, id)
	b.now = b.now.Add(21 * time.Second)
	return r
}

func (b *bench) stored(t *testing.T, r ledger.Record) ledger.Record {
	t.Helper()
	after, err := b.store.Load(t.Context(), r.Key)
	if err != nil {
		t.Fatal(err)
	}
	return after
}

func TestACallWhoseExecutorIsOverdueIsSettledByTheVersionThatWasLookedAt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.overdue(t, "c1")
	b.park(t, r, "w1")
	for n := range 2 {
		got, err := b.service.Resolve(t.Context(), ops, failed(r, "k1"))
		if err != nil || got.Replayed != (n == 1) || got.Record.Status != "failed" || got.Record.Version != 3 || got.RunWaiting != operator.Woken || got.Decision.Before != "indeterminate" {
			t.Fatalf("request %d: %+v, %v", n, got, err)
		}
	}
	_, err := b.service.Resolve(t.Context(), other, failed(r, ""))
	if p := theProblem(t, err, operator.AlreadyDecided); p.DecidedBy == nil || p.DecidedBy.Actor != "ada" {
		t.Errorf("told %+v", p.DecidedBy)
	}
}

func TestACallThatWasWrittenOffMeanwhileTakesEitherVersion(t *testing.T) {
	t.Parallel()
	for _, version := range []int64{1, 2} {
		b := newBench(t)
		r := b.overdue(t, "c1")
		move, err := r.Orphan(b.stamp("orphan"))
		b.apply(t, move, err)
		in := failed(r, "")
		in.ExpectedVersion = version
		if got, err := b.service.Resolve(t.Context(), ops, in); err != nil || got.Record.Status != "failed" {
			t.Errorf("version %d: %+v, %v", version, got, err)
		}
	}
}

func TestWhatTheExecutorReportedMeanwhileHasToBeLookedAt(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]struct {
		what ledger.Settlement
		code operator.Code
	}{
		"unknown":   {ledger.Settlement{Effect: ledger.Unknown, Code: "no_answer"}, operator.StaleVersion},
		"completed": {ledger.Settlement{Effect: ledger.Happened, ExternalID: "cr_1"}, operator.AlreadySettled},
	} {
		b := newBench(t)
		r := b.overdue(t, "c1")
		settle := func() {
			move, err := r.Settle(b.stamp("late"), r.Attempt.Token, report.what)
			b.apply(t, move, err)
		}
		b.store.OnMoment(func(m memledger.Moment) {
			if m.When == "before" && m.Step.Op == memledger.Apply {
				b.store.OnMoment(nil)
				settle()
			}
		})
		_, err := b.service.Resolve(t.Context(), ops, failed(r, ""))
		t.Log(name)
		wantProblem(t, err, report.code)
		if after := b.stored(t, r); after.Version != 2 || len(after.Decisions) != 0 {
			t.Errorf("%s: stored %s at version %d", name, after.State(), after.Version)
		}
	}
}

func TestAContradictionAfterTheWriteOffHasToBeLookedAt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.unknown(t, "c1")
	grant := failed(first, "")
	grant.AllowRetry = true
	if _, err := b.service.Resolve(t.Context(), ops, grant); err != nil {
		t.Fatal(err)
	}
	x := ledger.Executor{Token: canaryAttempt + "2", Attempt: 2, Deadline: b.now.Add(20 * time.Second), QuietAfter: b.now.Add(80 * time.Second)}
	move, err := b.stored(t, first).Start(b.stamp("again"), call("c1"), x)
	r := b.apply(t, move, err)
	b.now = b.now.Add(21 * time.Second)
	move, err = r.Orphan(b.stamp("orphan"))
	lost := b.apply(t, move, err)
	move, err = lost.Settle(b.stamp("late"), first.Attempt.Token, ledger.Settlement{Effect: ledger.Happened, ExternalID: "cr_1"})
	b.apply(t, move, err)
	for _, seen := range []ledger.Record{r, lost} {
		_, err = b.service.Resolve(t.Context(), ops, failed(seen, ""))
		wantProblem(t, err, operator.StaleVersion)
	}
}

func TestNothingIsWrittenOffForADecisionThatIsNotPossible(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.overdue(t, "c1")
	_, err := b.service.Approve(t.Context(), ops, operator.Command{Key: "run-1:c1", ExpectedVersion: r.Version})
	wantProblem(t, err, operator.NotAllowed)
	_, err = b.service.Withdraw(t.Context(), ops, operator.Command{Key: "run-1:c1", Reason: "r", ExpectedVersion: r.Version})
	wantProblem(t, err, operator.NotAllowed)
	stale := failed(r, "")
	stale.ExpectedVersion = 7
	_, err = b.service.Resolve(t.Context(), ops, stale)
	if p := theProblem(t, err, operator.StaleVersion); !strings.Contains(p.Detail, "version 7") {
		t.Errorf("told %q", p.Detail)
	}
	running := b.start(t, "c2")
	_, err = b.service.Resolve(t.Context(), ops, failed(running, ""))
	wantProblem(t, err, operator.NotAllowed)
	for _, one := range []ledger.Record{r, running} {
		if after := b.stored(t, one); after.Version != 1 {
			t.Errorf("%s was moved: %s", one.Key, after.State())
		}
	}
}

func TestAWriteOffWhoseAnswerIsLostStillLetsTheDecisionThrough(t *testing.T) {
	t.Parallel()
	for _, stored := range []bool{true, false} {
		b := newBench(t)
		r := b.overdue(t, "c1")
		b.store.Arm(memledger.Fault{Op: memledger.Apply, Persist: stored})
		if got, err := b.service.Resolve(t.Context(), ops, failed(r, "")); err != nil || got.Record.Version != 3 {
			t.Errorf("stored %t: %+v, %v", stored, got, err)
		}
	}
}
