package statemachines

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/names"
)

func shipped(t *testing.T) *definition {
	t.Helper()
	d, err := parse(AgentRun())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// events is what passing once through s adds to the history; each attempt that
// is retried adds its scheduling, start, submission and failure.
func (s *state) events(retries int) int {
	switch s.kind {
	case "Map":
		return 4
	case "Task":
		if s.resource() == lambdaWait {
			return 6 + 4*retries
		}
		return 5 + 3*retries
	case "Succeed", "Fail":
		return 1
	}
	return 2
}

// way adds up the events of a way through sc, and fails if it isn't one.
func way(t *testing.T, sc *scope, worst bool, names ...string) int {
	t.Helper()
	sum := 0
	for i, name := range names {
		s := sc.states[name]
		if i > 0 && !sc.states[names[i-1]].goesTo(name) {
			t.Fatalf("%s doesn't go to %s", names[i-1], name)
		}
		retries := 0
		for _, r := range list(s.body, "Retry") {
			if n, _ := r.(object)["MaxAttempts"].(float64); worst {
				retries += int(n)
			}
		}
		sum += s.events(retries)
	}
	return sum
}

func TestHistoryCostsFollowFromTheDefinition(t *testing.T) {
	t.Parallel()
	d := shipped(t)
	run, call := d.scopes[0], d.scopes[1]
	const iteration = 2 // started, succeeded
	got := map[string]int{
		"turn":  way(t, run, false, "Plan", "NextStep", "CallTools"),
		"call":  way(t, call, false, "Ask", "Answer", "CallDone") + iteration,
		"again": way(t, call, false, "Ask", "Answer", "AskAgain", "WaitFirst"),
		"look":  way(t, call, false, "Ask", "Answer", "LookUp", "WaitFirst"),
		"desk":  way(t, call, false, "Ask", "Answer", "AskDesk", "WaitFirst"),
		"park":  way(t, call, false, "Ask", "Answer", "AwaitDecision", "AskAgain", "WaitFirst"),
	}
	want := map[string]int{
		"turn": HistoryPerTurn, "call": HistoryPerCall, "again": HistoryPerRound, "look": HistoryPerRound, "desk": HistoryPerRound, "park": HistoryPerPark,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWorstMapAfterTheHandOverMarkStaysBelowTheHardEnd(t *testing.T) {
	t.Parallel()
	d := shipped(t)
	run, call := d.scopes[0], d.scopes[1]
	round := way(t, call, true, "Ask", "Answer", "AwaitDecision", "AskAgain", "WaitFirst")
	last := way(t, call, true, "Ask", "Answer", "CallUnresolved")
	end := way(t, run, true, "Plan", "NextStep", "CallTools", "Plan", "NextStep", "HandOver", "HandedOver")
	worst := HandOverAt + end + MaxCalls*(MaxRounds*round+last+2)
	if worst >= MaxHistory {
		t.Errorf("the worst execution has %d events, %d is the end", worst, MaxHistory)
	}
	t.Logf("the worst execution has %d of %d events", worst, MaxHistory)
}

func TestBoundsInTheDefinitionAreTheOnesInCode(t *testing.T) {
	t.Parallel()
	d := shipped(t)
	got := map[string]float64{}
	for _, s := range d.of("Choice") {
		for _, b := range s.bounds() {
			got[b.counter] = b.limit
		}
	}
	want := map[string]float64{"$.ask.round": MaxRounds, "$.turn.count": MaxTurns, "$.broken": MaxBrokenTurns}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	known := d.scopes[0].known["CallTools"]
	if !known.fewerThan("$.planner.says.calls", MaxCalls) || known.fewerThan("$.planner.says.calls", MaxCalls-1) {
		t.Errorf("the definition doesn't let exactly %d calls through", MaxCalls)
	}
}

func TestToolIsRetriedExactlyAfterPassingRefusals(t *testing.T) {
	t.Parallel()
	ask := shipped(t).scopes[1].states["Ask"]
	retry := list(ask.body, "Retry")
	if len(retry) != 1 {
		t.Fatalf("%d retriers", len(retry))
	}
	var passing []string
	for _, e := range handlerNotEntered {
		if e.Passing {
			passing = append(passing, e.Name)
		}
	}
	slices.Sort(passing)
	if diff := cmp.Diff(passing, slices.Sorted(slices.Values(errorNames(retry[0].(object))))); diff != "" {
		t.Error(diff)
	}
}

func TestErrorTablesDoNotOverlap(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, table := range [][]ErrorName{handlerNotEntered, otherErrors, ownErrors} {
		for _, e := range table {
			if seen[e.Name] || e.Why == "" {
				t.Errorf("%s stands twice or has no meaning", e.Name)
			}
			seen[e.Name] = true
		}
	}
}

// Errors after which the handler may have run must never be taken for refusals,
// however the table grows.
func TestNothingThatMayHaveRunIsCalledNotEntered(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"States.ALL", "States.TaskFailed", "States.Timeout", "States.HeartbeatTimeout", "States.DataLimitExceeded",
		"Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException", "Lambda.ClientExecutionTimeoutException",
		"Lambda.Unknown", "Sandbox.Timedout", "Runtime.ExitError", "Lambda.EFSIOException",
	} {
		if isHandlerNotEntered(name) {
			t.Errorf("%s is called a refusal before the handler", name)
		}
	}
}

func TestEveryFailingEndHasItsNameInTheTable(t *testing.T) {
	t.Parallel()
	used := map[string]bool{names.FailBadInput: true, names.FailCallUnresolved: true, names.FailDeadline: true, names.FailTurnRefused: true} // the planner's own, by ErrorPath
	for _, s := range shipped(t).of("Fail") {
		if name := str(s.body, "Error"); name != "" {
			used[name] = true
		}
	}
	for _, e := range OwnErrors() {
		if !used[e.Name] {
			t.Errorf("no end of the definition fails as %s", e.Name)
		}
		if !strings.HasPrefix(e.Name, "Onceward.") {
			t.Errorf("%s doesn't say whose it is", e.Name)
		}
	}
}
