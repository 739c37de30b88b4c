package systemtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/faults"
	"github.com/onceward/onceward/localstack/stack"
)

// answer is the envelope's answer, by its wire names.
type answer struct {
	Key       string          `json:"key"`
	Status    string          `json:"status"`
	Effect    string          `json:"effect"`
	Next      string          `json:"next"`
	Replayed  bool            `json:"replayed"`
	Attempt   int             `json:"attempt"`
	Result    json.RawMessage `json:"result"`
	ModelSays string          `json:"model_says"`
	Error     struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// One client of each service, so that all tests share its connections. An
// invocation is sent once: a second one would be a second test.
var (
	lambdaClient = sync.OnceValue(func() *lambda.Client {
		return lambda.NewFromConfig(system.Config(), func(o *lambda.Options) { o.RetryMaxAttempts = 1 })
	})
	machines = sync.OnceValue(func() *sfn.Client { return sfn.NewFromConfig(system.Config()) })
	database = sync.OnceValue(func() *dynamodb.Client { return dynamodb.NewFromConfig(system.Config()) })
)

// envelope returns the envelope of an issue_credit of $25 to account.
func envelope(mode, run, account string) map[string]any {
	return map[string]any{
		"onceward": 1, "mode": mode, "run": map[string]any{"id": run, "agent": "test"},
		"call":      map[string]any{"id": "call_1", "tool": "issue_credit", "turn": 1, "arguments": map[string]any{"account_id": account, "amount_cents": 2500}},
		"principal": map[string]any{"subject": "customer-1", "permissions": []string{"credits:write"}},
	}
}

func invoke(ctx context.Context, payload []byte) (answer, error) {
	out, err := lambdaClient().Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String(system.Names.Function(names.BillingTools)), Payload: payload})
	if err != nil {
		return answer{}, err
	}
	if out.FunctionError != nil {
		return answer{}, fmt.Errorf("function error %s: %s", *out.FunctionError, out.Payload)
	}
	var a answer
	return a, json.Unmarshal(out.Payload, &a)
}

func mustInvoke(t *testing.T, e map[string]any) answer {
	t.Helper()
	a, err := invoke(t.Context(), encode(t, e))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func credits(t *testing.T, account string) int {
	t.Helper()
	effects, err := system.Billing.AccountEffects(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	return effects.Credits
}

func arm(t *testing.T, rule faults.Rule) {
	t.Helper()
	id, err := system.Faults.Arm(rule)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = system.Faults.Disarm(id) })
}

// struck reports how often the rules armed for contains have been applied.
func struck(contains string) (hits int) {
	for _, r := range system.Faults.Rules() {
		if r.Contains == contains {
			hits += r.Hits
		}
	}
	return hits
}

// operator sends a request to the operator's API and returns status and body.
func operator(t *testing.T, actor, method, path string, body any, headers ...string) (int, []byte) {
	t.Helper()
	status, text, err := tryOperator(t.Context(), actor, method, path, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return status, text
}

func tryOperator(ctx context.Context, actor, method, path string, body any, headers ...string) (status int, text []byte, err error) {
	var r io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		r = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, system.URL+path, r)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+actor)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err = io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

func callPath(run string, verb ...string) string {
	return keyPath(run+":call_1", verb...)
}

// shown is what the operator's API says of a call.
type shown struct {
	Status    string `json:"status"`
	Effect    string `json:"effect"`
	Version   int64  `json:"version"`
	Attempt   int    `json:"attempt"`
	SettledBy struct {
		Kind string `json:"kind"`
		ID   string `json:"id"`
	} `json:"settled_by"`
	Decisions []struct {
		By     string `json:"by"`
		Reason string `json:"reason"`
	} `json:"decisions"`
	Undo *struct {
		Number int  `json:"number"`
		Open   bool `json:"open"`
	} `json:"undo"`
}

// open reports whether an undo was asked for and has not ended.
func (s shown) open() bool { return s.Undo != nil && s.Undo.Open }

func show(t *testing.T, run string) shown {
	t.Helper()
	status, text := operator(t, "dev::ada", http.MethodGet, callPath(run), nil)
	if status != http.StatusOK {
		t.Fatalf("show %s: %d: %s", run, status, text)
	}
	var s shown
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// runInput is a scripted run with one issue_credit.
func runInput(t *testing.T, run, account, policy string) string {
	t.Helper()
	return string(encode(t, map[string]any{
		"run_id": run, "agent": "test",
		"principal":   map[string]any{"subject": "customer-1", "permissions": []string{"credits:write"}},
		"tool_policy": map[string]any{"on_indeterminate": policy},
		"script": map[string]any{
			"turns":  []any{map[string]any{"calls": []any{map[string]any{"id": "call_1", "tool": "issue_credit", "arguments": map[string]any{"account_id": account, "amount_cents": 2500}}}}},
			"answer": "Done.",
		},
	}))
}

func startRun(t *testing.T, run, input string) (executionARN string) {
	t.Helper()
	out, err := machines().StartExecution(t.Context(), &sfn.StartExecutionInput{
		StateMachineArn: aws.String(stack.MachineARN(system.Names.Machine)), Name: aws.String(run), Input: aws.String(input),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tellWhereItStopped(t, *out.ExecutionArn) })
	return *out.ExecutionArn
}

// tellWhereItStopped logs the last events of a failed test's execution that has
// not ended.
func tellWhereItStopped(t *testing.T, execution string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	out, err := machines().GetExecutionHistory(context.WithoutCancel(t.Context()), &sfn.GetExecutionHistoryInput{ExecutionArn: &execution, ReverseOrder: true, MaxResults: 12})
	if err != nil || len(out.Events) == 0 || ends(out.Events[0].Type) {
		return
	}
	for _, e := range slices.Backward(out.Events) {
		t.Logf("%s: %d %s %s", execution, e.Id, e.Timestamp.Format(time.StampMilli), e.Type)
	}
}

func endOf(t *testing.T, executionARN string) (status, output string) {
	t.Helper()
	client := machines()
	eventually(t, "the run ends", func() bool {
		out, err := client.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &executionARN})
		if err != nil {
			t.Fatal(err)
		}
		status, output = string(out.Status), aws.ToString(out.Output)+aws.ToString(out.Error)
		return out.Status != types.ExecutionStatusRunning
	})
	return status, output
}

// eventually polls what only another process can tell, for at most a minute.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	poll(t, time.Minute, 20*time.Millisecond, what, so)
}

func poll(t *testing.T, longest, every time.Duration, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	timeout := time.After(longest)
	for !so() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("%s: not within %v", what, longest)
		}
	}
}
