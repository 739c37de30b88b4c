package stepfunctions

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/google/go-cmp/cmp"
)

// Set in the environment, they make this test program a Runner in a process of
// its own, which ends with its standard input.
const (
	childData   = "ONCEWARD_TEST_RUNNER_DATA"
	childLambda = "ONCEWARD_TEST_RUNNER_LAMBDA"
)

func serveChild() error {
	invoker, err := NewLambdaInvoker(os.Getenv(childLambda), "us-east-1", credentials.NewStaticCredentialsProvider("k", "s", ""))
	if err != nil {
		return err
	}
	r, err := New(invoker, &Options{Data: os.Getenv(childData)})
	if err != nil {
		return err
	}
	server := httptest.NewServer(r.Handler())
	if err := r.Recover(context.Background()); err != nil {
		return err
	}
	fmt.Println(server.URL)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// child is a Runner in another process.
type child struct {
	*sfn.Client
	process *exec.Cmd
}

func startChild(t *testing.T, data, lambda string) child {
	t.Helper()
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), childData+"="+data, childLambda+"="+lambda)
	process.Stderr = os.Stderr
	stdin, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close() })
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return child{process: process, Client: sfn.New(sfn.Options{
		BaseEndpoint: aws.String(strings.TrimSpace(url)), Region: "us-east-1", HTTPClient: &http.Client{Transport: transport},
		Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""), Retryer: aws.NopRetryer{},
	})}
}

// kill sends SIGKILL and waits until the process is gone.
func (c child) kill(t *testing.T) {
	t.Helper()
	if err := c.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.process.Wait() // says that it was killed
}

func TestKilledProcessGoesOnInTheNext(t *testing.T) {
	t.Parallel()
	tokens := make(chan string, 1)
	reached, free := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	functions := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		switch token, waits := strings.CutPrefix(string(body), `{"retry":0,"token":"`); {
		case waits:
			tokens <- strings.TrimSuffix(token, `"}`)
		case calls.Add(1) == 1:
			close(reached)
			<-free // the caller is killed while it waits
		}
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	t.Cleanup(functions.Close)
	data := t.TempDir()
	first := startChild(t, data, functions.URL)
	ctx := t.Context()
	machines := map[string]string{
		"parked": waiting(""), "calling": invokeTask("lambda:invoke", `"Retry":[{"ErrorEquals":["Lambda.SdkClientException"],"IntervalSeconds":1}],`),
		"over": passMachine, "waits": `{"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":3,"End":true}}}`,
	}
	executions := map[string]*string{}
	for name, definition := range machines {
		machine, err := first.CreateStateMachine(ctx, &sfn.CreateStateMachineInput{Name: &name, Definition: &definition, RoleArn: aws.String(testRole)})
		if err != nil {
			t.Fatal(err)
		}
		begun, err := first.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: machine.StateMachineArn, Name: &name})
		if err != nil {
			t.Fatal(err)
		}
		executions[name] = begun.ExecutionArn
	}
	token := <-tokens
	<-reached
	awaitEnd(t, first.Client, executions["over"])
	before := map[string][]types.HistoryEvent{}
	for name, execution := range executions {
		before[name] = historyOf(t, first.Client, execution)
	}
	first.kill(t)
	close(free)

	second := startChild(t, data, functions.URL)
	for name, execution := range executions {
		after := historyOf(t, second.Client, execution)
		if diff := cmp.Diff(toJSON(t, before[name]), toJSON(t, after[:min(len(before[name]), len(after))])); diff != "" {
			t.Errorf("%s: the history changed: %s", name, diff)
		}
	}
	if _, err := second.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{TaskToken: &token, Output: aws.String(`"rung"`)}); err != nil {
		t.Fatal(err)
	}
	if out := awaitEnd(t, second.Client, executions["parked"]); out.Status != types.ExecutionStatusSucceeded || *out.Output != `"rung"` {
		t.Errorf("parked: %+v", out)
	}
	if out := awaitEnd(t, second.Client, executions["calling"]); out.Status != types.ExecutionStatusSucceeded || calls.Load() != 2 {
		t.Errorf("calling: %s after %d calls", out.Status, calls.Load())
	}
	out := awaitEnd(t, second.Client, executions["waits"])
	if took := out.StopDate.Sub(*out.StartDate); out.Status != types.ExecutionStatusSucceeded || took < 3*time.Second {
		t.Errorf("waits: %s after %s", out.Status, took)
	}
	if out := awaitEnd(t, second.Client, executions["over"]); out.Status != types.ExecutionStatusSucceeded {
		t.Errorf("over: %s", out.Status)
	}
	second.kill(t)
}

func historyOf(t *testing.T, client *sfn.Client, execution *string) []types.HistoryEvent {
	t.Helper()
	out, err := client.GetExecutionHistory(t.Context(), &sfn.GetExecutionHistoryInput{ExecutionArn: execution})
	if err != nil {
		t.Fatal(err)
	}
	return out.Events
}
