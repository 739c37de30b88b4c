package sfnexecutions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/executions/sfnexecutions"
)

const (
	machineARN = "arn:aws:states:eu-west-1:111122223333:stateMachine:agent-run:7"
	wantARN    = "arn:aws:states:eu-west-1:111122223333:execution:agent-run:run-1-g2"
)

// answer is what the service says to one kind of request: a status of 0 is a
// connection that breaks.
type answer struct {
	status int
	body   string
}

// service plays Step Functions and keeps what it was sent.
type service struct {
	start, describe answer

	mu   sync.Mutex
	sent []string // action and body
}

func (s *service) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	action := strings.TrimPrefix(req.Header.Get("X-Amz-Target"), "AWSStepFunctions.")
	body, _ := io.ReadAll(req.Body)
	s.mu.Lock()
	s.sent = append(s.sent, action+" "+string(body))
	s.mu.Unlock()
	say := s.describe
	if action == "StartExecution" {
		say = s.start
	}
	if say.status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(say.status)
	_, _ = io.WriteString(w, say.body)
}

// requests returns what was sent so far.
func (s *service) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

func (s *service) machine(t *testing.T) executions.Machine {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return sfnexecutions.New(sfn.New(sfn.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String(server.URL), RetryMaxAttempts: 5,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
		}),
	}))
}

func problem(kind string) string {
	return fmt.Sprintf(`{"__type":%q,"message":"about CANARY"}`, "com.amazonaws.swf.service.v2.model#"+kind)
}

func described(status string) answer {
	return answer{200, fmt.Sprintf(`{"executionArn":%q,"status":%q,"startDate":1.7e9,"stateMachineArn":"arn"}`, wantARN, status)}
}

var (
	started = answer{200, fmt.Sprintf(`{"executionArn":%q,"startDate":1.7e9}`, wantARN)}
	exists  = answer{400, problem("ExecutionAlreadyExists")}
	gone    = answer{400, problem("ExecutionDoesNotExist")}
)

func TestStartTellsWhatIsUnderTheNameAndRefusedFromUnknown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		start, describe answer
		want            executions.State
		refused, fails  bool
		requests        int
	}{
		"started":                         {start: started, want: executions.Running, requests: 1},
		"exists and runs":                 {start: exists, describe: described("RUNNING"), want: executions.Running, requests: 2},
		"exists and waits to be redriven": {start: exists, describe: described("PENDING_REDRIVE"), want: executions.Running, requests: 2},
		"exists and has succeeded":        {start: exists, describe: described("SUCCEEDED"), want: executions.Succeeded, requests: 2},
		"exists and has failed":           {start: exists, describe: described("FAILED"), want: executions.Failed, requests: 2},
		"exists and timed out":            {start: exists, describe: described("TIMED_OUT"), want: executions.TimedOut, requests: 2},
		"exists and was stopped":          {start: exists, describe: described("ABORTED"), want: executions.Aborted, requests: 2},
		"exists in a state unheard of":    {start: exists, describe: described("DREAMING"), fails: true, requests: 2},
		"exists and is not to be found":   {start: exists, describe: gone, fails: true, requests: 2},
		"exists and can't be looked at":   {start: exists, describe: answer{400, problem("ThrottlingException")}, fails: true, requests: 2},
		"throttled":                       {start: answer{400, problem("ThrottlingException")}, fails: true, refused: true, requests: 1},
		"too many run":                    {start: answer{400, problem("ExecutionLimitExceeded")}, fails: true, refused: true, requests: 1},
		"no such machine":                 {start: answer{400, problem("StateMachineDoesNotExist")}, fails: true, refused: true, requests: 1},
		"not allowed":                     {start: answer{403, problem("AccessDeniedException")}, fails: true, refused: true, requests: 1},
		"the service gave up":             {start: answer{408, problem("RequestTimeout")}, fails: true, requests: 1},
		"the service broke":               {start: answer{500, problem("InternalFailure")}, fails: true, requests: 1},
		"the answer was lost":             {start: answer{}, fails: true, requests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &service{start: c.start, describe: c.describe}
			got, err := s.machine(t).Start(t.Context(), machineARN, "run-1-g2", json.RawMessage(`{"secret": "CANARY"}`))
			if got != c.want || (err != nil) != c.fails || errors.Is(err, executions.ErrRefused) != c.refused {
				t.Errorf("start = %q, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), "CANARY") {
				t.Errorf("the error tells what was sent: %v", err)
			}
			if len(s.requests()) != c.requests {
				t.Errorf("%d requests, want %d: none is tried twice", len(s.requests()), c.requests)
			}
		})
	}
}

func TestExecutionIsAskedForByItsOwnARNWhateverVersionStartedIt(t *testing.T) {
	t.Parallel()
	for _, machine := range []string{machineARN, strings.TrimSuffix(machineARN, ":7"), strings.TrimSuffix(machineARN, "7") + "live"} {
		s := &service{start: exists, describe: described("FAILED")}
		if _, err := s.machine(t).Start(t.Context(), machine, "run-1-g2", json.RawMessage(`{"n":9007199254740993}`)); err != nil {
			t.Fatal(err)
		}
		want := []string{
			fmt.Sprintf(`StartExecution {"input":"{\"n\":9007199254740993}","name":"run-1-g2","stateMachineArn":%q}`, machine),
			fmt.Sprintf(`DescribeExecution {"executionArn":%q}`, wantARN),
		}
		if diff := cmp.Diff(want, s.requests()); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	}
}

func TestLookAtAnExecutionSaysMissingOnlyIfTheServiceDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		describe answer
		want     executions.State
	}{
		"missing":          {gone, executions.Missing},
		"running":          {described("RUNNING"), executions.Running},
		"stopped":          {described("ABORTED"), executions.Aborted},
		"not an ARN":       {answer{400, problem("InvalidArn")}, ""},
		"throttled":        {answer{400, problem("ThrottlingException")}, ""},
		"no answer":        {answer{}, ""},
		"an empty answer":  {answer{200, `{}`}, ""},
		"the service down": {answer{503, "<html>"}, ""},
	} {
		s := &service{describe: c.describe}
		got, err := s.machine(t).State(t.Context(), machineARN, "run-1-g2")
		if got != c.want || (err != nil) != (c.want == "") || len(s.requests()) != 1 {
			t.Errorf("%s: state = %q, %v in %d requests", name, got, err, len(s.requests()))
		}
	}
}

// silent never answers.
type silent struct{}

func (silent) StartExecution(ctx context.Context, _ *sfn.StartExecutionInput, _ ...func(*sfn.Options)) (*sfn.StartExecutionOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) DescribeExecution(ctx context.Context, _ *sfn.DescribeExecutionInput, _ ...func(*sfn.Options)) (*sfn.DescribeExecutionOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestRequestWithoutAnAnswerIsGivenUpAfterThreeSecondsAndUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		machine := sfnexecutions.New(silent{})
		for _, ask := range []func() (executions.State, error){
			func() (executions.State, error) { return machine.Start(t.Context(), machineARN, "a", nil) },
			func() (executions.State, error) { return machine.State(t.Context(), machineARN, "a") },
		} {
			began := time.Now()
			state, err := ask()
			if state != "" || err == nil || errors.Is(err, executions.ErrRefused) || time.Since(began) != 3*time.Second {
				t.Errorf("after %s: %q, %v", time.Since(began), state, err)
			}
		}
	})
}
