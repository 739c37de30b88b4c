package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/statemachines"
)

func TestWrongInputFailsTheRunByNameBeforeAnythingIsStored(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{
		`{"run_id": "a b", "tenant": "a/b", "script": {"turns": [{"calls": [{"tool": 1}]}]}}`: "script.turns[0].calls[0].tool: want a string; script.turns[0].calls[0].tool: missing; script.turns[0].calls[0].arguments: want an object; run_id: want 1 to 60 of A-Za-z0-9_-; tenant: want at most 40 of A-Za-z0-9_-",
		`{"run_id": "run-1"}`: "script: missing",
	} {
		r := newRig(t)
		answer := r.plan(t, request(input, nil, 0, "e1"))
		if answer.Next != Fail || answer.Failure.Error != "Onceward.BadInput" || !strings.Contains(answer.Failure.Cause, want) {
			t.Errorf("answer %s\nwant %s", wire(t, answer), want)
		}
		if writes := r.runs.Writes(); len(writes) > 0 {
			t.Errorf("wrote %v", writes)
		}
	}
}

func TestRequestThatIsNotOurMachinesIsRefused(t *testing.T) {
	t.Parallel()
	good := string(request(script("", []string{"find_order"}), nil, 0, "e1"))
	for what, payload := range map[string]string{
		"not JSON":      `x`,
		"unknown field": strings.Replace(good, `"mode"`, `"extra":1,"mode"`, 1),
		"version":       strings.Replace(good, `"onceward":1`, `"onceward":2`, 1),
		"mode":          strings.Replace(good, `"plan"`, `"invoke"`, 1),
		"no execution":  strings.Replace(good, `"name":"e1"`, `"name":""`, 1),
	} {
		r := newRig(t)
		if answer := r.plan(t, []byte(payload)); answer.Next != Fail || answer.Failure.Error != "Onceward.BadInput" {
			t.Errorf("%s: %s", what, wire(t, answer))
		}
	}
}

func TestTurnOverALimitFailsTheRunByNameAndRunsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	input := fmt.Sprintf(`{"run_id": "run-1", "tenant": "acme", "script": {"turns": [{"calls": [{"tool": "issue_credit", "arguments": {"a": "%s"}}]}]}}`, strings.Repeat("x", 48<<10))
	answer := r.drive(t, input, "e1")
	if answer.Next != Fail || answer.Failure.Error != "Onceward.TurnRefused" || !strings.Contains(answer.Failure.Cause, "at most 49152") || len(r.asked) > 0 {
		t.Errorf("answer %s, asked %v", wire(t, answer), r.asked)
	}
}

func TestAnswersStayBelowStepFunctionsLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var permissions []string
	for range 40 {
		permissions = append(permissions, `"`+strings.Repeat("p", 60)+`"`)
	}
	var calls []string
	for range 4 {
		calls = append(calls, fmt.Sprintf(`{"tool": "find_order", "arguments": {"a": "%s"}}`, strings.Repeat("x", 47<<10)))
	}
	input := fmt.Sprintf(`{"run_id": "run-1", "tenant": "acme", "principal": {"permissions": [%s]}, "script": {"turns": [{"calls": [%s]}]}}`, strings.Join(permissions, ","), strings.Join(calls, ","))
	answer := r.plan(t, request(input, nil, 0, "e1"))
	if n := len(wire(t, answer)); n > statemachines.MaxAnswerBytes || len(answer.Calls) == 0 {
		t.Errorf("an answer of %d bytes with %d calls", n, len(answer.Calls))
	}
}

func TestEndOfALongRunTellsAsMuchAsFits(t *testing.T) {
	t.Parallel()
	var turns []runs.Turn
	for n := range 40 {
		turns = append(turns, runs.Turn{Number: n + 1, Calls: []runs.Call{{ID: "a"}}, Heard: []runs.Heard{{CallID: fmt.Sprint("c", n), Status: "completed", Says: strings.Repeat("x", 16<<10)}}})
	}
	turns = append(turns, runs.Turn{Number: 41, Final: true, Says: "bye"})
	answer, err := succeeded(runs.Run{ID: "run-1"}, turns)
	if err != nil || answer.Answer != "bye" || len(answer.Heard) != 40 || answer.HeardCut == 0 {
		t.Fatalf("answer with %d heard, %d cut, %v", len(answer.Heard), answer.HeardCut, err)
	}
	if n := len(wire(t, answer)); n > 200<<10 {
		t.Errorf("an answer of %d bytes", n)
	}
}

func TestNoArgumentsResultsOrKeysInTheLogs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	input := `{"run_id": "run-1", "tenant": "acme", "script": {"turns": [{"says": "canary", "calls": [{"id": "toolu_canary", "tool": "issue_credit", "arguments": {"a": "canary"}}]}], "answer": "canary"}}`
	if answer := r.drive(t, input, "e1"); answer.Next != Succeed {
		t.Fatalf("answer %s", wire(t, answer))
	}
	logs := r.logs.String()
	if strings.Contains(logs, "canary") || strings.Contains(logs, "cr_9") {
		t.Errorf("logs hold what they should not:\n%s", logs)
	}
	if !strings.Contains(logs, (ledger.Key{Tenant: "acme", RunID: "run-1", CallID: "toolu_canary"}).Short()) {
		t.Errorf("logs do not name the call:\n%s", logs)
	}
}
