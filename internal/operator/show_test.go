package operator_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/doorbell"
	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

// Proves: R97, R98
func TestShowTellsAllButSecrets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.park(t, r, "w1")
	b.turn(t, []runs.Heard{{CallID: "c0", Status: "failed", Says: "another call"}, {CallID: "c1", Status: "completed", Says: "This call took effect."}}, "c0", "c1")
	large := `{"note":"` + strings.Repeat("x", ledger.InlineResult) + `"}`
	if _, err := b.service.Resolve(t.Context(), ops, operator.Resolution{
		Command: operator.Command{Key: "run-1:c1", Reason: "seen", ExpectedVersion: r.Version}, Outcome: "completed", ExternalID: "cr_9", Result: []byte(large),
	}); err != nil {
		t.Fatal(err)
	}
	stored, _ := b.store.Load(t.Context(), r.Key)
	move, err := stored.Note(b.stamp("note"), ledger.Entry{Kind: ledger.Note, By: "executor", Reason: "came back late"})
	b.apply(t, move, err)

	got, err := b.service.Show(t.Context(), ops, "acme/run-1:c1")
	if err != nil {
		t.Fatal(err)
	}
	clean(t, got)
	if string(got.Result) != large || !got.ResultKept || got.ExternalID != "cr_9" || got.ResultBytes != len(large) {
		t.Errorf("result of %d bytes, kept %t, settled by %+v", len(got.Result), got.ResultKept, got.SettledBy)
	}
	if diff := cmp.Diff(&operator.Heard{Status: "completed", Says: "This call took effect."}, got.Heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
	if len(got.Decisions) != 1 || got.Decisions[0].By != "ada" || len(got.Evidence) != 1 || got.Evidence[0].Reason != "came back late" || got.Evidence[0].ID != "" {
		t.Errorf("decisions %+v, evidence %+v", got.Decisions, got.Evidence)
	}
	if len(got.Waits) != 1 || got.Waits[0].How != doorbell.Rung || got.Waits[0].Execution != "run-1-g1" {
		t.Errorf("waits %+v", got.Waits)
	}
}

func TestShowSaysThatAResultWasNotKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.start(t, "c1")
	move, err := r.Settle(b.stamp("s"), r.Attempt.Token, ledger.Settlement{Effect: ledger.Happened, NotKept: true})
	b.apply(t, move, err)
	got, err := b.service.Show(t.Context(), ops, "run-1:c1")
	if err != nil || got.ResultKept || got.Result != nil || got.Effect != "happened" {
		t.Errorf("kept %t, result %s, effect %s, %v", got.ResultKept, got.Result, got.Effect, err)
	}
}

func TestShowWouldRatherFailThanLeaveOut(t *testing.T) {
	t.Parallel()
	for _, op := range []memledger.Op{memledger.Load, memledger.History, memledger.ListWaits, memledger.Result} {
		b := newBench(t)
		r := b.start(t, "c1")
		move, err := r.Settle(b.stamp("s"), r.Attempt.Token, ledger.Settlement{Effect: ledger.Happened, Result: []byte(`"` + strings.Repeat("x", ledger.InlineResult) + `"`)})
		b.apply(t, move, err)
		b.store.Arm(memledger.Fault{Op: op})
		_, err = b.service.Show(t.Context(), ops, "run-1:c1")
		wantProblem(t, err, operator.Unavailable)
	}
}

func TestEveryRecordHasAViewInEveryStatus(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.queue(t)
	closed, err := ledger.Record{}.Close(b.stamp("close"), ledger.Key{Tenant: "acme", RunID: "run-1", CallID: "unseen"}, ledger.Settler{Kind: ledger.ByPlanner})
	b.apply(t, closed, err)
	for id, want := range map[string]string{
		"overdue": "unknown", "unknown": "unknown", "asked": "none", "granted": "none", "denied-by-fact": "unknown", "done": "happened", "running": "unknown", "unseen": "none",
	} {
		got, err := b.service.Show(t.Context(), ops, "run-1:"+id)
		if err != nil || got.Effect != want || got.Version == 0 {
			t.Errorf("%s: effect %q, %v", id, got.Effect, err)
		}
		clean(t, got)
	}
}

func TestShowTellsWhatTheModelHeardOfACallThatWasClosedUnseen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.turn(t, []runs.Heard{{CallID: "unseen", Status: "refused", Says: "This request did nothing."}}, "unseen")
	closed, err := ledger.Record{}.Close(b.stamp("close"), ledger.Key{Tenant: "acme", RunID: "run-1", CallID: "unseen"}, ledger.Settler{Kind: ledger.ByPlanner})
	b.apply(t, closed, err)
	got, err := b.service.Show(t.Context(), ops, "run-1:unseen")
	if err != nil || got.Heard == nil || got.Heard.Status != "refused" {
		t.Errorf("heard %+v, %v", got.Heard, err)
	}
}

func TestAResultIsKeptOnlyWhereThereIsOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.unknown(t, "unknown")
	b.start(t, "running")
	settle := func(id string, what ledger.Settlement) {
		r := b.start(t, id)
		move, err := r.Settle(b.stamp("settle-"+id), r.Attempt.Token, what)
		b.apply(t, move, err)
	}
	settle("failed", ledger.Settlement{Effect: ledger.NoEffect, Code: "rejected", Message: "no"})
	settle("bare", ledger.Settlement{Effect: ledger.Happened})
	settle("whole", ledger.Settlement{Effect: ledger.Happened, Result: []byte(`{}`)})
	for id, want := range map[string]bool{"unknown": false, "running": false, "failed": false, "bare": false, "whole": true} {
		got, err := b.service.Show(t.Context(), ops, "run-1:"+id)
		if err != nil || got.ResultKept != want || (got.Result != nil) != want {
			t.Errorf("%s: kept %t, result %s, %v", id, got.ResultKept, got.Result, err)
		}
	}
}
