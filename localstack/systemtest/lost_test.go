package systemtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/faults"
)

// requestsOfACall counts the DynamoDB requests that the tool's function sends
// for the run, from the rules' own counts.
func requestsOfACall(t *testing.T, caller, contains string, do func()) int {
	t.Helper()
	id, err := system.Faults.Arm(faults.Rule{Service: faults.DynamoDB, Caller: caller, Contains: contains, Nth: 1_000_000, Effect: faults.DropAnswer})
	if err != nil {
		t.Fatal(err)
	}
	do()
	for _, r := range system.Faults.Rules() {
		if r.ID == id {
			if err := system.Faults.Disarm(id); err != nil {
				t.Fatal(err)
			}
			return r.Matches
		}
	}
	t.Fatal("the rule is gone")
	return 0
}

// Proves: R45, R63, R84, R147, R150
func TestLosingAnyOneDynamoDBAnswerOfACallPaysOnceAndEndsCompleted(t *testing.T) {
	t.Parallel()
	tools := system.Names.Function(names.BillingTools)
	run := ownRun(t)
	n := requestsOfACall(t, tools, run, func() {
		if a := mustInvoke(t, envelope("invoke", run, run)); a.Status != "completed" {
			t.Fatalf("without a fault: %+v", a)
		}
	})
	if n != 2 {
		t.Errorf("a fresh call costs %d requests, want 2", n)
	}
	for _, effect := range []faults.Effect{faults.DropAnswer, faults.DropRequest} {
		for _, nth := range each(n) {
			t.Run(fmt.Sprintf("%s %d", effect, nth), func(t *testing.T) {
				t.Parallel()
				run := ownRun(t)
				arm(t, faults.Rule{Service: faults.DynamoDB, Caller: tools, Contains: run, Nth: nth, Effect: effect})
				a := mustInvoke(t, envelope("invoke", run, run))
				again := mustInvoke(t, envelope("invoke", run, run))
				if struck(run) != 1 {
					t.Fatalf("the fault struck %d times", struck(run))
				}
				if a.Status != "completed" || again.Status != "completed" || !again.Replayed || string(a.Result) != string(again.Result) {
					t.Errorf("first %+v\nagain %+v", a, again)
				}
				if got := credits(t, run); got != 1 {
					t.Errorf("effects %d, want 1", got)
				}
			})
		}
	}
}

// Proves: R104, R106, R108
func TestLosingAnyOneDynamoDBAnswerOfAResolveLeavesTheDecisionStanding(t *testing.T) {
	t.Parallel()
	function := system.Names.Function(names.Operator)
	resolve := func(t *testing.T, run string) (int, []byte) {
		t.Helper()
		return operator(t, "dev::ada", http.MethodPost, callPath(run, "resolve"),
			map[string]any{"outcome": "completed", "reason": "seen in billing", "expected_version": show(t, run).Version}, "Idempotency-Key", run)
	}
	unknown := func(t *testing.T) string {
		t.Helper()
		run := ownRun(t)
		if a := mustInvoke(t, envelope("invoke", run, run+"-lose-answer-lookup-down")); a.Status != "indeterminate" || a.Effect != "unknown" {
			t.Fatalf("%+v", a)
		}
		return run
	}
	run := unknown(t)
	n := requestsOfACall(t, function, run, func() { resolve(t, run) }) - 1 // show reads too
	if n < 2 {
		t.Fatalf("a resolve costs %d requests", n)
	}
	for nth := 2; nth <= n+1; nth++ {
		t.Run(fmt.Sprintf("answer %d", nth-1), func(t *testing.T) {
			t.Parallel()
			run := unknown(t)
			arm(t, faults.Rule{Service: faults.DynamoDB, Caller: function, Contains: run, Nth: nth, Effect: faults.DropAnswer})
			status, text := resolve(t, run)
			if status == http.StatusServiceUnavailable {
				status, text = resolve(t, run) // as the answer says: the same request again
			}
			if status != http.StatusOK {
				t.Errorf("%d: %s", status, text)
			}
			if struck(run) != 1 {
				t.Errorf("the fault struck %d times", struck(run))
			}
			s := show(t, run)
			if s.Status != "completed" || s.SettledBy.Kind != "person" || len(s.Decisions) != 1 || s.Decisions[0].By != "ada" {
				t.Errorf("%+v", s)
			}
			if got := credits(t, run+"-lose-answer-lookup-down"); got != 1 {
				t.Errorf("effects %d, want 1", got)
			}
		})
	}
}

// Proves: R107
func TestOfTwoOperatorsOneWinsAndTheOtherHearsWho(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	mustInvoke(t, envelope("invoke", run, run+"-drop-request"))
	version := show(t, run).Version
	type result struct {
		actor  string
		status int
		text   []byte
		err    error
	}
	results := make(chan result, 2)
	for _, actor := range []string{"ada", "bob"} {
		go func() {
			status, text, err := tryOperator(t.Context(), "dev::"+actor, http.MethodPost, callPath(run, "resolve"),
				map[string]any{"outcome": "failed", "reason": actor + " looked", "expected_version": version})
			results <- result{actor, status, text, err}
		}()
	}
	won, lost := <-results, <-results
	if won.status != http.StatusOK {
		won, lost = lost, won
	}
	if won.err != nil || lost.err != nil || won.status != http.StatusOK || lost.status != http.StatusConflict {
		t.Fatalf("%s: %d %s\n%s: %d %s", won.actor, won.status, won.text, lost.actor, lost.status, lost.text)
	}
	if !json.Valid(lost.text) || !contains(lost.text, won.actor) {
		t.Errorf("the loser does not hear that %s won: %s", won.actor, lost.text)
	}
	if s := show(t, run); len(s.Decisions) != 1 || s.Decisions[0].By != won.actor {
		t.Errorf("%+v", s.Decisions)
	}
}
