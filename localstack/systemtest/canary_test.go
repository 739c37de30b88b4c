package systemtest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/localstack/stack"
)

// secrets returns the tokens in the run's items: the attempt's own, and the task
// token by which its run can be woken.
func secrets(t *testing.T, run string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, item := range partition(t, run) {
		for name, value := range item {
			if text, ok := value.(*types.AttributeValueMemberS); ok && (name == "attempt_token" || name == "bell") {
				found[name] = text.Value
			}
		}
	}
	return found
}

// Proves: R17
func TestNoSecretLeavesThePlaneThatItBelongsTo(t *testing.T) {
	run := ownRun(t)
	account := run + "-canary-lose-answer-lookup-down"
	execution := startRun(t, run, runInput(t, run, account, "pause"))
	var hidden map[string]string
	eventually(t, "the run is parked", func() bool {
		hidden = secrets(t, run)
		return len(hidden) >= 2
	})
	var answers strings.Builder
	ask := func(method, path string, body any) {
		_, text := operator(t, "dev::ada", method, path, body)
		answers.Write(text)
	}
	ask(http.MethodGet, "/v1/tool-executions?limit=100", nil)
	ask(http.MethodGet, callPath(run), nil)
	ask(http.MethodPost, callPath(run, "reconcile"), map[string]any{"reason": "look again", "expected_version": show(t, run).Version})
	ask(http.MethodPost, callPath(run, "resolve"), map[string]any{"outcome": "completed", "reason": "seen", "expected_version": show(t, run).Version, "result": map[string]string{"credit_id": "canary-result"}})
	ask(http.MethodPost, callPath(run, "resolve"), map[string]any{"outcome": "failed", "reason": "too late", "expected_version": 1})
	ask(http.MethodGet, callPath(run), nil)
	status, output := endOf(t, execution)
	if status != "SUCCEEDED" {
		t.Fatalf("%s: %s", status, output)
	}
	for name, secret := range hidden {
		if len(secret) < 16 {
			t.Errorf("%s is no secret: %q", name, secret)
		}
		for where, text := range map[string]string{"the operator's answers": answers.String(), "the run's output": output} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", name, where)
			}
		}
		if logs.contains(secret) {
			t.Errorf("%s is in the logs", name)
		}
	}
	for what, canary := range map[string]string{"arguments": account, "a result": "canary-result", "credentials": stack.BillingClient, "an error's own text": ": EOF", "where the receiver is": system.BillingURL} {
		if logs.contains(canary) {
			t.Errorf("%s: %q is in the logs", what, canary)
		}
	}
	if strings.Contains(answers.String(), stack.BillingClient) || strings.Contains(answers.String(), system.BillingURL) {
		t.Error("the operator's answers hold what only the tool's function knows")
	}
	if !logs.contains("START RequestId") {
		t.Error("there are no logs to look at")
	}
}
