package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/onceward/onceward/localstack/billing"
	"github.com/onceward/onceward/localstack/stack"
)

// poll is how often a story looks whether something has happened.
const poll = 25 * time.Millisecond

// operatorToken names the operator of the stories; the local gateway believes it.
const operatorToken = "dev::ada"

// client does what the stories need, over the same public surfaces that users
// have: Step Functions' API and the operator's.
type client struct {
	url     string
	machine string // ARN of the one that drives runs
	sfn     *sfn.Client
	billing *billing.Client
}

func newClient(config aws.Config, about stack.About) client {
	return client{
		url: about.URL, machine: about.Machines[about.StateMachine],
		sfn: sfn.NewFromConfig(config), billing: billing.NewClient(about.BillingURL, nil),
	}
}

// script is a run's input for the scripted planner: one turn with one call. The
// policy "" is the default, pause.
func script(runID, policy, tool string, arguments map[string]any) string {
	fields := map[string]any{
		"run_id":    runID,
		"agent":     "billing-assistant",
		"principal": map[string]any{"subject": "customer-1", "permissions": []string{"credits:write"}},
		"script": map[string]any{
			"turns":  []any{map[string]any{"says": "I will credit the account.", "calls": []any{map[string]any{"id": "call_1", "tool": tool, "arguments": arguments}}}},
			"answer": "The customer has been told.",
		},
	}
	if policy != "" {
		fields["tool_policy"] = map[string]any{"on_indeterminate": policy}
	}
	input, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return string(input)
}

func (c client) start(ctx context.Context, machineARN, name, input string) (executionARN string, err error) {
	out, err := c.sfn.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: aws.String(machineARN), Name: aws.String(name), Input: aws.String(input)})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.ExecutionArn), nil
}

// wait returns how the execution ended.
func (c client) wait(ctx context.Context, executionARN string) (status, output string, err error) {
	err = until(ctx, func() (bool, error) {
		out, err := c.sfn.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: aws.String(executionARN)})
		if err != nil {
			return false, err
		}
		status, output = string(out.Status), aws.ToString(out.Output)
		return out.Status != types.ExecutionStatusRunning, nil
	})
	return status, output, err
}

// parked reports whether the execution waits for its task token.
func (c client) parked(ctx context.Context, executionARN string) (bool, error) {
	out, err := c.sfn.GetExecutionHistory(ctx, &sfn.GetExecutionHistoryInput{ExecutionArn: aws.String(executionARN), ReverseOrder: true, MaxResults: 1})
	if err != nil {
		return false, err
	}
	return len(out.Events) == 1 && out.Events[0].Type == types.HistoryEventTypeTaskSubmitted, nil
}

// call is what the operator's API says of a call, as far as the stories ask.
type call struct {
	Key        string          `json:"key"`
	Status     string          `json:"status"`
	Effect     string          `json:"effect"`
	Version    int64           `json:"version"`
	Attempt    int             `json:"attempt"`
	ExternalID string          `json:"external_id"`
	Result     json.RawMessage `json:"result"`
	SettledBy  struct {
		Kind string `json:"kind"`
	} `json:"settled_by"`
}

func (c client) show(ctx context.Context, key string) (call, error) {
	var shown call
	return shown, c.operator(ctx, http.MethodGet, "/v1/tool-executions/"+url.PathEscape(key), nil, &shown)
}

// listed reports whether the operator's list has the call.
func (c client) listed(ctx context.Context, key string) (bool, error) {
	var page struct {
		Items []call `json:"items"`
	}
	if err := c.operator(ctx, http.MethodGet, "/v1/tool-executions?limit=100", nil, &page); err != nil {
		return false, err
	}
	for _, item := range page.Items {
		if item.Key == key {
			return true, nil
		}
	}
	return false, nil
}

// decided is what the operator's API answers a decision with.
type decided struct {
	Record        call   `json:"record"`
	RunWaiting    string `json:"run_waiting"`
	RecordKeeping bool   `json:"record_keeping"`
}

func (c client) resolveFailed(ctx context.Context, key, reason string, version int64) (decided, error) {
	var out decided
	return out, c.operator(ctx, http.MethodPost, "/v1/tool-executions/"+url.PathEscape(key)+"/resolve",
		map[string]any{"outcome": "failed", "reason": reason, "expected_version": version}, &out)
}

// compensate asks for an undo. Of several who ask at once one is answered
// without an error, the others with a *refusedError of status 409.
func (c client) compensate(ctx context.Context, key, reason string, version int64) (decided, error) {
	var out decided
	return out, c.operator(ctx, http.MethodPost, "/v1/tool-executions/"+url.PathEscape(key)+"/compensate",
		map[string]any{"reason": reason, "expected_version": version}, &out)
}

// refusedError is an answer of the operator's API other than 200.
type refusedError struct {
	request string
	status  int
	body    string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("demo: %s: %d %s: %s", e.request, e.status, http.StatusText(e.status), e.body)
}

func (c client) operator(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+operatorToken)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return &refusedError{method + " " + path, resp.StatusCode, string(text)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// until asks again and again until it is so.
func until(ctx context.Context, so func() (bool, error)) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		done, err := so()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
