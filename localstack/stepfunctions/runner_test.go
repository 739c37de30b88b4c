package stepfunctions

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

func TestMain(m *testing.M) {
	if os.Getenv(childData) != "" {
		if err := serveChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

const testRole = "arn:aws:iam::000000000000:role/run"

// scripted is an Invoker whose functions are Go functions by name.
type scripted struct {
	functions map[string]func(ctx context.Context, payload map[string]any) (Invoked, error)

	mu    sync.Mutex
	calls []string
}

func (s *scripted) Invoke(ctx context.Context, call Invocation) (Invoked, error) {
	s.mu.Lock()
	s.calls = append(s.calls, call.Function)
	s.mu.Unlock()
	do, ok := s.functions[call.Function]
	if !ok {
		return Invoked{}, &InvokeError{Name: "Lambda.ResourceNotFoundException", Cause: "Function not found: " + call.Function}
	}
	value, err := jsonvalue.Decode(call.Payload)
	if err != nil {
		return Invoked{}, err
	}
	payload, _ := value.(map[string]any)
	return do(ctx, payload)
}

func (s *scripted) count(function string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, name := range s.calls {
		if name == function {
			n++
		}
	}
	return n
}

// answerJSON is a function's ordinary answer.
func answerJSON(text string) (Invoked, error) {
	return Invoked{StatusCode: 200, ExecutedVersion: "$LATEST", Payload: []byte(text), RequestID: "r-1"}, nil
}

// lambdaError is the answer of a function that failed.
func lambdaError(errorType, message string) (Invoked, error) {
	payload, err := json.Marshal(map[string]string{"errorType": errorType, "errorMessage": message})
	return Invoked{StatusCode: 200, FunctionError: "Unhandled", Payload: payload}, err
}

// bubble runs test in a synctest bubble with a Runner that is closed in it.
func bubble(t *testing.T, invoker Invoker, options *Options, test func(t *testing.T, r *Runner)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, err := New(invoker, options)
		if err != nil {
			t.Fatal(err)
		}
		test(t, r)
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// create makes a machine called m.
func create(t *testing.T, r *Runner, definition string) string {
	t.Helper()
	return createNamed(t, r, "m", definition)
}

func createNamed(t *testing.T, r *Runner, name, definition string) string {
	t.Helper()
	out, err := r.CreateStateMachine(CreateStateMachineInput{Name: name, Definition: definition, RoleARN: testRole})
	if err != nil {
		t.Fatal(err)
	}
	return out.StateMachineARN
}

func start(t *testing.T, r *Runner, machine, name, input string) string {
	t.Helper()
	out, err := r.StartExecution(StartExecutionInput{StateMachineARN: machine, Name: &name, Input: &input})
	if err != nil {
		t.Fatal(err)
	}
	return out.ExecutionARN
}

func describe(t *testing.T, r *Runner, execution string) DescribeExecutionOutput {
	t.Helper()
	out, err := r.DescribeExecution(DescribeExecutionInput{ExecutionARN: execution})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// finish lets the execution run to its end, however long that takes in the bubble.
func finish(t *testing.T, r *Runner, execution string) DescribeExecutionOutput {
	t.Helper()
	r.mu.Lock()
	x := r.executions[execution]
	r.mu.Unlock()
	x.mu.Lock()
	stop := x.stop
	x.mu.Unlock()
	select {
	case <-stop:
	case <-time.After(2 * 365 * 24 * time.Hour):
		t.Fatalf("execution still runs:\n%s", events(t, r, execution))
	}
	return describe(t, r, execution)
}

// run creates a machine and runs it once.
func run(t *testing.T, r *Runner, definition, input string) DescribeExecutionOutput {
	t.Helper()
	return finish(t, r, start(t, r, create(t, r, definition), "e", input))
}

// events prints a history, one event a line: id, previous id, type.
func events(t *testing.T, r *Runner, execution string) string {
	t.Helper()
	var out strings.Builder
	in := GetExecutionHistoryInput{ExecutionARN: execution}
	in.MaxResults = 1000
	for {
		page, err := r.GetExecutionHistory(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			fmt.Fprintf(&out, "%v %v %v\n", e["id"], e["previousEventId"], e["type"])
		}
		if in.NextToken = page.NextToken; in.NextToken == "" {
			return out.String()
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func toJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// path reads a value out of a JSON text.
func path(t *testing.T, text string, names ...string) any {
	t.Helper()
	value, err := jsonvalue.Decode([]byte(text))
	if err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	for _, name := range names {
		object, ok := value.(map[string]any)
		if !ok {
			t.Fatalf("no %v in %s", names, text)
		}
		value = object[name]
	}
	return value
}
