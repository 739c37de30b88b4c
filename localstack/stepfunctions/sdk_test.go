package stepfunctions

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
)

// sdkClient is the AWS SDK's own client, speaking to a Runner over HTTP.
func sdkClient(t *testing.T, invoker Invoker) *sfn.Client {
	t.Helper()
	r, err := New(invoker, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r.Handler())
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		if err := r.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return sfn.New(sfn.Options{
		BaseEndpoint: aws.String(server.URL), Region: "us-east-1", HTTPClient: &http.Client{Transport: transport},
		Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""), Retryer: aws.NopRetryer{},
	})
}

func sdkMachine(t *testing.T, client *sfn.Client, definition string) *string {
	t.Helper()
	out, err := client.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{Name: aws.String("m"), Definition: &definition, RoleArn: aws.String(testRole)})
	if err != nil {
		t.Fatal(err)
	}
	return out.StateMachineArn
}

// wantType checks that the SDK made its typed error of an answer.
func wantType[E error](t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[E](err); !ok {
		t.Errorf("got %T (%v), want %T", err, err, *new(E))
	}
}

const passMachine = `{"StartAt":"P","States":{"P":{"Type":"Pass","End":true}}}`

func TestSDKSeesTypedErrors(t *testing.T) {
	t.Parallel()
	d := &doorbell{}
	client := sdkClient(t, d)
	ctx := t.Context()
	machine := sdkMachine(t, client, waiting(""))

	_, err := client.CreateStateMachine(ctx, &sfn.CreateStateMachineInput{Name: aws.String("a b"), Definition: aws.String(passMachine), RoleArn: aws.String(testRole)})
	wantType[*types.InvalidName](t, err)
	_, err = client.CreateStateMachine(ctx, &sfn.CreateStateMachineInput{Name: aws.String("m2"), Definition: aws.String(`{"States":{}}`), RoleArn: aws.String(testRole)})
	wantType[*types.InvalidDefinition](t, err)
	_, err = client.CreateStateMachine(ctx, &sfn.CreateStateMachineInput{Name: aws.String("m"), Definition: aws.String(passMachine), RoleArn: aws.String(testRole)})
	wantType[*types.StateMachineAlreadyExists](t, err)
	_, err = client.CreateStateMachine(ctx, &sfn.CreateStateMachineInput{Name: aws.String("x"), Definition: aws.String(passMachine), RoleArn: aws.String(testRole), Type: types.StateMachineTypeExpress})
	wantType[*types.StateMachineTypeNotSupported](t, err)
	_, err = client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: aws.String(*machine + "no")})
	wantType[*types.StateMachineDoesNotExist](t, err)
	_, err = client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: aws.String("no")})
	wantType[*types.InvalidArn](t, err)
	_, err = client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: machine, Name: aws.String("a/b")})
	wantType[*types.InvalidName](t, err)
	_, err = client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: machine, Input: aws.String("no")})
	wantType[*types.InvalidExecutionInput](t, err)
	_, err = client.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: aws.String("arn:aws:states:us-east-1:000000000000:execution:m:no")})
	wantType[*types.ExecutionDoesNotExist](t, err)
	_, err = client.DescribeStateMachine(ctx, &sfn.DescribeStateMachineInput{StateMachineArn: aws.String("arn:aws:states:us-east-1:000000000000:stateMachine:no")})
	wantType[*types.StateMachineDoesNotExist](t, err)
	_, err = client.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{TaskToken: aws.String("made up"), Output: aws.String("{}")})
	wantType[*types.InvalidToken](t, err)

	_, err = client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: machine, Name: aws.String("e")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: machine, Name: aws.String("e"), Input: aws.String(`{"other":1}`)})
	wantType[*types.ExecutionAlreadyExists](t, err)
	token := awaitToken(t, d)
	_, err = client.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{TaskToken: &token, Output: aws.String("no")})
	wantType[*types.InvalidOutput](t, err)
	if _, err = client.SendTaskHeartbeat(ctx, &sfn.SendTaskHeartbeatInput{TaskToken: &token}); err != nil {
		t.Error(err)
	}
	if _, err = client.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{TaskToken: &token, Output: aws.String("{}")}); err != nil {
		t.Error(err)
	}
	_, err = client.SendTaskFailure(ctx, &sfn.SendTaskFailureInput{TaskToken: &token})
	wantType[*types.TaskTimedOut](t, err)
}

// awaitToken waits for the doorbell to have been given a token.
func awaitToken(t *testing.T, d *doorbell) string {
	t.Helper()
	for {
		d.mu.Lock()
		tokens := d.tokens
		d.mu.Unlock()
		if len(tokens) > 0 {
			return tokens[0]
		}
		select {
		case <-t.Context().Done():
			t.Fatal("no token came")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestSDKReadsAnExecutionAndItsHistory(t *testing.T) {
	t.Parallel()
	f := functionF(func(int, map[string]any) (Invoked, error) { return answerJSON(`{"ok":true}`) })
	client := sdkClient(t, f)
	ctx := t.Context()
	machine := sdkMachine(t, client, invokeTask("lambda:invoke", `"TimeoutSeconds":20,"HeartbeatSeconds":10,`))
	begun, err := client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: machine, Name: aws.String("e"), Input: aws.String(`{"a": 1}`)})
	if err != nil {
		t.Fatal(err)
	}
	out := awaitEnd(t, client, begun.ExecutionArn)
	if out.Status != types.ExecutionStatusSucceeded || *out.Input != `{"a": 1}` || !out.StartDate.Equal(*begun.StartDate) || out.StopDate == nil {
		t.Errorf("%+v", out)
	}
	history, err := client.GetExecutionHistory(ctx, &sfn.GetExecutionHistoryInput{ExecutionArn: begun.ExecutionArn, IncludeExecutionData: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	scheduled, succeeded := history.Events[2].TaskScheduledEventDetails, history.Events[4].TaskSucceededEventDetails
	if scheduled == nil || *scheduled.TimeoutInSeconds != 20 || *scheduled.HeartbeatInSeconds != 10 || *scheduled.Resource != "invoke" || *scheduled.ResourceType != "lambda" || *scheduled.Region != "us-east-1" {
		t.Errorf("%+v", scheduled)
	}
	if succeeded == nil || path(t, *succeeded.Output, "Payload", "ok") != true || path(t, *succeeded.Output, "SdkResponseMetadata", "RequestId") != "r-1" {
		t.Errorf("%+v", succeeded)
	}
	if history.Events[0].Timestamp.IsZero() || time.Since(*history.Events[0].Timestamp) > time.Hour {
		t.Errorf("timestamp %s", history.Events[0].Timestamp)
	}
	bare, err := client.GetExecutionHistory(ctx, &sfn.GetExecutionHistoryInput{ExecutionArn: begun.ExecutionArn, IncludeExecutionData: aws.Bool(false)})
	if err != nil {
		t.Fatal(err)
	}
	if bare.Events[0].ExecutionStartedEventDetails.Input != nil || bare.Events[4].TaskSucceededEventDetails.Output != nil {
		t.Error("data in a history that was asked for without")
	}
}

func awaitEnd(t *testing.T, client *sfn.Client, execution *string) *sfn.DescribeExecutionOutput {
	t.Helper()
	for {
		out, err := client.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: execution})
		if err != nil {
			t.Fatal(err)
		}
		if out.Status != types.ExecutionStatusRunning {
			return out
		}
	}
}

func TestSDKPagesThroughAHistoryInBothOrders(t *testing.T) {
	t.Parallel()
	client := sdkClient(t, &scripted{})
	states := make([]string, 9)
	for i := range states {
		states[i] = `"S` + string(rune('0'+i)) + `":{"Type":"Pass","Next":"S` + string(rune('1'+i)) + `"}`
	}
	machine := sdkMachine(t, client, `{"StartAt":"S0","States":{`+strings.Join(states, ",")+`,"S9":{"Type":"Pass","End":true}}}`)
	begun, err := client.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: machine})
	if err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, client, begun.ExecutionArn)
	for _, reverse := range []bool{false, true} {
		pages := sfn.NewGetExecutionHistoryPaginator(client, &sfn.GetExecutionHistoryInput{ExecutionArn: begun.ExecutionArn, MaxResults: 5, ReverseOrder: reverse})
		var ids []int64
		count := 0
		for ; pages.HasMorePages(); count++ {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Events {
				ids = append(ids, e.Id)
			}
		}
		if len(ids) != 22 || count != 5 {
			t.Fatalf("%d events in %d pages", len(ids), count)
		}
		for i, id := range ids {
			want := int64(i + 1)
			if reverse {
				want = int64(22 - i)
			}
			if id != want {
				t.Errorf("reverse %v: event %d has id %d", reverse, i, id)
			}
		}
	}
	_, err = client.GetExecutionHistory(t.Context(), &sfn.GetExecutionHistoryInput{ExecutionArn: begun.ExecutionArn, NextToken: aws.String("no")})
	wantType[*types.InvalidToken](t, err)
}

func TestSDKUpdatesListsValidatesAndDeletesMachines(t *testing.T) {
	t.Parallel()
	client := sdkClient(t, &scripted{})
	ctx := t.Context()
	machine := sdkMachine(t, client, passMachine)
	if again := sdkMachine(t, client, passMachine); *again != *machine {
		t.Errorf("created again as %s", *again)
	}
	changed := `{"StartAt":"Q","States":{"Q":{"Type":"Succeed"}}}`
	if _, err := client.UpdateStateMachine(ctx, &sfn.UpdateStateMachineInput{StateMachineArn: machine, Definition: &changed}); err != nil {
		t.Fatal(err)
	}
	_, err := client.UpdateStateMachine(ctx, &sfn.UpdateStateMachineInput{StateMachineArn: machine})
	wantType[*types.MissingRequiredParameter](t, err)
	out, err := client.DescribeStateMachine(ctx, &sfn.DescribeStateMachineInput{StateMachineArn: machine})
	if err != nil || *out.Definition != changed || out.Status != types.StateMachineStatusActive || out.Type != types.StateMachineTypeStandard || *out.RevisionId == "" {
		t.Errorf("%+v %v", out, err)
	}
	list, err := client.ListStateMachines(ctx, &sfn.ListStateMachinesInput{})
	if err != nil || len(list.StateMachines) != 1 || *list.StateMachines[0].Name != "m" {
		t.Errorf("%+v %v", list, err)
	}
	verdict, err := client.ValidateStateMachineDefinition(ctx, &sfn.ValidateStateMachineDefinitionInput{Definition: aws.String(`{"StartAt":"A","States":{"A":{"Type":"Parallel"}}}`)})
	if err != nil || verdict.Result != types.ValidateStateMachineDefinitionResultCodeFail || *verdict.Diagnostics[0].Location != "/States/A/Type" {
		t.Errorf("%+v %v", verdict, err)
	}
	if _, err := client.DeleteStateMachine(ctx, &sfn.DeleteStateMachineInput{StateMachineArn: machine}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.DeleteStateMachine(ctx, &sfn.DeleteStateMachineInput{StateMachineArn: machine}); err != nil {
		t.Errorf("a second delete: %v", err)
	}
	_, err = client.DescribeStateMachine(ctx, &sfn.DescribeStateMachineInput{StateMachineArn: machine})
	wantType[*types.StateMachineDoesNotExist](t, err)
}

func TestSDKListsExecutionsNewestFirstPageByPageAndByStatus(t *testing.T) {
	t.Parallel()
	client := sdkClient(t, &scripted{})
	ctx := t.Context()
	machine := sdkMachine(t, client, `{"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":1000,"End":true}}}`)
	other, err := client.CreateStateMachine(ctx, &sfn.CreateStateMachineInput{Name: aws.String("other"), Definition: aws.String(passMachine), RoleArn: aws.String(testRole)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"c", "a", "d", "b"} { // neither in the order of their names nor against it
		for of, name := range map[*string]string{machine: name, other.StateMachineArn: "other-" + name} {
			if _, err := client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: of, Name: &name}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"a", "b"} {
		arn := strings.Replace(*machine, ":stateMachine:", ":execution:", 1) + ":" + name
		if _, err := client.StopExecution(ctx, &sfn.StopExecutionInput{ExecutionArn: &arn}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		filter types.ExecutionStatus
		size   int32 // of a page; 0 asks for the default
		want   string
	}{
		{"", 0, "b d a c"},
		{"", 1, "b|d|a|c"},
		{"", 3, "b d a|c"},
		{"", 4, "b d a c"},
		{types.ExecutionStatusRunning, 0, "d c"},
		{types.ExecutionStatusRunning, 1, "d|c"},
		{types.ExecutionStatusAborted, 1, "b|a"},
		{types.ExecutionStatusSucceeded, 1, ""},
	} {
		var pages []string
		in := &sfn.ListExecutionsInput{StateMachineArn: machine, StatusFilter: c.filter, MaxResults: c.size}
		for {
			out, err := client.ListExecutions(ctx, in)
			if err != nil {
				t.Fatal(err)
			}
			var page []string
			for _, x := range out.Executions {
				page = append(page, *x.Name)
				if aborted := *x.Name == "a" || *x.Name == "b"; *x.StateMachineArn != *machine || (x.Status == types.ExecutionStatusAborted) != aborted || (x.StopDate != nil) != aborted {
					t.Errorf("%+v", x)
				}
			}
			pages = append(pages, strings.Join(page, " "))
			if in.NextToken = out.NextToken; in.NextToken == nil || len(pages) > 4 {
				break
			}
		}
		if got := strings.Join(pages, "|"); got != c.want {
			t.Errorf("status %q, pages of %d: %s, want %s", c.filter, c.size, got, c.want)
		}
	}
	_, err = client.ListExecutions(ctx, &sfn.ListExecutionsInput{StateMachineArn: machine, NextToken: aws.String("no")})
	wantType[*types.InvalidToken](t, err)
}

func TestMachineWithRunningExecutionsIsDeletedWhenTheyEnd(t *testing.T) {
	t.Parallel()
	client := sdkClient(t, &scripted{})
	ctx := t.Context()
	machine := sdkMachine(t, client, `{"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":1000,"End":true}}}`)
	begun, err := client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: machine})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.DeleteStateMachine(ctx, &sfn.DeleteStateMachineInput{StateMachineArn: machine}); err != nil {
		t.Fatal(err)
	}
	_, err = client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: machine})
	wantType[*types.StateMachineDeleting](t, err)
	if _, err := client.StopExecution(ctx, &sfn.StopExecutionInput{ExecutionArn: begun.ExecutionArn}); err != nil {
		t.Fatal(err)
	}
	_, err = client.DescribeStateMachine(ctx, &sfn.DescribeStateMachineInput{StateMachineArn: machine})
	wantType[*types.StateMachineDoesNotExist](t, err)
}
