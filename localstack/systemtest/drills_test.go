package systemtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/faults"
)

// waiting starts a run whose credit never arrived and returns when it is parked.
func waiting(t *testing.T, run string) (executionARN string) {
	t.Helper()
	executionARN = startRun(t, run, runInput(t, run, run+"-drop-request", "pause"))
	client := sfn.NewFromConfig(system.Config())
	eventually(t, "the run is parked", func() bool {
		out, err := client.GetExecutionHistory(t.Context(), &sfn.GetExecutionHistoryInput{ExecutionArn: &executionARN, ReverseOrder: true, MaxResults: 1})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Events) == 1 && out.Events[0].Type == types.HistoryEventTypeTaskSubmitted
	})
	return executionARN
}

// decideUntilHeard resolves the run's call as people do: the same request again
// until it is answered.
func decideUntilHeard(t *testing.T, run string, version int64) {
	t.Helper()
	body := map[string]any{"outcome": "failed", "reason": "billing has nothing", "expected_version": version}
	var status int
	var text []byte
	for range 10 {
		if status, text = operator(t, "dev::ada", http.MethodPost, callPath(run, "resolve"), body, "Idempotency-Key", run); status == http.StatusOK {
			return
		}
		if status < http.StatusInternalServerError {
			break
		}
	}
	t.Fatalf("%d: %s", status, text)
}

func heardFailed(t *testing.T, run, execution string) {
	t.Helper()
	status, output := endOf(t, execution)
	if status != "SUCCEEDED" || !strings.Contains(output, "certainly did not take effect") {
		t.Errorf("%s: %s", status, output)
	}
	if s := show(t, run); s.Status != "failed" || s.SettledBy.ID != "ada" || len(s.Decisions) != 1 || s.Decisions[0].By != "ada" {
		t.Errorf("%+v", s)
	}
	if got := credits(t, run+"-drop-request"); got != 0 {
		t.Errorf("effects %d, want 0", got)
	}
}

// drill runs what kills function at each of the n requests that it sends for a
// run, before and after the request is done.
func drill(t *testing.T, function string, n int, do func(t *testing.T, run string, arm func(t *testing.T))) {
	t.Helper()
	for nth := 1; nth <= n; nth++ {
		for _, effect := range []faults.Effect{faults.KillCallerBefore, faults.KillCallerAfter} {
			t.Run(fmt.Sprintf("%s request %d", effect, nth), func(t *testing.T) {
				t.Parallel()
				run := ownRun(t)
				do(t, run, func(t *testing.T) {
					t.Helper()
					arm(t, faults.Rule{Service: faults.DynamoDB, Caller: function, Contains: run, Nth: nth, Effect: effect})
				})
				if struck(run) != 1 {
					t.Errorf("it was killed %d times", struck(run))
				}
			})
		}
	}
}

// Proves: R106, R119
func TestKillOfTheOperatorAtAnyRequestLosesNoDecisionAndNoWakeUp(t *testing.T) {
	t.Parallel()
	function := system.Names.Function(names.Operator)
	calm := ownRun(t)
	execution := waiting(t, calm)
	version := show(t, calm).Version
	n := requestsOfACall(t, function, calm, func() { decideUntilHeard(t, calm, version) })
	heardFailed(t, calm, execution)
	if n < 4 {
		t.Fatalf("a decision sends %d requests", n)
	}
	drill(t, function, n, func(t *testing.T, run string, arm func(t *testing.T)) {
		t.Helper()
		execution := waiting(t, run)
		version := show(t, run).Version
		arm(t)
		decideUntilHeard(t, run, version)
		heardFailed(t, run, execution)
	})
}

// Proves: R119
func TestKillOfTheDeskAtAnyRequestLosesNoWakeUp(t *testing.T) {
	t.Parallel()
	function := system.Names.Function(names.CallDesk)
	calm := ownRun(t)
	var execution string
	n := requestsOfACall(t, function, calm, func() { execution = waiting(t, calm) })
	if n < 2 {
		t.Fatalf("the desk sends %d requests", n)
	}
	decideUntilHeard(t, calm, show(t, calm).Version)
	heardFailed(t, calm, execution)
	drill(t, function, n, func(t *testing.T, run string, arm func(t *testing.T)) {
		t.Helper()
		arm(t)
		execution := startRun(t, run, runInput(t, run, run+"-drop-request", "pause"))
		eventually(t, "the desk is killed", func() bool { return struck(run) == 1 })
		eventually(t, "the call is unknown", func() bool { return show(t, run).Status == "indeterminate" })
		decideUntilHeard(t, run, show(t, run).Version)
		heardFailed(t, run, execution)
	})
}

// The bell itself is lost. These tests run alone: a bell's request does not say
// which run it is for.
// Proves: R119
func TestBellThatIsLostIsRungAgain(t *testing.T) {
	for _, effect := range []faults.Effect{faults.DropRequest, faults.DropAnswer, faults.KillCallerBefore, faults.KillCallerAfter} {
		t.Run(string(effect), func(t *testing.T) {
			run := ownRun(t)
			execution := waiting(t, run)
			version := show(t, run).Version
			id, err := system.Faults.Arm(faults.Rule{Service: faults.StepFunctions, Operation: "SendTaskSuccess", Caller: system.Names.Function(names.Operator), Effect: effect})
			if err != nil {
				t.Fatal(err)
			}
			decideUntilHeard(t, run, version)
			heardFailed(t, run, execution)
			for _, r := range system.Faults.Rules() {
				if r.ID == id && r.Hits != 1 {
					t.Errorf("the fault struck %d times", r.Hits)
				}
			}
			if err := system.Faults.Disarm(id); err != nil {
				t.Fatal(err)
			}
		})
	}
}
