package child_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/onceward/onceward/localstack/billing"
	"github.com/onceward/onceward/localstack/stack"
	"github.com/onceward/onceward/localstack/stack/child"
)

// startStack starts a child that dies with the test at the latest.
func startStack(t *testing.T, data string, args ...string) *child.Stack {
	t.Helper()
	s, err := child.Start(t.Context(), child.Options{
		Exe: program, Data: data, Args: append([]string{"--wait-scale", "0.1", "--sweep-every", "1s"}, args...), Stderr: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func about(t *testing.T, s *child.Stack) stack.About {
	t.Helper()
	a, err := s.About(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// startRun starts a run with one issue_credit to account.
func startRun(t *testing.T, s *child.Stack, run, account string) (executionARN string) {
	t.Helper()
	input, err := json.Marshal(map[string]any{
		"run_id": run, "agent": "test",
		"principal":   map[string]any{"subject": "customer-1", "permissions": []string{"credits:write"}},
		"tool_policy": map[string]any{"on_indeterminate": "pause"},
		"script": map[string]any{
			"turns":  []any{map[string]any{"calls": []any{map[string]any{"id": "call_1", "tool": "issue_credit", "arguments": map[string]any{"account_id": account, "amount_cents": 2500}}}}},
			"answer": "Done.",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	a := about(t, s)
	out, err := sfn.NewFromConfig(s.Config()).StartExecution(t.Context(), &sfn.StartExecutionInput{
		StateMachineArn: aws.String(a.Machines[a.StateMachine]), Name: &run, Input: aws.String(string(input)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return *out.ExecutionArn
}

func describe(t *testing.T, s *child.Stack, executionARN string) (status types.ExecutionStatus, output string) {
	t.Helper()
	out, err := sfn.NewFromConfig(s.Config()).DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &executionARN})
	if err != nil {
		t.Fatal(err)
	}
	return out.Status, aws.ToString(out.Output) + aws.ToString(out.Error)
}

func endOf(t *testing.T, s *child.Stack, executionARN string) (status types.ExecutionStatus, output string) {
	t.Helper()
	eventually(t, "the run ends", func() bool {
		status, output = describe(t, s, executionARN)
		return status != types.ExecutionStatusRunning
	})
	return status, output
}

func parked(t *testing.T, s *child.Stack, executionARN string) bool {
	t.Helper()
	out, err := sfn.NewFromConfig(s.Config()).GetExecutionHistory(t.Context(), &sfn.GetExecutionHistoryInput{ExecutionArn: &executionARN, ReverseOrder: true, MaxResults: 1})
	if err != nil {
		t.Fatal(err)
	}
	return len(out.Events) == 1 && out.Events[0].Type == types.HistoryEventTypeTaskSubmitted
}

func effects(t *testing.T, s *child.Stack, account string) billing.Effects {
	t.Helper()
	found, err := billing.NewClient(about(t, s).BillingURL, nil).AccountEffects(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// call is what the operator's API says of a call.
type call struct {
	Status  string `json:"status"`
	Version int64  `json:"version"`
}

// operator sends a request about a run's call to the operator's API.
func operator(t *testing.T, s *child.Stack, method, run, verb string, body any, into any) {
	t.Helper()
	plane(t, s, method, "/v1/tool-executions/"+url.PathEscape(run+":call_1")+verb, body, into)
}

// plane sends a request to the operator's API.
func plane(t *testing.T, s *child.Stack, method, path string, body any, into any) {
	t.Helper()
	var content io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, content)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer dev::ada")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s: %s %v", method, path, resp.Status, text, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// eventually polls what only another process can tell, for at most a minute.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
