package statemachines_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"
	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/localstack/stepfunctions"
)

// The local runner is ours, and so would be its errors. moto's interpreter, which
// others wrote and compared with recordings of AWS, plays the same stories and
// must come to the same end by the same way: the status, the output, the error's
// name, who was asked how often and what the planner heard. Where moto is known to
// err the story says how; the day it agrees, that line is out of date.
//
// Proves: R119
func TestAnotherInterpreterTellsTheSameStories(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("with -short: the other interpreter is not a Go program, and is asked by make test")
	}
	stories := allStories(t)
	var notBelieved []string
	for _, st := range stories {
		if st.motoErrs != "" {
			notBelieved = append(notBelieved, st.at+": "+st.motoErrs)
		}
	}
	m := startMoto(t)
	answers := m.playAll(t.Context(), stories)
	for i, st := range stories {
		t.Run(st.at, func(t *testing.T) {
			t.Parallel()
			answer := <-answers[i]
			if answer.err != nil {
				t.Fatal(answer.err)
			}
			diff := cmp.Diff(comparison(play(t, st)), comparison(answer.telling))
			if st.motoErrs != "" {
				if diff == "" {
					t.Errorf("moto agrees; take away: %s", st.motoErrs)
				}
				return
			}
			if diff != "" {
				t.Errorf("(-local runner +moto):\n%s", diff)
			}
			for _, trouble := range answer.trouble {
				t.Errorf("moto: %s", trouble)
			}
		})
	}
	t.Logf("moto must agree on %d of %d stories and is not believed about %d:\n%s",
		len(stories)-len(notBelieved), len(stories), len(notBelieved), strings.Join(notBelieved, "\n"))
}

// comparison returns what two interpreters must agree on: not how long it took,
// for moto's time is shortened, nor the wording of an interpreter's own errors.
func comparison(l telling) map[string]any {
	end := l.end
	if !strings.HasPrefix(end.Error, "Onceward.") {
		end.Cause = ""
	}
	var output any
	if json.Unmarshal([]byte(end.Output), &output) == nil {
		end.Output = "" // compared by its value
	}
	return map[string]any{"ways": l.ways, "end": end, "output": output, "report": l.report}
}

// allStories returns every story of testdata/scenarios.
func allStories(t *testing.T) []story {
	t.Helper()
	var all []story
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			all = append(all, readStory(t, d))
			return d.Expected // TestScenarios compares it
		})
	})
	return all
}

// storiesAtOnce keeps moto's one interpreter lock from making tasks late.
const storiesAtOnce = 8

// answer is what moto told of a story.
type answer struct {
	telling

	trouble []string
	err     error
}

// playAll plays the stories side by side; each answer comes on its own channel.
func (m *moto) playAll(ctx context.Context, stories []story) []chan answer {
	answers := make([]chan answer, len(stories))
	turns := make(chan struct{}, storiesAtOnce)
	for i, st := range stories {
		answers[i] = make(chan answer, 1)
		go func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			told, trouble, err := m.play(ctx, fmt.Sprintf("story%d", i), st)
			answers[i] <- answer{told, trouble, err}
		}()
	}
	return answers
}

// motoStory is a story that is being played on moto. Its machine has its name.
type motoStory struct {
	moto   *moto
	script *script

	mu   sync.Mutex
	late []func()
}

// longestWait is the TimeoutSeconds of the definition's wait for a decision.
const longestWait = 14 * 24 * time.Hour

// soon is when a bell rings that comes in time: moto's time is shortened, too.
const soon = 20 * time.Millisecond

// after calls f soon, or, when d is past every wait, once the wait is over: the
// next request shows that.
func (s *motoStory) after(d time.Duration, f func()) {
	if d < longestWait {
		time.AfterFunc(soon, f)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, f)
}

func (s *motoStory) ringLate() {
	s.mu.Lock()
	late := s.late
	s.late = nil
	s.mu.Unlock()
	for _, f := range late {
		f()
	}
}

// play plays one story on a machine of its own.
func (m *moto) play(ctx context.Context, name string, st story) (told telling, trouble []string, err error) {
	ctx, over := context.WithCancel(ctx)
	defer over()
	script, err := newScript(st.text)
	if err != nil {
		return telling{}, nil, err
	}
	s := &motoStory{moto: m, script: script}
	script.after, script.over = s.after, ctx.Done()
	script.ring = func(token string) error {
		_, err := m.client.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{TaskToken: &token, Output: aws.String(bell)})
		return refusal(err)
	}
	m.stories.Store(name, s)
	arn, err := s.start(ctx, name, st)
	if err != nil {
		return telling{}, nil, err
	}
	if err := s.wait(ctx); err != nil {
		return telling{}, nil, err
	}
	script.rings.Wait()
	told, err = s.tell(ctx, arn)
	return told, script.unexpected(), err
}

// refusal gives an error of the API the type that the local runner's has.
func refusal(err error) error {
	if refused, ok := errors.AsType[smithy.APIError](err); ok {
		return &stepfunctions.APIError{Type: refused.ErrorCode(), Message: refused.ErrorMessage()}
	}
	return err
}

func (s *motoStory) start(ctx context.Context, name string, st story) (executionARN string, err error) {
	made, err := s.moto.client.CreateStateMachine(ctx, &sfn.CreateStateMachineInput{
		Name: &name, Definition: aws.String(st.definition(name + "-")), RoleArn: aws.String(roleARN),
	})
	if err != nil {
		return "", err
	}
	s.script.machine = aws.ToString(made.StateMachineArn)
	begun, err := s.moto.client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: &s.script.machine, Name: aws.String(executionName), Input: &st.input})
	if err != nil {
		return "", err
	}
	return aws.ToString(begun.ExecutionArn), nil
}

// lookEvery is how often a story is looked at while it runs.
const lookEvery = 200 * time.Millisecond

// wait returns once no execution of the story's machine runs.
func (s *motoStory) wait(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		running, err := s.moto.client.ListExecutions(ctx, &sfn.ListExecutionsInput{StateMachineArn: &s.script.machine, StatusFilter: types.ExecutionStatusRunning})
		if err != nil {
			return err
		}
		if len(running.Executions) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *motoStory) tell(ctx context.Context, executionARN string) (telling, error) {
	end, err := s.moto.client.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: &executionARN})
	if err != nil {
		return telling{}, err
	}
	history, err := s.moto.client.GetExecutionHistory(ctx, &sfn.GetExecutionHistoryInput{ExecutionArn: &executionARN})
	if err != nil {
		return telling{}, err
	}
	var events []event
	for _, e := range history.Events {
		shown := event{ID: e.Id, Previous: e.PreviousEventId, Type: string(e.Type)}
		if entered := e.StateEnteredEventDetails; entered != nil {
			shown.Entered.Name, shown.Entered.Input = aws.ToString(entered.Name), aws.ToString(entered.Input)
		}
		if failed := e.TaskFailedEventDetails; failed != nil {
			shown.Failed.Error = aws.ToString(failed.Error)
		}
		if late := e.TaskTimedOutEventDetails; late != nil {
			shown.TimedOut.Error = aws.ToString(late.Error)
		}
		events = append(events, shown)
	}
	// The machine has its story's name here, and the one name on the local runner.
	output := strings.ReplaceAll(aws.ToString(end.Output), s.script.machine, machineARN)
	return tell(events, description{string(end.Status), output, aws.ToString(end.Error), aws.ToString(end.Cause)}, s.script), nil
}
