package operator_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/doorbell"
	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

// Proves: R104, R108, R119
func TestResolveIsWrittenWithItsAuthorAndWakesTheRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.park(t, r, "w1")
	b.park(t, r, "w2")

	got, err := b.service.Resolve(t.Context(), ops, operator.Resolution{
		Command: operator.Command{Key: "run-1:c1", Reason: " seen in the bank's books ", ExpectedVersion: r.Version},
		Outcome: operator.OutcomeCompleted, Result: json.RawMessage(`{ "credit_id": "cr_9" }`), ExternalID: "cr_9",
	})
	if err != nil {
		t.Fatal(err)
	}
	clean(t, got)
	if got.Record.Status != "completed" || got.Record.Effect != "happened" || got.Record.ExternalID != "cr_9" {
		t.Errorf("record = %+v", got.Record)
	}
	want := operator.Entry{Kind: "resolve_completed", By: "ada", Reason: "seen in the bank's books", At: got.Decision.At, Before: "indeterminate", After: "completed", ID: got.Decision.ID}
	if diff := cmp.Diff(want, got.Decision); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
	if got.RunWaiting != operator.Woken || b.bell.times() != 2 {
		t.Errorf("run waiting %q, %d bells", got.RunWaiting, b.bell.times())
	}
	for _, w := range b.waits(t, r) {
		if w.How != doorbell.Rung {
			t.Errorf("wait %s: how = %q", w.ID, w.How)
		}
	}
	shown, err := b.service.Show(t.Context(), ops, "run-1:c1")
	if err != nil || string(shown.Result) != `{"credit_id":"cr_9"}` {
		t.Errorf("result = %s, %v", shown.Result, err)
	}
}

func TestResolveFailedTellsWhyAndGrantsOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	for _, grant := range []bool{false, true} {
		b := newBench(t)
		r := b.unknown(t, "c1")
		in := failed(r, "")
		in.AllowRetry = grant
		got, err := b.service.Resolve(t.Context(), ops, in)
		if err != nil {
			t.Fatal(err)
		}
		stored, _ := b.store.Load(t.Context(), r.Key)
		if stored.Flags.Has(ledger.Granted) != grant || stored.Flags.Has(ledger.Retryable) != grant {
			t.Errorf("grant %t: %s", grant, got.Record.State)
		}
		if got.Record.Error.Message != in.Reason || got.Record.Effect != "none" {
			t.Errorf("error = %+v", got.Record.Error)
		}
	}
}

// Proves: R105
func TestResolveNamesEveryWrongField(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*operator.Resolution)
		want   []string
	}{
		"nothing given":            {func(in *operator.Resolution) { *in = operator.Resolution{Command: operator.Command{Key: in.Key}} }, []string{"body.outcome", "body.reason", "body.expected_version"}},
		"blank reason":             {func(in *operator.Resolution) { in.Reason = " \t" }, []string{"body.reason"}},
		"unknown outcome":          {func(in *operator.Resolution) { in.Outcome = "compensated" }, []string{"body.outcome"}},
		"result of a failed":       {func(in *operator.Resolution) { in.Result = json.RawMessage(`1`) }, []string{"body.result"}},
		"external id of a failed":  {func(in *operator.Resolution) { in.ExternalID = "x" }, []string{"body.external_id"}},
		"retry of a completed":     {func(in *operator.Resolution) { in.Outcome, in.AllowRetry = "completed", true }, []string{"body.allow_retry"}},
		"reason beyond its limit":  {func(in *operator.Resolution) { in.Reason = string(bytes.Repeat([]byte("x"), operator.MaxReason+1)) }, []string{"body.reason"}},
		"malformed idempotency id": {func(in *operator.Resolution) { in.IdempotencyKey = "two words" }, []string{"header.Idempotency-Key"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := b.unknown(t, "c1")
			in := failed(r, "")
			tt.change(&in)
			_, err := b.service.Resolve(t.Context(), ops, in)
			var got []string
			for _, f := range theProblem(t, err, operator.InvalidRequest).Errors {
				got = append(got, f.Location)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("wrong fields (-want +got):\n%s", diff)
			}
			if after, _ := b.store.Load(t.Context(), r.Key); after.Version != r.Version || b.bell.times() != 0 {
				t.Error("something changed")
			}
		})
	}
}

// Proves: R106, R107
func TestOfManyOperatorsOneWinsAndTheOthersSeeWho(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.park(t, r, "w1")
	const n = 16
	answers := make([]operator.Decided, n)
	problems := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			in := failed(r, "")
			if i%2 == 0 {
				in.Outcome = operator.OutcomeCompleted
			}
			id := operator.Identity{Tenant: "acme", Actor: fmt.Sprintf("op-%d", i), Scopes: ops.Scopes}
			answers[i], problems[i] = b.service.Resolve(t.Context(), id, in)
		})
	}
	all.Wait()
	winner := ""
	for i := range n {
		if problems[i] == nil {
			if winner != "" {
				t.Fatalf("%s and %s both won", winner, answers[i].Decision.By)
			}
			winner = answers[i].Decision.By
		}
	}
	for i := range n {
		if problems[i] == nil {
			continue
		}
		p := theProblem(t, problems[i], operator.AlreadyDecided)
		if p.DecidedBy.Actor != winner || p.Status != 409 || p.RunWaiting == operator.NotWokenYet || p.Record.Version != r.Version+1 {
			t.Errorf("loser %d was told %+v", i, p.DecidedBy)
		}
	}
	if stored, _ := b.store.Load(t.Context(), r.Key); len(stored.Decisions) != 1 || b.bell.times() < 1 || !b.waits(t, r)[0].Rung() { // a loser rings too, while nobody has confirmed
		t.Errorf("%d decisions, %d bells, rung %t", len(stored.Decisions), b.bell.times(), b.waits(t, r)[0].Rung())
	}
}

func TestConflictsSayWhatStands(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	stale := failed(r, "")
	stale.ExpectedVersion = r.Version - 1
	_, err := b.service.Resolve(t.Context(), ops, stale)
	if p := theProblem(t, err, operator.StaleVersion); p.Record.Version != r.Version {
		t.Errorf("record at %d", p.Record.Version)
	}

	move, err := r.Settle(b.stamp("late"), r.Attempt.Token, ledger.Settlement{Effect: ledger.Happened, ExternalID: "cr_1"})
	b.apply(t, move, err)
	_, err = b.service.Resolve(t.Context(), ops, failed(r, ""))
	if p := theProblem(t, err, operator.AlreadySettled); p.DecidedBy.Kind != "executor" || p.Record.Status != "completed" {
		t.Errorf("told %+v", p.DecidedBy)
	}

	granted := b.unknown(t, "c3")
	in := failed(granted, "")
	in.AllowRetry = true
	if _, err := b.service.Resolve(t.Context(), ops, in); err != nil {
		t.Fatal(err)
	}
	stands, _ := b.store.Load(t.Context(), granted.Key)
	move, err = stands.Start(b.stamp("second"), call("c3"), ledger.Executor{Token: canaryAttempt + "2", Attempt: 1, Deadline: b.now.Add(time.Minute)})
	stands = b.apply(t, move, err)
	move, err = stands.Settle(b.stamp("done"), canaryAttempt+"2", ledger.Settlement{Effect: ledger.Happened})
	b.apply(t, move, err)
	_, err = b.service.Resolve(t.Context(), other, failed(granted, ""))
	if p := theProblem(t, err, operator.AlreadySettled); p.DecidedBy.Kind != "executor" || p.DecidedBy.Actor != "" {
		t.Errorf("told %+v", p.DecidedBy)
	}

	running := b.start(t, "c2")
	_, err = b.service.Resolve(t.Context(), ops, failed(running, ""))
	wantProblem(t, err, operator.NotAllowed)
}

// Proves: R103
func TestAnotherTenantsCallDoesNotExist(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.park(t, r, "w1")
	stranger := operator.Identity{Tenant: "evil", Actor: "eve", Scopes: ops.Scopes}
	for _, key := range []string{"acme/run-1:c1", "run-1:c1", "evil/run-1:c1", "nonsense", "run-1:", "/run-1:c1", "a/b/run-1:c1"} {
		in := failed(r, "")
		in.Key = key
		_, err := b.service.Resolve(t.Context(), stranger, in)
		wantProblem(t, err, operator.NotFound)
		_, err = b.service.Show(t.Context(), stranger, key)
		wantProblem(t, err, operator.NotFound)
		_, err = b.service.Reconcile(t.Context(), stranger, operator.Inquiry{Key: key})
		wantProblem(t, err, operator.NotFound)
	}
	list, err := b.service.List(t.Context(), stranger, operator.Filter{})
	if err != nil || len(list.Items) != 0 {
		t.Errorf("list = %+v, %v", list, err)
	}
	if after, _ := b.store.Load(t.Context(), r.Key); after.Version != r.Version || b.bell.times() != 0 {
		t.Error("something changed")
	}
}

// Two tenants may choose the same ids.
//
// Proves: R103
func TestAKeyThatNamesAnotherTenantNeverMeansOnesOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := call("c1")
	c.Key.Tenant = "evil"
	move, err := ledger.Record{}.Start(b.stamp("evil"), c, ledger.Executor{Token: canaryAttempt, Attempt: 1, Deadline: b.now})
	b.apply(t, move, err)
	stranger := operator.Identity{Tenant: "evil", Actor: "eve", Scopes: ops.Scopes}
	if _, err := b.service.Show(t.Context(), stranger, "run-1:c1"); err != nil {
		t.Fatal(err)
	}
	_, err = b.service.Show(t.Context(), stranger, "acme/run-1:c1")
	wantProblem(t, err, operator.NotFound)
}

func TestScopesAndActorAreRequired(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	reader := operator.Identity{Tenant: "acme", Actor: "ada", Scopes: []string{"calls:read"}}
	_, err := b.service.Resolve(t.Context(), reader, failed(r, ""))
	wantProblem(t, err, operator.MissingScope)
	decider := operator.Identity{Tenant: "acme", Actor: "ada", Scopes: []string{"calls:decide"}}
	_, err = b.service.List(t.Context(), decider, operator.Filter{})
	wantProblem(t, err, operator.MissingScope)
	_, err = b.service.Resolve(t.Context(), operator.Identity{Tenant: "acme", Scopes: ops.Scopes}, failed(r, ""))
	wantProblem(t, err, operator.MissingIdentity)
}

// Proves: R106
func TestTheSameDecisionTwiceAnswersTheSame(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.park(t, r, "w1")
	first, err := b.service.Resolve(t.Context(), ops, failed(r, "idem-1"))
	if err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(time.Hour)
	again, err := b.service.Resolve(t.Context(), ops, failed(r, "idem-1"))
	if err != nil || !again.Replayed || first.Replayed {
		t.Fatalf("replayed %t then %t: %v", first.Replayed, again.Replayed, err)
	}
	if want, got := clean(t, first), clean(t, again); !bytes.Equal(want, got) {
		t.Errorf("first  %s\nagain %s", want, got)
	}
	if b.bell.times() != 1 {
		t.Errorf("%d bells", b.bell.times())
	}
	changed := failed(r, "idem-1")
	changed.Reason = "another reason"
	_, err = b.service.Resolve(t.Context(), ops, changed)
	wantProblem(t, err, operator.KeyReused)
	_, err = b.service.Deny(t.Context(), ops, failed(r, "idem-1").Command)
	wantProblem(t, err, operator.KeyReused)
	_, err = b.service.Resolve(t.Context(), other, failed(r, "idem-1"))
	wantProblem(t, err, operator.AlreadyDecided)
}

// A decision is found again after the record has spilled it.
func TestTheSameDecisionIsFoundInHistory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.reserve(t, "c1")
	command := operator.Command{Key: "run-1:c1", ExpectedVersion: r.Version, IdempotencyKey: "first"}
	first, err := b.service.Approve(t.Context(), ops, command)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ledger.MaxEntries + 1 {
		r, _ = b.store.Load(t.Context(), r.Key)
		move, err := r.NewPolicy(b.stamp(fmt.Sprint("policy-", i)), i+2)
		r = b.apply(t, move, err)
		if _, err := b.service.Approve(t.Context(), other, operator.Command{Key: "run-1:c1", ExpectedVersion: r.Version}); err != nil {
			t.Fatal(err)
		}
	}
	again, err := b.service.Approve(t.Context(), ops, command)
	if err != nil || !again.Replayed {
		t.Fatalf("replayed %t, %v", again.Replayed, err)
	}
	if diff := cmp.Diff(first.Decision, again.Decision); diff != "" {
		t.Errorf("decision (-first +again):\n%s", diff)
	}
}

func TestALostAnswerLeavesTheDecisionStanding(t *testing.T) {
	t.Parallel()
	faults := map[string]memledger.Fault{
		"move stored, answer lost":       {Op: memledger.Apply, Event: ledger.ResolveFailed, Persist: true},
		"move lost":                      {Op: memledger.Apply, Event: ledger.ResolveFailed},
		"move refused":                   {Op: memledger.Apply, Event: ledger.ResolveFailed, Answer: true},
		"waits unreadable":               {Op: memledger.ListWaits},
		"confirmed, answer lost":         {Op: memledger.ConfirmWait, Persist: true},
		"confirmation lost":              {Op: memledger.ConfirmWait},
		"move stored and heard on retry": {Op: memledger.Apply, Event: ledger.ResolveFailed, Persist: true, Retry: true},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				r := b.unknown(t, "c1")
				b.park(t, r, "w1")
				b.store.Arm(fault)
				got, err := b.service.Resolve(t.Context(), ops, failed(r, "idem"))
				if err != nil {
					t.Fatal(err)
				}
				if b.store.Armed() != 0 {
					t.Fatal("the fault met no request")
				}
				again, err := b.service.Resolve(t.Context(), ops, failed(r, "idem"))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(clean(t, got), clean(t, again)); diff != "" {
					t.Errorf("answers differ (-first +again):\n%s", diff)
				}
				stored, _ := b.store.Load(t.Context(), r.Key)
				if len(stored.Decisions) != 1 || stored.Version != r.Version+1 || b.bell.times() != 1 || !b.waits(t, r)[0].Rung() {
					t.Errorf("%d decisions at version %d, %d bells, rung %t", len(stored.Decisions), stored.Version, b.bell.times(), b.waits(t, r)[0].Rung())
				}
			})
		})
	}
}

func TestAnUnreachableLedgerIsNeverTakenForAnOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r := b.unknown(t, "c1")
		b.store.Arm(memledger.Fault{Op: memledger.Load})
		_, err := b.service.Resolve(t.Context(), ops, failed(r, "idem"))
		wantProblem(t, err, operator.Unavailable)

		for i := range 20 {
			b.store.Arm(memledger.Fault{Op: memledger.Apply, Nth: i + 1, Persist: i == 0}, memledger.Fault{Op: memledger.Load, Nth: i + 2})
		}
		_, err = b.service.Resolve(t.Context(), ops, failed(r, "idem"))
		wantProblem(t, err, operator.OutcomeUnknown)
		for range 40 { // the ledger comes back
			_, _ = b.store.Load(t.Context(), r.Key)
			move, _ := r.Note(b.stamp("n"), ledger.Entry{Kind: ledger.Note})
			_, _ = b.store.Apply(t.Context(), move)
		}
		got, err := b.service.Resolve(t.Context(), ops, failed(r, "idem"))
		if err != nil || !got.Replayed || got.Decision.By != "ada" {
			t.Errorf("repeated: %+v, %v", got.Decision, err)
		}
	})
}

// Proves: R125
func TestADecisionThatTheModelCannotHearIsRecordKeeping(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.turn(t, []runs.Heard{{CallID: "c1", Status: "unresolved", Says: "This call is unresolved."}}, "c1")
	got, err := b.service.Resolve(t.Context(), ops, failed(r, ""))
	if err != nil || !got.RecordKeeping || got.RunWaiting != operator.NotWaiting {
		t.Errorf("record keeping %t, run waiting %q, %v", got.RecordKeeping, got.RunWaiting, err)
	}
}

func TestADecisionThatTheModelHeardAfterwardsIsNotCalledRecordKeeping(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.park(t, r, "w1")
	first, err := b.service.Resolve(t.Context(), ops, failed(r, "idem"))
	if err != nil || first.RecordKeeping {
		t.Fatalf("record keeping %t, %v", first.RecordKeeping, err)
	}
	b.turn(t, []runs.Heard{{CallID: "c1", Status: "failed", Says: "This call certainly did not take effect."}}, "c1")
	again, err := b.service.Resolve(t.Context(), ops, failed(r, "idem"))
	if err != nil || again.RecordKeeping {
		t.Errorf("record keeping %t, %v", again.RecordKeeping, err)
	}
}
