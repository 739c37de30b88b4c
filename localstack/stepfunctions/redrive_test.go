package stepfunctions

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/localstack/stepfunctions/history"
)

func redrive(t *testing.T, r *Runner, execution string) {
	t.Helper()
	if _, err := r.RedriveExecution(RedriveExecutionInput{ExecutionARN: execution}); err != nil {
		t.Fatal(err)
	}
}

// eitherWay runs a test without data, and with data and a death before each redrive.
func eitherWay(t *testing.T, invoker func() Invoker, test func(t *testing.T, h *host, redrive func(execution string))) {
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		bubble(t, invoker(), nil, func(t *testing.T, r *Runner) {
			test(t, &host{Runner: r, began: time.Now()}, func(execution string) { redrive(t, r, execution) })
		})
	})
	t.Run("from the journal", func(t *testing.T) {
		t.Parallel()
		restarts(t, invoker(), func(t *testing.T, h *host) {
			test(t, h, func(execution string) {
				h.dieFor(t, 0)
				redrive(t, h.Runner, execution)
				h.dieFor(t, 0)
			})
		})
	})
}

func TestRedriveGoesOnFromTheStateThatFailed(t *testing.T) {
	t.Parallel()
	definition := `{"StartAt":"P","States":{"P":{"Type":"Pass","ResultPath":"$.p","Result":1,"Next":"T"},` +
		`"T":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName":"f","Payload":{"redrives.$":"$$.Execution.RedriveCount","retry.$":"$$.State.RetryCount"}},` +
		`"Retry":[{"ErrorEquals":["Boom"],"IntervalSeconds":1,"MaxAttempts":1}],"ResultSelector":{"r.$":"$.Payload"},"ResultPath":"$.t","End":true}}}`
	invoker := func() Invoker {
		return functionF(func(n int, payload map[string]any) (Invoked, error) {
			if n < 6 { // two attempts, redriven, two more, redriven, one more
				return lambdaError("Boom", "n")
			}
			return answerJSON(toJSON(t, payload))
		})
	}
	eitherWay(t, invoker, func(t *testing.T, h *host, redrive func(string)) {
		arn := start(t, h.Runner, create(t, h.Runner, definition), "e", `{"in": 1}`)
		first := finish(t, h.Runner, arn)
		if first.Status != Failed || first.RedriveStatus != "REDRIVABLE" || first.RedriveStatusReason != "" {
			t.Fatalf("%+v", first)
		}
		time.Sleep(time.Hour)
		redrive(arn)
		if second := finish(t, h.Runner, arn); second.Error != "Boom" || second.RedriveCount != 1 || *second.RedriveDate != *first.StopDate+3600 {
			t.Fatalf("%+v", second)
		}
		redrive(arn)
		out := finish(t, h.Runner, arn)
		if want := `{"in":1,"p":1,"t":{"r":{"redrives":2,"retry":1}}}`; out.Output != want || out.RedriveCount != 2 || out.Input != `{"in": 1}` || out.Error != "" {
			t.Errorf("%+v", out)
		}
		want := `1 0 ExecutionStarted
2 0 PassStateEntered
3 2 PassStateExited
4 3 TaskStateEntered
5 4 TaskScheduled
6 5 TaskStarted
7 6 TaskFailed
8 7 TaskScheduled
9 8 TaskStarted
10 9 TaskFailed
11 10 ExecutionFailed
12 11 ExecutionRedriven
13 4 TaskScheduled
`
		if got := events(t, h.Runner, arn); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, " ExecutionSucceeded\n") {
			t.Error(cmp.Diff(want, got))
		}
		_, err := h.RedriveExecution(RedriveExecutionInput{ExecutionARN: arn})
		wantAPIError(t, err, codeExecutionNotRedrivable)
	})
}

func TestRedriveOfAMapRunsOnlyWhatDidNotSucceed(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	calls := map[string]map[string]int{}
	invoker := func() Invoker {
		return functionF(func(_ int, payload map[string]any) (Invoked, error) {
			run, index := payload["run"].(string), toJSON(t, payload["i"])
			mu.Lock()
			if calls[run] == nil {
				calls[run] = map[string]int{}
			}
			calls[run][index]++
			n := calls[run][index]
			mu.Unlock()
			switch {
			case index == "0":
				time.Sleep(time.Second)
			case index == "1" && n == 1:
				time.Sleep(2 * time.Second)
				return lambdaError("Boom", "x")
			case index == "2" && n == 1:
				time.Sleep(time.Minute) // aborted
			}
			return answerJSON(index)
		})
	}
	definition := `{"StartAt":"M","States":{"M":{"Type":"Map","MaxConcurrency":3,"ItemsPath":"$.items","ItemSelector":{"run.$":"$$.Execution.Name","i.$":"$$.Map.Item.Index"},
		"ItemProcessor":{"StartAt":"T","States":{"T":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName":"f","Payload.$":"$"},
		"ResultSelector":{"p.$":"$.Payload"},"End":true}}},"End":true}}}`
	n := 0
	eitherWay(t, invoker, func(t *testing.T, h *host, redrive func(string)) {
		mu.Lock()
		n++
		name := "e" + strconv.Itoa(n)
		mu.Unlock()
		arn := start(t, h.Runner, create(t, h.Runner, definition), name, `{"items":[1,2,3,4]}`)
		if out := finish(t, h.Runner, arn); out.Error != "Boom" {
			t.Fatalf("%+v", out)
		}
		time.Sleep(time.Hour) // the aborted iteration's function runs on and ends
		synctest.Wait()
		redrive(arn)
		out := finish(t, h.Runner, arn)
		if out.Output != `[{"p":0},{"p":1},{"p":2},{"p":3}]` {
			t.Errorf("%+v", out)
		}
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff(map[string]int{"0": 1, "1": 2, "2": 2, "3": calls[name]["3"]}, calls[name]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRedriveOfAMapWhoseResultsWereTooLargeRunsAllAgain(t *testing.T) {
	t.Parallel()
	large := `"` + strings.Repeat("x", 100_000) + `"`
	invoker := func() Invoker {
		return functionF(func(n int, _ map[string]any) (Invoked, error) {
			if n <= 3 {
				return answerJSON(large)
			}
			return answerJSON(`1`)
		})
	}
	eitherWay(t, invoker, func(t *testing.T, h *host, redrive func(string)) {
		arn := start(t, h.Runner, create(t, h.Runner, mapOver("", "")), "e", `[1,2,3]`)
		if out := finish(t, h.Runner, arn); out.Error != "States.DataLimitExceeded" {
			t.Fatalf("%+v", out)
		}
		redrive(arn)
		if out := finish(t, h.Runner, arn); out.Output != `[{"p":1},{"p":1},{"p":1}]` {
			t.Errorf("%s %s %s", out.Status, out.Error, out.Output)
		}
	})
}

func TestRedriveOfAStateWhoseResultDidNotFitCallsAgain(t *testing.T) {
	t.Parallel()
	invoker := func() Invoker {
		return functionF(func(n int, _ map[string]any) (Invoked, error) {
			if n == 1 {
				return answerJSON(`{}`)
			}
			return answerJSON(`{"wanted":true}`)
		})
	}
	eitherWay(t, invoker, func(t *testing.T, h *host, redrive func(string)) {
		arn := start(t, h.Runner, create(t, h.Runner, invokeTask("lambda:invoke", `"ResultSelector":{"w.$":"$.Payload.wanted"},`)), "e", `{}`)
		if out := finish(t, h.Runner, arn); out.Error != "States.ParameterPathFailure" && out.Error != "States.Runtime" {
			t.Fatalf("%+v", out)
		}
		redrive(arn)
		if out := finish(t, h.Runner, arn); out.Output != `{"w":true}` {
			t.Errorf("%s %s %s", out.Status, out.Error, out.Output)
		}
	})
}

func TestRedrivenWaitHasANewTokenAndTheOldOneIsDead(t *testing.T) {
	t.Parallel()
	eitherWay(t, func() Invoker { return &doorbell{} }, func(t *testing.T, h *host, redrive func(string)) {
		arn := start(t, h.Runner, create(t, h.Runner, waiting("")), "e", `{}`)
		synctest.Wait()
		old := lastToken(t, h.Runner, arn)
		if _, err := h.StopExecution(StopExecutionInput{ExecutionARN: arn}); err != nil {
			t.Fatal(err)
		}
		redrive(arn)
		synctest.Wait()
		fresh := lastToken(t, h.Runner, arn)
		_, err := h.SendTaskSuccess(success(old, `1`))
		wantAPIError(t, err, codeTaskTimedOut)
		if _, err := h.SendTaskSuccess(success(fresh, `2`)); err != nil || fresh == old {
			t.Fatal(err)
		}
		if out := finish(t, h.Runner, arn); out.Output != `2` {
			t.Errorf("%+v", out)
		}
	})
}

// lastToken reads the token of a waiting execution from its history.
func lastToken(t *testing.T, r *Runner, execution string) string {
	t.Helper()
	page, err := r.GetExecutionHistory(GetExecutionHistoryInput{ExecutionARN: execution, ReverseOrder: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Events {
		if details, ok := e["taskScheduledEventDetails"].(history.Scheduled); ok {
			return path(t, details.Parameters, "Payload", "token").(string)
		}
	}
	t.Fatalf("no token of %s", execution)
	return ""
}

func TestRedriveStartsTheTimesAnew(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		definition string
		status     Status
		again      time.Duration // from the redrive
	}{
		"execution": {`{"TimeoutSeconds":50,"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":60,"End":true}}}`, TimedOut, 50 * time.Second},
		"task":      {waiting(`"TimeoutSeconds":50,`), Failed, 50 * time.Second},
		"wait":      {`{"TimeoutSeconds":70,"StartAt":"V","States":{"V":{"Type":"Wait","Seconds":20,"Next":"W"},"W":{"Type":"Wait","Seconds":60,"End":true}}}`, Succeeded, 60 * time.Second},
		"timestamp": {`{"TimeoutSeconds":50,"StartAt":"W","States":{"W":{"Type":"Wait","Timestamp":"2000-01-01T00:01:00Z","End":true}}}`, Succeeded, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eitherWay(t, func() Invoker { return &doorbell{} }, func(t *testing.T, h *host, redrive func(string)) {
				arn := start(t, h.Runner, create(t, h.Runner, test.definition), "e", `{}`)
				finish(t, h.Runner, arn)
				time.Sleep(time.Hour)
				began := time.Now()
				redrive(arn)
				if out := finish(t, h.Runner, arn); out.Status != test.status || time.Since(began) != test.again {
					t.Errorf("%s %s after %s", out.Status, out.Error, time.Since(began))
				}
			})
		})
	}
}

func TestWhatCannotBeRedrivenSaysWhy(t *testing.T) {
	t.Parallel()
	failing := `{"StartAt":"F","States":{"F":{"Type":"Fail","Error":"E"}}}`
	bubble(t, &scripted{}, nil, func(t *testing.T, r *Runner) {
		machine := create(t, r, failing)
		arn := start(t, r, machine, "e", `{}`)
		finish(t, r, arn)
		time.Sleep(14 * 24 * time.Hour)
		redrive(t, r, arn) // on the last day
		if out := finish(t, r, arn); out.Error != "E" || out.RedriveCount != 1 {
			t.Errorf("%+v", out)
		}
		refused := func(reason string) {
			t.Helper()
			_, err := r.RedriveExecution(RedriveExecutionInput{ExecutionARN: arn})
			wantAPIError(t, err, codeExecutionNotRedrivable)
			if out := describe(t, r, arn); out.RedriveStatus != "NOT_REDRIVABLE" || out.RedriveStatusReason != reason {
				t.Errorf("%s: %s", out.RedriveStatus, out.RedriveStatusReason)
			}
		}
		time.Sleep(14*24*time.Hour + time.Second)
		refused("Execution redrivable period exceeded")
		time.Sleep(366 * 24 * time.Hour)
		refused("Execution has exceeded the max execution time")
		_, err := r.RedriveExecution(RedriveExecutionInput{ExecutionARN: arn + "x"})
		wantAPIError(t, err, codeExecutionDoesNotExist)
		_, err = r.RedriveExecution(RedriveExecutionInput{ExecutionARN: "x"})
		wantAPIError(t, err, codeInvalidARN)

		arn = start(t, r, machine, "other", `{}`)
		finish(t, r, arn)
		r.maxOpen = 0
		_, err = r.RedriveExecution(RedriveExecutionInput{ExecutionARN: arn})
		wantAPIError(t, err, codeExecutionLimitExceeded)
		_, err = r.StartExecution(StartExecutionInput{StateMachineARN: machine})
		wantAPIError(t, err, codeExecutionLimitExceeded)
	})
}

func TestExecutionWithAFullHistoryIsNotRedrivable(t *testing.T) {
	t.Parallel()
	bubble(t, &scripted{}, nil, func(t *testing.T, r *Runner) {
		out := run(t, r, `{"StartAt":"A","States":{"A":{"Type":"Choice","Choices":[{"Variable":"$","IsPresent":true,"Next":"B"}]},"B":{"Type":"Pass","Next":"A"}}}`, `{}`)
		if out.Error != "States.Runtime" || out.RedriveStatusReason != "Execution history event limit exceeded" {
			t.Errorf("%+v", out)
		}
	})
}

func TestSameClientTokenIsOneRedriveForFifteenMinutes(t *testing.T) {
	t.Parallel()
	eitherWay(t, func() Invoker { return &scripted{} }, func(t *testing.T, h *host, _ func(string)) {
		arn := start(t, h.Runner, create(t, h.Runner, `{"StartAt":"F","States":{"F":{"Type":"Fail"}}}`), "e", `{}`)
		finish(t, h.Runner, arn)
		in := RedriveExecutionInput{ExecutionARN: arn, ClientToken: new("c")}
		first, err := h.RedriveExecution(in)
		if err != nil {
			t.Fatal(err)
		}
		finish(t, h.Runner, arn)
		if h.invoker != nil {
			h.dieFor(t, 0)
		}
		time.Sleep(14 * time.Minute)
		if again, err := h.RedriveExecution(in); err != nil || again != first || describe(t, h.Runner, arn).RedriveCount != 1 {
			t.Errorf("%+v %v", again, err)
		}
		time.Sleep(time.Minute)
		if _, err := h.RedriveExecution(in); err != nil || finish(t, h.Runner, arn).RedriveCount != 2 {
			t.Errorf("%v", err)
		}
	})
}

func TestSDKRedrivesAnExecution(t *testing.T) {
	t.Parallel()
	f := functionF(func(n int, _ map[string]any) (Invoked, error) {
		if n == 1 {
			return lambdaError("Boom", "x")
		}
		return answerJSON(`{"ok":true}`)
	})
	client := sdkClient(t, f)
	ctx := t.Context()
	machine := sdkMachine(t, client, invokeTask("lambda:invoke", ""))
	begun, err := client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: machine, Name: aws.String("e")})
	if err != nil {
		t.Fatal(err)
	}
	if out := awaitEnd(t, client, begun.ExecutionArn); out.RedriveStatus != types.ExecutionRedriveStatusRedrivable || out.RedriveDate != nil {
		t.Errorf("%+v", out)
	}
	redriven, err := client.RedriveExecution(ctx, &sfn.RedriveExecutionInput{ExecutionArn: begun.ExecutionArn})
	if err != nil {
		t.Fatal(err)
	}
	if out := awaitEnd(t, client, begun.ExecutionArn); out.Status != types.ExecutionStatusSucceeded || *out.RedriveCount != 1 || !out.RedriveDate.Equal(*redriven.RedriveDate) {
		t.Errorf("%+v", out)
	}
	_, err = client.RedriveExecution(ctx, &sfn.RedriveExecutionInput{ExecutionArn: begun.ExecutionArn})
	wantType[*types.ExecutionNotRedrivable](t, err)
	_, err = client.RedriveExecution(ctx, &sfn.RedriveExecutionInput{ExecutionArn: aws.String(*begun.ExecutionArn + "x")})
	wantType[*types.ExecutionDoesNotExist](t, err)
	list, err := client.ListExecutions(ctx, &sfn.ListExecutionsInput{StateMachineArn: machine, RedriveFilter: types.ExecutionRedriveFilterRedriven})
	if err != nil || len(list.Executions) != 1 || *list.Executions[0].RedriveCount != 1 {
		t.Errorf("%+v %v", list, err)
	}
	told, err := client.GetExecutionHistory(ctx, &sfn.GetExecutionHistoryInput{ExecutionArn: begun.ExecutionArn})
	if err != nil || told.Events[6].ExecutionRedrivenEventDetails == nil || *told.Events[6].ExecutionRedrivenEventDetails.RedriveCount != 1 {
		t.Errorf("%+v %v", told, err)
	}
}
