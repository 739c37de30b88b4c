package statemachines_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/plain/machine"
	"github.com/onceward/onceward/localstack/stepfunctions"
	"github.com/onceward/onceward/statemachines"
)

const (
	machineName   = "agent-run"
	machineARN    = "arn:aws:states:us-east-1:000000000000:stateMachine:" + machineName
	roleARN       = "arn:aws:iam::000000000000:role/agent-run"
	executionName = "run-1-00000000-g1"
	// bell is what a doorbell sends with a token.
	bell = `{"decision":"a bell decides nothing"}`
)

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
			told := play(t, readStory(t, d))
			out := told.lines()
			if d.HasArg("elapsed") {
				out = append(out, "after "+told.took.String())
			}
			return strings.Join(out, "\n")
		})
	})
}

// story is what a scenario file plays, and on which definition.
type story struct {
	at string // where it stands
	// definition returns the definition. What its requests tell of no execution is
	// told apart by the function's name: prefix stands before it.
	definition func(prefix string) string
	input      string
	text       string // the script
	// motoErrs says what moto's interpreter does here that AWS doesn't; empty if
	// it must agree.
	motoErrs string
}

// errs begins the first line of a story about which moto isn't believed.
const errs = "moto errs: "

func readStory(t *testing.T, d *datadriven.TestData) story {
	t.Helper()
	st := story{at: d.Pos, text: d.Input}
	if first, rest, _ := strings.Cut(d.Input, "\n"); strings.HasPrefix(first, errs) {
		st.motoErrs, st.text = strings.TrimPrefix(first, errs), rest
	}
	switch d.Cmd {
	case "run":
		st.definition, st.input = agentRun(t), `{"run_id":"run-1"}`
	case "pay":
		st.definition, st.input = plainPayment, `{"account_id":"A1","amount_cents":2500}`
	case "await":
		def, err := os.ReadFile("testdata/definitions/await.asl.json")
		if err != nil {
			t.Fatal(err)
		}
		st.definition, st.input = func(string) string { return string(def) }, `{"run_id":"run-1"}`
	default:
		t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
	return st
}

func agentRun(t *testing.T) func(prefix string) string {
	t.Helper()
	def, err := statemachines.Substitute(statemachines.AgentRun(), map[string]string{names.PlannerFunction: "planner", names.CallDeskFunction: "desk"})
	if err != nil {
		t.Fatal(err)
	}
	return func(string) string { return string(def) }
}

func plainPayment(prefix string) string {
	return strings.Replace(machine.Definition(), `"FunctionName": "`+machine.Function, `"FunctionName": "`+prefix+machine.Function, 1)
}

// telling is what became of a story on one interpreter.
type telling struct {
	ways   []string // of the run, and of each call in each Map
	events int      // in the history
	took   time.Duration
	end    description
	report []string
	sent   map[string]json.RawMessage // the last request of each mode
}

// lines tell it as the scenario files do.
func (l telling) lines() []string {
	return slices.Concat(l.ways, []string{l.end.String(), fmt.Sprintf("history: %d events", l.events)}, l.report)
}

// play runs a story on the local runner and tells what happened.
func play(t *testing.T, st story) telling {
	t.Helper()
	var told telling
	synctest.Test(t, func(t *testing.T) {
		s, err := newScript(st.text)
		if err != nil {
			t.Fatal(err)
		}
		x := start(t, st, s)
		x.wait(t)
		s.rings.Wait()
		told = tell(x.events(t), x.describe(t), s)
		for _, trouble := range s.unexpected() {
			t.Error(trouble)
		}
		// Each wait, and each attempt at one, has a token of its own.
		if parked := s.asked["park"]; len(s.tokens) != parked {
			t.Errorf("%d tokens for %d waits", len(s.tokens), parked)
		}
	})
	return told
}

func tell(events []event, end description, s *script) telling {
	seconds := events[len(events)-1].Timestamp - events[0].Timestamp
	took := time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
	return telling{ways: ways(events), events: len(events), took: took, end: end, report: s.report(), sent: s.sent}
}

// execution is one run of a definition on its own local runner.
type execution struct {
	runner *stepfunctions.Runner
	arn    string
}

func start(t *testing.T, st story, s *script) execution {
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
		_, err := runner.SendTaskSuccess(stepfunctions.SendTaskSuccessInput{TaskToken: token, Output: bell})
		return err
	}
	if _, err := runner.CreateStateMachine(stepfunctions.CreateStateMachineInput{Name: machineName, Definition: st.definition(""), RoleARN: roleARN}); err != nil {
		t.Fatal(err)
	}
	begun, err := runner.StartExecution(stepfunctions.StartExecutionInput{StateMachineARN: machineARN, Name: new(executionName), Input: &st.input})
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

// description is the end of an execution.
type description struct{ Status, Output, Error, Cause string }

func (x execution) describe(t *testing.T) description {
	t.Helper()
	out, err := x.runner.DescribeExecution(stepfunctions.DescribeExecutionInput{ExecutionARN: x.arn})
	if err != nil {
		t.Fatal(err)
	}
	return description{string(out.Status), out.Output, out.Error, out.Cause}
}

// String drops what the planner said besides next, and causes in the
// interpreter's wording.
func (d description) String() string {
	var o struct{ Next string }
	switch {
	case d.Status == string(stepfunctions.Succeeded):
		if err := json.Unmarshal([]byte(d.Output), &o); err != nil || o.Next == "" {
			return d.Status + " with " + d.Output
		}
		return d.Status + " " + o.Next
	case strings.HasPrefix(d.Error, "Onceward."):
		return fmt.Sprintf("%s %s: %s", d.Status, d.Error, d.Cause)
	}
	return d.Status + " " + d.Error
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
	Failed    struct{ Error string }       `json:"taskFailedEventDetails"`
	TimedOut  struct{ Error string }       `json:"taskTimedOutEventDetails"`
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
