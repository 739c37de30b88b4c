package operator_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// story is one run with its turns, on a bench.
type story struct {
	*bench
	run runs.Run
}

func newStory(t *testing.T, policy ledger.Policy) *story {
	t.Helper()
	b := newBench(t)
	return &story{bench: b, run: runs.Run{
		Tenant: "acme", ID: "run-1", Agent: "billing-assistant", Subject: canaryInput, StartedAt: b.now.Add(-time.Minute), Status: runs.Running, Policy: policy,
		Generation: 2, Driver: "run-1-g2", Previous: "run-1-g1", Machine: "arn:CANARY", LastWrite: canaryWrite,
		Input: json.RawMessage(`{"run_id":"run-1","principal":{"subject":"` + canaryInput + `","permissions":["` + canaryInput + `"]}}`),
	}}
}

func (s *story) save(t *testing.T) {
	t.Helper()
	s.run.Version++
	s.run.LastWrite = canaryWrite + "-" + string(rune('a'+s.run.Version))
	if _, err := s.runs.Save(t.Context(), s.run); err != nil {
		t.Fatal(err)
	}
}

// opens stores the next turn, which asks for the calls, and makes it the open one.
func (s *story) opens(t *testing.T, says string, ids ...string) {
	t.Helper()
	turn := runs.Turn{Number: s.run.Turn + 1, Says: says, At: s.now, Final: len(ids) == 0}
	for _, id := range ids {
		turn.Calls = append(turn.Calls, runs.Call{ID: id, ProviderID: id, Tool: "issue_credit", Arguments: `{"account_id":"` + canaryInput + `"}`})
	}
	if _, err := s.runs.PutTurn(t.Context(), s.run.Key(), turn); err != nil {
		t.Fatal(err)
	}
	s.run = s.run.Advanced(turn)
	s.save(t)
}

func (s *story) hears(t *testing.T, heard ...runs.Heard) {
	t.Helper()
	if _, err := s.runs.Hear(t.Context(), s.run.Key(), s.run.Turn, heard); err != nil {
		t.Fatal(err)
	}
}

// asked is the call as the open turn asks for it.
func (s *story) asked(id string) ledger.Call {
	c := call(id)
	c.Turn, c.Received = s.run.Turn, ""
	return c
}

func (s *story) starts(t *testing.T, id string) ledger.Record {
	t.Helper()
	x := ledger.Executor{Token: ledger.AttemptToken(canaryAttempt + id), Attempt: 1, Deadline: s.now.Add(20 * time.Second), QuietAfter: s.now.Add(80 * time.Second)}
	move, err := ledger.Record{}.Start(s.stamp("start-"+id), s.asked(id), x)
	return s.apply(t, move, err)
}

func (s *story) ends(t *testing.T, id string, what ledger.Settlement) {
	t.Helper()
	r := s.starts(t, id)
	move, err := r.Settle(s.stamp("end-"+id), r.Attempt.Token, what)
	s.apply(t, move, err)
}

func (s *story) asksApproval(t *testing.T, id string) ledger.Record {
	t.Helper()
	move, err := ledger.Record{}.AskApproval(s.stamp("ask-"+id), s.asked(id), time.Hour, 1)
	return s.apply(t, move, err)
}

func (s *story) show(t *testing.T, q operator.RunQuery) operator.Run {
	t.Helper()
	q.RunID = "run-1"
	got, err := s.service.Run(t.Context(), ops, q)
	if err != nil {
		t.Fatal(err)
	}
	clean(t, got)
	return got
}

var (
	lost     = ledger.Settlement{Effect: ledger.Unknown, Code: "no_answer", Message: "the connection ended"}
	happened = ledger.Settlement{Effect: ledger.Happened, Result: []byte(`{"credit":"` + canaryInput + `"}`)}
)

// Proves: R103
func TestARunIsShownWithItsTurnsAndNoneOfItsSecrets(t *testing.T) {
	t.Parallel()
	s := newStory(t, "")
	s.opens(t, "I look first", "c1", "c2")
	s.ends(t, "c1", happened)
	s.hears(t, runs.Heard{CallID: "c1", Status: "completed", Says: canaryInput}, runs.Heard{CallID: "c2", Status: "refused", Says: canaryInput})
	s.opens(t, strings.Repeat("é", 3_000), "c3", "c4")
	s.ends(t, "c3", lost)
	got := s.show(t, operator.RunQuery{})
	if says := got.Turns[1].Says; len(says) > 2<<10 || !strings.HasSuffix(says, "é…") {
		t.Errorf("%d bytes of the model's words: …%q", len(says), says[len(says)-8:])
	}
	got.Turns[1].Says = ""
	at, tool := "2026-11-29T12:00:00Z", "issue_credit"
	want := operator.Run{
		ID: "run-1", Agent: "billing-assistant", Status: operator.RunAwaitingReconciliation, StartedAt: "2026-11-29T11:59:00Z", Policy: "pause",
		Generation: 2, Driver: "run-1-g2", OpenTurn: 2,
		WaitingOn: []operator.Awaited{{Key: "acme/run-1:c3", Tool: tool, Why: operator.WhyUnknown, WaitingSince: at}},
		Turns: []operator.Turn{
			{Number: 1, At: at, Says: "I look first", Closed: true, Calls: []operator.TurnCall{
				{ID: "c1", Key: "acme/run-1:c1", Tool: tool, Status: "completed", Effect: "happened", Heard: "completed"},
				{ID: "c2", Key: "acme/run-1:c2", Tool: tool, Status: "none", Effect: "none", Heard: "refused"},
			}},
			{Number: 2, At: at, Calls: []operator.TurnCall{
				{ID: "c3", Key: "acme/run-1:c3", Tool: tool, Status: "indeterminate", Effect: "unknown", Why: operator.WhyUnknown},
				{ID: "c4", Key: "acme/run-1:c4", Tool: tool, Status: "none", Effect: "none"},
			}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Proves: R117
func TestWhereARunStandsFollowsFromItsOpenTurn(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) func(*testing.T, *story) {
		return func(t *testing.T, s *story) { t.Helper(); s.starts(t, "c1"); s.now = s.now.Add(d) }
	}
	unknown := func(t *testing.T, s *story) { t.Helper(); s.ends(t, "c1", lost) }
	for name, tt := range map[string]struct {
		policy ledger.Policy
		do     func(*testing.T, *story)
		status operator.RunStatus
		why    []operator.Why
	}{
		"nothing recorded":        {"", func(*testing.T, *story) {}, operator.RunRunning, nil},
		"in flight":               {"", after(19 * time.Second), operator.RunRunning, nil},
		"executor overdue":        {"", after(21 * time.Second), operator.RunAwaitingReconciliation, []operator.Why{operator.WhyOverdue}},
		"executor overdue, told":  {ledger.Tell, after(21 * time.Second), operator.RunRunning, []operator.Why{operator.WhyOverdue}},
		"unknown":                 {ledger.Pause, unknown, operator.RunAwaitingReconciliation, []operator.Why{operator.WhyUnknown}},
		"unknown, told":           {ledger.Tell, unknown, operator.RunRunning, []operator.Why{operator.WhyUnknown}},
		"unknown, fails":          {ledger.Fail, unknown, operator.RunRunning, []operator.Why{operator.WhyUnknown}},
		"approval before unknown": {"", func(t *testing.T, s *story) { t.Helper(); s.asksApproval(t, "c1"); s.ends(t, "c2", lost) }, operator.RunAwaitingReconciliation, []operator.Why{operator.WhyApproval, operator.WhyUnknown}},
		"unknown before approval": {"", func(t *testing.T, s *story) { t.Helper(); s.ends(t, "c1", lost); s.asksApproval(t, "c2") }, operator.RunAwaitingReconciliation, []operator.Why{operator.WhyUnknown, operator.WhyApproval}},
		"asks approval, told":     {ledger.Tell, func(t *testing.T, s *story) { t.Helper(); s.asksApproval(t, "c2") }, operator.RunAwaitingApproval, []operator.Why{operator.WhyApproval}},
		"approved": {"", func(t *testing.T, s *story) {
			t.Helper()
			r := s.asksApproval(t, "c1")
			if _, err := s.service.Approve(t.Context(), ops, operator.Command{Key: "run-1:c1", ExpectedVersion: r.Version}); err != nil {
				t.Fatal(err)
			}
		}, operator.RunRunning, nil},
		"done, not heard": {"", func(t *testing.T, s *story) { t.Helper(); s.ends(t, "c1", happened) }, operator.RunRunning, nil},
		"another call's record": {"", func(t *testing.T, s *story) {
			t.Helper()
			s.run.Turn++ // the record says of itself that it is of turn 2
			s.ends(t, "c1", lost)
			s.run.Turn--
		}, operator.RunRunning, nil},
		"between turns": {"", func(t *testing.T, s *story) {
			t.Helper()
			s.ends(t, "c1", lost)
			s.hears(t, runs.Heard{CallID: "c1", Status: "unresolved"}, runs.Heard{CallID: "c2", Status: "refused"})
		}, operator.RunRunning, nil},
		"failed": {"", func(t *testing.T, s *story) {
			t.Helper()
			s.ends(t, "c1", lost)
			s.run = s.run.Done(runs.Failure{Error: "Onceward.Unresolved", Cause: "c1 is unknown"}, s.now, "w-end")
			s.run.Version--
			s.save(t)
		}, operator.RunFailed, nil},
		"succeeded": {"", func(t *testing.T, s *story) {
			t.Helper()
			s.run = s.run.Done(runs.Failure{}, s.now, "w-end")
			s.run.Version--
			s.save(t)
		}, operator.RunSucceeded, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t, tt.policy)
			s.opens(t, "", "c1", "c2")
			tt.do(t, s)
			got := s.show(t, operator.RunQuery{})
			var why []operator.Why
			for _, w := range got.WaitingOn {
				why = append(why, w.Why)
			}
			if diff := cmp.Diff(tt.why, why); diff != "" || got.Status != tt.status {
				t.Errorf("%s, waiting on (-want +got):\n%s", got.Status, diff)
			}
			if open := strings.Contains("failed, succeeded, between turns", name); open == (got.OpenTurn == 1) {
				t.Errorf("open turn %d", got.OpenTurn)
			}
			if (got.EndedAt != "") != (tt.status == operator.RunFailed || tt.status == operator.RunSucceeded) {
				t.Errorf("ended at %q", got.EndedAt)
			}
			if failed := tt.status == operator.RunFailed; failed && *got.Failure != (operator.Failure{Error: "Onceward.Unresolved", Cause: "c1 is unknown"}) || !failed && got.Failure != nil {
				t.Errorf("failure %+v", got.Failure)
			}
			if name == "another call's record" && (got.Turns[0].Calls[0].Status != "conflict" || got.Turns[0].Calls[0].Why != "") {
				t.Errorf("%+v", got.Turns[0].Calls[0])
			}
		})
	}
}

func TestARunThatIsNotTheTenantsDoesNotExist(t *testing.T) {
	t.Parallel()
	s := newStory(t, "")
	s.opens(t, "", "c1")
	for _, id := range []string{"run-2", "", "acme/run-1", "run-1:c1", "~", strings.Repeat("r", 61)} {
		_, err := s.service.Run(t.Context(), ops, operator.RunQuery{RunID: id})
		wantProblem(t, err, operator.RunNotFound)
	}
	for _, tenant := range []string{"evil", ""} {
		_, err := s.service.Run(t.Context(), operator.Identity{Tenant: tenant, Actor: "eve", Scopes: ops.Scopes}, operator.RunQuery{RunID: "run-1"})
		wantProblem(t, err, operator.RunNotFound)
	}
	_, err := s.service.Run(t.Context(), operator.Identity{Tenant: "acme", Actor: "ada", Scopes: []string{"calls:decide"}}, operator.RunQuery{RunID: "run-1"})
	wantProblem(t, err, operator.MissingScope)
}

// leakyRuns answers any question with the same run.
type leakyRuns struct {
	runs.Store
	run runs.Run
}

func (l leakyRuns) Load(context.Context, runs.ID) (runs.Run, error) { return l.run, nil }

func TestAnotherTenantsRunIsNotShownEvenIfTheStoreLeaksIt(t *testing.T) {
	t.Parallel()
	s := newStory(t, "")
	s.opens(t, "", "c1")
	eve := operator.Identity{Tenant: "evil", Actor: "eve", Scopes: ops.Scopes}
	_, err := s.through(t, s.store, leakyRuns{s.runs, s.run}).Run(t.Context(), eve, operator.RunQuery{RunID: "run-1"})
	wantProblem(t, err, operator.RunNotFound)
}

func TestARunThatHasNoTurnYetIsRunning(t *testing.T) {
	t.Parallel()
	s := newStory(t, ledger.Fail)
	s.save(t)
	if got := s.show(t, operator.RunQuery{}); got.Status != operator.RunRunning || got.Policy != "fail" || got.Turns == nil || len(got.Turns) > 0 || got.WaitingOn == nil || got.NextCursor != "" || got.OpenTurn != 0 {
		t.Errorf("%+v", got)
	}
}
