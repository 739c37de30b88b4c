package statemachines_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/stepfunctions"
	"github.com/onceward/onceward/statemachines"
)

const machineARN = "arn:aws:states:us-east-1:000000000000:stateMachine:agent-run"

// Each file of testdata/scenarios is one story of a run: what planner, tool and
// desk answer, and below it the way that the definition took on the local
// runner, whom it asked how often, and how it ended. `go test -rewrite` writes
// the lower part anew. Time is virtual: a wait of two weeks takes none.
//
// Proves: R117, R119
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			if d.Cmd != "run" {
				t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
			}
			return play(t, d.Input, d.HasArg("elapsed"))
		})
	})
}

// play runs the definition against a script and tells what happened.
func play(t *testing.T, text string, withTime bool) string {
	t.Helper()
	var out []string
	synctest.Test(t, func(t *testing.T) {
		s, err := newScript(text)
		if err != nil {
			t.Fatal(err)
		}
		x := start(t, s)
		x.wait(t)
		s.rings.Wait()
		out = slices.Concat(x.tell(t), s.report())
		for _, trouble := range s.unexpected() {
			t.Error(trouble)
		}
		if withTime {
			events := x.events(t)
			seconds := events[len(events)-1].Timestamp - events[0].Timestamp
			out = append(out, "after "+time.Duration(seconds*float64(time.Second)).Round(time.Millisecond).String())
		}
	})
	return strings.Join(out, "\n")
}

// execution is one run of the definition on its own local runner.
type execution struct {
	runner *stepfunctions.Runner
	arn    string
}

func start(t *testing.T, s *script) execution {
	t.Helper()
	runner, err := stepfunctions.New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runner.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s.ring = func(token string) error {
		_, err := runner.SendTaskSuccess(stepfunctions.SendTaskSuccessInput{TaskToken: token, Output: `{"decision":"a bell decides nothing"}`})
		return err
	}
	def, err := statemachines.Substitute(statemachines.AgentRun(), map[string]string{names.PlannerFunction: "planner", names.CallDeskFunction: "desk"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runner.CreateStateMachine(stepfunctions.CreateStateMachineInput{
		Name: "agent-run", Definition: string(def), RoleARN: "arn:aws:iam::000000000000:role/agent-run",
	}); err != nil {
		t.Fatal(err)
	}
	begun, err := runner.StartExecution(stepfunctions.StartExecutionInput{StateMachineARN: machineARN, Name: new("run-1-00000000-g1"), Input: new(`{"run_id":"run-1"}`)})
	if err != nil {
		t.Fatal(err)
	}
	return execution{runner, begun.ExecutionARN}
}

// wait returns once the execution has ended; the clock is the bubble's.
func (x execution) wait(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for range tick.C {
		if x.describe(t).Status != string(stepfunctions.Running) {
			return
		}
	}
}

type description struct{ Status, Output, Error, Cause string }

func (x execution) describe(t *testing.T) description {
	t.Helper()
	out, err := x.runner.DescribeExecution(stepfunctions.DescribeExecutionInput{ExecutionARN: x.arn})
	if err != nil {
		t.Fatal(err)
	}
	return description{string(out.Status), out.Output, out.Error, out.Cause}
}

// tell describes the way of the run, of each call, and the end.
func (x execution) tell(t *testing.T) []string {
	t.Helper()
	events := x.events(t)
	out := ways(events)
	end := x.describe(t)
	switch {
	case end.Status == string(stepfunctions.Succeeded):
		out = append(out, end.Status+" "+shorten(end.Output))
	case strings.HasPrefix(end.Error, "Onceward."):
		out = append(out, fmt.Sprintf("%s %s: %s", end.Status, end.Error, end.Cause))
	default: // the cause is the runner's wording
		out = append(out, end.Status+" "+end.Error)
	}
	return append(out, fmt.Sprintf("history: %d events", len(events)))
}

// shorten drops what the planner said besides next.
func shorten(output string) string {
	var o struct{ Next string }
	if err := json.Unmarshal([]byte(output), &o); err != nil || o.Next == "" {
		return "with something else than the planner's answer: " + output
	}
	return o.Next
}

// event is what a scenario shows of a history event.
type event struct {
	ID       int64 `json:"id"`
	Previous int64 `json:"previousEventId"`
	Type     string
	// Timestamp is in seconds of the epoch.
	Timestamp float64
	Entered   struct{ Name, Input string } `json:"stateEnteredEventDetails"`
	Begun     struct{ Index int }          `json:"mapIterationStartedEventDetails"`
}

func (x execution) events(t *testing.T) []event {
	t.Helper()
	var all []event
	in := stepfunctions.GetExecutionHistoryInput{ExecutionARN: x.arn}
	in.MaxResults = 1000
	for {
		page, err := x.runner.GetExecutionHistory(in)
		if err != nil {
			t.Fatal(err)
		}
		var some []event
		if err := json.Unmarshal(encode(page.Events), &some); err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
		if in.NextToken = page.NextToken; in.NextToken == "" {
			return all
		}
	}
}
