package systemtest

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/onceward/onceward/internal/names"
)

// machineOfTools makes the shipped state machine once more, with the planner that
// knows the test tools.
var machineOfTools = sync.OnceValues(func() (arn string, err error) {
	definition, err := machines().DescribeStateMachine(context.Background(), &sfn.DescribeStateMachineInput{StateMachineArn: aws.String(machineARN())})
	if err != nil {
		return "", err
	}
	text := strings.ReplaceAll(aws.ToString(definition.Definition), system.Names.Function(names.Planner), rowsPlanner)
	made, err := machines().CreateStateMachine(context.Background(), &sfn.CreateStateMachineInput{Name: aws.String(rowsMachine), Definition: &text, RoleArn: definition.RoleArn})
	if err != nil {
		return "", err
	}
	return aws.ToString(made.StateMachineArn), nil
})

// starts begins a run with one call of the tool, which does as it is told.
func (c *rowCall) starts() (executionARN string) {
	c.Helper()
	arn, err := machineOfTools()
	if err != nil {
		c.Fatal(err)
	}
	input := encodeString(c.T, map[string]any{
		"run_id": c.run, "principal": map[string]any{"subject": "customer-1"},
		"script": map[string]any{"answer": "Done.", "turns": []any{map[string]any{"calls": []any{map[string]any{"id": "call_1", "tool": c.tool, "arguments": c.order}}}}},
	})
	out, err := machines().StartExecution(c.Context(), &sfn.StartExecutionInput{StateMachineArn: &arn, Name: aws.String(c.run), Input: &input})
	if err != nil {
		c.Fatal(err)
	}
	return aws.ToString(out.ExecutionArn)
}

// awaits waits until the run's page says that it waits so.
func (c *rowCall) awaits(what string) {
	c.Helper()
	eventually(c.T, "the run is "+what, func() bool {
		status, text := c.ask(http.MethodGet, "/v1/runs/"+c.run, nil)
		return status == http.StatusOK && contains(text, `"status":"`+what+`"`)
	})
}

// Proves: R126, R127
func TestRunWaitsForAnApprovalAndGoesOnWithWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	desk := newRowDesk(t)
	for name, tt := range map[string]struct {
		tool  string
		does  func(c *rowCall)
		hears string
		state string
	}{
		"approved": {"act_approved", func(c *rowCall) { c.awaits("awaiting_approval"); c.decide("approve") }, "took effect", "completed"},
		"denied":   {"act_approved", func(c *rowCall) { c.awaits("awaiting_approval"); c.decide("deny") }, "certainly did not take effect: because", "failed, final"},
		"nobody came in time": {"act_approved_soon", func(c *rowCall) {
			eventually(c.T, "the approval is over", func() bool {
				_, _ = sweepOnce(c.Context())
				return c.state() == "failed, final"
			})
		}, "certainly did not take effect", "failed, final"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &rowCall{rowDesk: desk, T: t, run: ownRun(t), tool: tt.tool, order: map[string]string{"does": "completes"}}
			execution := c.starts()
			tt.does(c)
			if status, output := endOf(t, execution); status != "SUCCEEDED" || !strings.Contains(output, tt.hears) {
				t.Errorf("%s: %s", status, output)
			}
			if state := c.state(); state != tt.state {
				t.Errorf("the call is %s", state)
			}
		})
	}
}

// Proves: R112, R122
func TestRunThatIsParkedOnAnUnknownCallHearsThatItWasUndone(t *testing.T) {
	t.Parallel()
	c := &rowCall{rowDesk: newRowDesk(t), T: t, run: ownRun(t), tool: "act", order: map[string]string{"does": "loses_track", "undoes": "completes"}}
	execution := c.starts()
	c.awaits("awaiting_reconciliation")
	// Not before a request of its executor can be on its way no more.
	c.becomes("compensated, decided", func() { c.tryDecide(c.run+":call_1", "compensate", "knows_unknown", true) })
	if status, output := endOf(t, execution); status != "SUCCEEDED" || !strings.Contains(output, "took effect and was undone") {
		t.Errorf("%s: %s", status, output)
	}
}
