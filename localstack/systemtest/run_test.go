package systemtest

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
)

func contains(text []byte, part string) bool { return bytes.Contains(text, []byte(part)) }

// Proves: R117, R119, R120, R123
func TestRunWithAnUnknownCallWaitsUntilSomebodySettlesIt(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	account := run + "-lose-answer-lookup-down"
	execution := startRun(t, run, runInput(t, run, account, "pause"))
	eventually(t, "the call is unknown", func() bool {
		status, _ := operator(t, "dev::ada", http.MethodGet, callPath(run), nil)
		return status == http.StatusOK && show(t, run).Status == "indeterminate"
	})
	status, text := operator(t, "dev::ada", http.MethodPost, callPath(run, "resolve"), map[string]any{
		"outcome": "completed", "reason": "seen in billing", "expected_version": show(t, run).Version, "result": map[string]any{"credit_id": "cr_by_hand"}, "external_id": "cr_by_hand",
	})
	if status != http.StatusOK {
		t.Fatalf("%d: %s", status, text)
	}
	ended, output := endOf(t, execution)
	if ended != "SUCCEEDED" || !strings.Contains(output, "took effect") || !strings.Contains(output, "cr_by_hand") || strings.Contains(output, "fail") {
		t.Errorf("%s: %s", ended, output)
	}
	if got := credits(t, account); got != 1 {
		t.Errorf("effects %d, want 1", got)
	}
}

// Proves: R124, R125
func TestToldModelHearsUnresolvedAndALaterDecisionIsRecordKeeping(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	execution := startRun(t, run, runInput(t, run, run+"-lose-answer-lookup-down", "tell"))
	ended, output := endOf(t, execution)
	if ended != "SUCCEEDED" || !strings.Contains(output, "unresolved") || strings.Contains(output, "fail") {
		t.Fatalf("%s: %s", ended, output)
	}
	status, text := operator(t, "dev::ada", http.MethodPost, callPath(run, "resolve"), map[string]any{"outcome": "completed", "reason": "seen", "expected_version": show(t, run).Version})
	if status != http.StatusOK || show(t, run).Status != "completed" {
		t.Errorf("%d: %s", status, text)
	}
}

// Proves: R118, R124
func TestPolicyFailEndsTheRunByName(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	ended, output := endOf(t, startRun(t, run, runInput(t, run, run+"-lose-answer-lookup-down", "fail")))
	if ended != "FAILED" || !strings.Contains(output, "Onceward.CallUnresolved") {
		t.Errorf("%s: %s", ended, output)
	}
	if s := show(t, run); s.Status != "indeterminate" {
		t.Errorf("the call is %s; the run's end must not settle it", s.Status)
	}
}
