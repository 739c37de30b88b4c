package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/memruns"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

// rig is a planner with stores in memory and a state machine that asks it: the
// tools are played by the test, through the ledger's own moves.
type rig struct {
	runs    *memruns.Store
	ledger  *memledger.Store
	calls   Ledger // the same, unless a test puts another in its place
	planner *Planner
	logs    bytes.Buffer

	mu      sync.Mutex
	effects map[string]int // by call id
	asked   []string       // call ids, in the order in which they were asked
	beside  []string       // ids and concurrency of each Map
	errors  int            // plans that ended in an error and were repeated
	broken  int
	maps    int
	rounds  int                            // that each call takes
	message string                         // that comes with every call that the ledger knows nothing of
	meddle  func(at string, call Envelope) // may do what somebody else does meanwhile
}

func newRig(t *testing.T) *rig {
	t.Helper()
	calls, err := memledger.New()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{runs: memruns.New(), ledger: calls, calls: calls, effects: map[string]int{}}
	tools := runs.Tools{}
	for name := range behaviours {
		tools[name] = runs.Tool{Function: "f", Class: runs.External}
	}
	tools["find_order"] = runs.Tool{Function: "f", Class: runs.Read}
	r.planner = &Planner{
		Runs: r.runs, Ledger: calls, Tools: tools, ModelFor: scriptedModel, Machine: "arn:aws:states:eu-west-1:111122223333:stateMachine:m:7",
		Now: time.Now, NewID: rand.Text, Log: slog.New(slog.NewJSONHandler(&r.logs, nil)), inputs: &lastInput{},
	}
	return r
}

// behaviours are what the tools do with a call that nothing is known of yet.
var behaviours = map[string]func(r *rig, call ledger.Call) (status, code string){
	"find_order": func(r *rig, c ledger.Call) (string, string) {
		r.apply(ledger.Record{}.Journal(stamp(), c, ledger.Settlement{Effect: ledger.Happened, Result: []byte(`{"order":"O-1"}`)}))
		return "completed", ""
	},
	"issue_credit": func(r *rig, c ledger.Call) (string, string) {
		r.run(c, ledger.Settlement{Effect: ledger.Happened, Result: []byte(`{"credit_id":"cr_9"}`), ExternalID: "cr_9"})
		return "completed", ""
	},
	"lose_answer": func(r *rig, c ledger.Call) (string, string) {
		r.run(c, ledger.Settlement{Effect: ledger.Unknown, Code: "timeout"})
		return "indeterminate", "timeout"
	},
	"not_sent": func(r *rig, c ledger.Call) (string, string) {
		r.run(c, ledger.Settlement{Effect: ledger.NoEffect, Retryable: true, Code: "not_attempted", Message: "the credentials have expired"})
		return "failed", "not_attempted"
	},
	"reserve": func(r *rig, c ledger.Call) (string, string) {
		r.apply(ledger.Record{}.AskApproval(stamp(), c, time.Hour, 1))
		return "unresolved", ""
	},
	"phantom":  func(*rig, ledger.Call) (string, string) { return "completed", "" },
	"refuse":   func(*rig, ledger.Call) (string, string) { return "refused", "bad_arguments" },
	"hang":     func(*rig, ledger.Call) (string, string) { return "unresolved", "" },
	"conflict": func(*rig, ledger.Call) (string, string) { return "conflict", "other_call" },
}

func stamp() ledger.Stamp { return ledger.Stamp{At: time.Now(), WriteID: rand.Text()} }

func (r *rig) apply(m ledger.Move, err error) ledger.Record {
	if err != nil {
		panic(err)
	}
	rec, err := r.calls.Apply(context.Background(), m)
	if err != nil {
		panic(err)
	}
	return rec
}

// run is one guarded execution.
func (r *rig) run(c ledger.Call, what ledger.Settlement) {
	rec := r.apply(ledger.Record{}.Start(stamp(), c, ledger.Executor{Token: ledger.AttemptToken(rand.Text()), Attempt: 1, Deadline: time.Now().Add(time.Minute), QuietAfter: time.Now().Add(time.Minute)}))
	if what.Effect != ledger.NoEffect {
		r.mu.Lock()
		r.effects[c.Key.CallID]++
		r.mu.Unlock()
	}
	r.apply(rec.Settle(stamp(), rec.Attempt.Token, what))
}

// invoke plays the guard: what is recorded is answered from the ledger.
func (r *rig) invoke(t *testing.T, e Envelope) runs.Outcome {
	t.Helper()
	key := ledger.Key{Tenant: e.Tenant, RunID: e.Run.ID, CallID: e.Call.ID}
	r.mu.Lock()
	r.asked = append(r.asked, e.Call.ID)
	r.mu.Unlock()
	rec, err := r.calls.Load(t.Context(), key)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	out := runs.Outcome{ID: e.Call.ID, Turn: r.maps, Rounds: r.rounds}
	if rec.Exists() {
		out.Status, out.Code = string(rec.Status), rec.Outcome.Code
		return out
	}
	out.Message = r.message
	out.Status, out.Code = behaviours[e.Call.Tool](r, ledger.Call{Key: key, Tool: e.Call.Tool, Turn: e.Call.Turn, Fingerprint: "f", Class: "external"})
	return out
}

// request is what the machine sends.
func request(input string, outcomes []runs.Outcome, broken int, execution string) []byte {
	if outcomes == nil {
		outcomes = []runs.Outcome{}
	}
	body, err := json.Marshal(map[string]any{
		"onceward": 1, "mode": "plan", "input": json.RawMessage(input), "outcomes": outcomes, "turn_broken": broken,
		"execution": map[string]any{"id": "arn:x:" + execution, "name": execution, "started_at": "2026-11-29T10:00:00Z", "state_machine": "arn:m"},
	})
	if err != nil {
		panic(err)
	}
	return body
}

// plan asks as the state machine does: six times more after an error.
func (r *rig) plan(t *testing.T, payload []byte) Answer {
	t.Helper()
	for range 7 {
		answer, err := r.planner.Handle(t.Context(), payload)
		if err == nil {
			return answer
		}
		r.errors++
	}
	t.Fatal("the planner is lost")
	return Answer{}
}

// drive runs an execution to its end.
func (r *rig) drive(t *testing.T, input, execution string) Answer {
	t.Helper()
	var outcomes []runs.Outcome
	r.maps, r.broken = 0, 0
	for range 200 {
		answer := r.plan(t, request(input, outcomes, r.broken, execution))
		if answer.Next != CallTools {
			return answer
		}
		outcomes = r.callTools(t, answer)
	}
	t.Fatal("the run does not end")
	return Answer{}
}

func (r *rig) callTools(t *testing.T, answer Answer) []runs.Outcome {
	t.Helper()
	r.maps++
	var outcomes []runs.Outcome
	var ids []string
	for _, call := range answer.Calls {
		r.tell("before", call.Envelope)
		outcomes = append(outcomes, r.invoke(t, call.Envelope))
		r.tell("after", call.Envelope)
		ids = append(ids, call.Envelope.Call.ID)
	}
	r.beside = append(r.beside, fmt.Sprint(ids, " ", answer.MaxConcurrency))
	return outcomes
}

func (r *rig) tell(at string, e Envelope) {
	if r.meddle != nil {
		r.meddle(at, e)
	}
}

// script returns an input with one turn for each list of tools.
func script(policy string, turns ...[]string) string {
	type call struct {
		ID        string         `json:"id"`
		Tool      string         `json:"tool"`
		Arguments map[string]any `json:"arguments"`
	}
	list := []map[string]any{}
	n := 0
	for _, tools := range turns {
		var calls []call
		for _, tool := range tools {
			n++
			calls = append(calls, call{ID: fmt.Sprintf("toolu_%02d", n), Tool: tool, Arguments: map[string]any{"n": n}})
		}
		list = append(list, map[string]any{"calls": calls})
	}
	input := map[string]any{"run_id": "run-1", "tenant": "acme", "script": map[string]any{"turns": list, "answer": "That is all."}}
	if policy != "" {
		input["tool_policy"] = map[string]string{"on_indeterminate": policy}
	}
	body, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return string(body)
}
