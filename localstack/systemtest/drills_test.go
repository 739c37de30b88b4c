package systemtest

import (
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
	client := machines()
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

// A decision that comes between the question and the park finds no bell: the
// desk, which reads the call again after it has stored its own, rings it itself.
// These tests run alone: until then nobody knows the bell's token.
// Proves: R119
func TestRunThatParksAfterTheDecisionIsWokenByTheDesk(t *testing.T) {
	desk := system.Names.Function(names.CallDesk)
	for _, effect := range []faults.Effect{"", faults.DropRequest, faults.DropAnswer, faults.KillCallerBefore, faults.KillCallerAfter} {
		t.Run("bell "+string(effect), func(t *testing.T) {
			run := ownRun(t)
			hold, err := system.Faults.Arm(faults.Rule{Service: faults.DynamoDB, Operation: "PutItem", Caller: desk, Contains: run, Effect: faults.Delay, Milliseconds: 60_000})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = system.Faults.Disarm(hold) })
			execution := startRun(t, run, runInput(t, run, run+"-drop-request", "pause"))
			eventually(t, "the desk is about to store the wait", func() bool { return hitsOf(hold) == 1 })
			decideUntilHeard(t, run, show(t, run).Version)
			bell := ""
			if effect != "" {
				if bell, err = system.Faults.Arm(faults.Rule{Service: faults.StepFunctions, Operation: "SendTaskSuccess", Caller: desk, Effect: effect}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = system.Faults.Disarm(bell) })
			}
			if err := system.Faults.Disarm(hold); err != nil {
				t.Fatal(err)
			}
			heardFailed(t, run, execution)
			if hits := hitsOf(bell); effect != "" && hits != 1 {
				t.Errorf("the bell's fault struck %d times", hits)
			}
			// A bell that was lost stays unconfirmed: whoever comes next rings it, in vain.
			(&fullRun{id: run}).lookUp(t, run+":call_1")
			if listed(t, run, "") {
				t.Error("a run that went on is listed")
			}
		})
	}
}

// Proves: R113, R114, R115, R116
func TestNothingIsUndoneUnasked(t *testing.T) {
	t.Parallel()
	resume := func(t *testing.T, run string) {
		t.Helper()
		if status, text := operator(t, "dev::ada", http.MethodPost, "/v1/runs/"+run+"/resume", map[string]any{}); status != http.StatusOK {
			t.Fatalf("resume: %d: %s", status, text)
		}
		eventually(t, "the run waits again", func() bool { return (&fullRun{id: run}).page(t).Status == "awaiting_reconciliation" })
	}
	stop := func(t *testing.T, execution string) {
		t.Helper()
		if _, err := machines().StopExecution(t.Context(), &sfn.StopExecutionInput{ExecutionArn: &execution}); err != nil {
			t.Fatal(err)
		}
	}
	for name, after := range map[string]func(t *testing.T, run, execution string){
		"on failure":  func(*testing.T, string, string) {},
		"on cancel":   func(t *testing.T, _, execution string) { t.Helper(); stop(t, execution) },
		"on recovery": func(t *testing.T, run, execution string) { t.Helper(); stop(t, execution); resume(t, run) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, policy := ownRun(t), "pause"
			if name == "on failure" {
				policy = "fail"
			}
			execution := startRun(t, run, runInput(t, run, run+"-lose-answer-lookup-down", policy))
			eventually(t, "the call is unknown", func() bool {
				status, _ := operator(t, "dev::ada", http.MethodGet, callPath(run), nil)
				return status == http.StatusOK && show(t, run).Status == "indeterminate"
			})
			after(t, run, execution)
			if name == "on failure" {
				endOf(t, execution)
			}
			s, effects := show(t, run), keyEffects(t, run)
			if effects.Voids != 0 || effects.Credits != 1 || s.Undo != nil || s.Status != "indeterminate" || len(s.Decisions) != 0 {
				t.Errorf("%+v, %+v", s, effects)
			}
		})
	}
}
