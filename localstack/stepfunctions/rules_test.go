package stepfunctions

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// invokeTask is a machine with one Task; extra are more fields of it.
func invokeTask(resource, extra string) string {
	return `{"StartAt":"T","States":{"T":{"Type":"Task","Resource":"arn:aws:states:::` + resource + `","Parameters":{"FunctionName":"f","Payload":{"retry.$":"$$.State.RetryCount"` +
		map[bool]string{true: `,"token.$":"$$.Task.Token"`}[strings.HasSuffix(resource, "Token")] + `}},` + extra + `"End":true}}}`
}

// functionF is an Invoker with the function f alone.
func functionF(do func(n int, payload map[string]any) (Invoked, error)) *scripted {
	n := 0
	var mu sync.Mutex
	return &scripted{functions: map[string]func(context.Context, map[string]any) (Invoked, error){
		"f": func(_ context.Context, payload map[string]any) (Invoked, error) {
			mu.Lock()
			n++
			call := n
			mu.Unlock()
			return do(call, payload)
		},
	}}
}

func TestRetryWaitsLongerEachTimeAndThenGivesUp(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		retry string
		calls int
		took  time.Duration
	}{
		"defaults":                            {`{"ErrorEquals":["Boom"]}`, 4, (1 + 2 + 4) * time.Second},
		"spelled out":                         {`{"ErrorEquals":["Boom"],"IntervalSeconds":3,"MaxAttempts":2,"BackoffRate":1.5,"JitterStrategy":"NONE"}`, 3, 7500 * time.Millisecond},
		"capped":                              {`{"ErrorEquals":["States.ALL"],"IntervalSeconds":10,"MaxAttempts":4,"MaxDelaySeconds":15}`, 5, (10 + 15 + 15 + 15) * time.Second},
		"never":                               {`{"ErrorEquals":["Boom"],"MaxAttempts":0},{"ErrorEquals":["States.ALL"]}`, 1, 0},
		"another error":                       {`{"ErrorEquals":["Other"]}`, 1, 0},
		"the second retrier":                  {`{"ErrorEquals":["Other"]},{"ErrorEquals":["States.TaskFailed"],"MaxAttempts":1}`, 2, time.Second},
		"the first that matches alone counts": {`{"ErrorEquals":["Boom"],"MaxAttempts":1},{"ErrorEquals":["States.ALL"],"MaxAttempts":5}`, 2, time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := functionF(func(int, map[string]any) (Invoked, error) { return lambdaError("Boom", "x") })
			bubble(t, f, nil, func(t *testing.T, r *Runner) {
				began := time.Now()
				out := run(t, r, invokeTask("lambda:invoke", `"Retry":[`+test.retry+`],`), `{}`)
				if out.Status != Failed || out.Error != "Boom" || !strings.Contains(out.Cause, `"errorMessage":"x"`) {
					t.Errorf("%s %s %s", out.Status, out.Error, out.Cause)
				}
				if took := time.Since(began); f.count("f") != test.calls || took != test.took {
					t.Errorf("%d calls in %s, want %d in %s", f.count("f"), took, test.calls, test.took)
				}
			})
		})
	}
}

func TestFullJitterNeverWaitsLongerThanWithoutJitter(t *testing.T) {
	t.Parallel()
	f := functionF(func(int, map[string]any) (Invoked, error) { return lambdaError("Boom", "x") })
	bubble(t, f, nil, func(t *testing.T, r *Runner) {
		began := time.Now()
		run(t, r, invokeTask("lambda:invoke", `"Retry":[{"ErrorEquals":["Boom"],"JitterStrategy":"FULL","IntervalSeconds":100}],`), `{}`)
		if took := time.Since(began); took <= 0 || took >= 700*time.Second || f.count("f") != 4 {
			t.Errorf("took %s in %d calls", took, f.count("f"))
		}
	})
}

func TestRetryCountReachesTheFunction(t *testing.T) {
	t.Parallel()
	var seen []string
	f := functionF(func(n int, payload map[string]any) (Invoked, error) {
		seen = append(seen, fmt.Sprint(payload["retry"]))
		if n < 3 {
			return lambdaError("Boom", "x")
		}
		return answerJSON(`"ok"`)
	})
	bubble(t, f, nil, func(t *testing.T, r *Runner) {
		out := run(t, r, invokeTask("lambda:invoke", `"Retry":[{"ErrorEquals":["Boom"]}],`), `{}`)
		if out.Status != Succeeded || strings.Join(seen, " ") != "0 1 2" {
			t.Errorf("%s %v", out.Status, seen)
		}
	})
}

func TestWhichNamesCatchWhichErrors(t *testing.T) {
	t.Parallel()
	large := `"` + strings.Repeat("ä", 131_072) + `"`
	errors := map[string]func() (Invoked, error){
		"Boom": func() (Invoked, error) { return lambdaError("Boom", "x") },
		"Lambda.Unknown": func() (Invoked, error) {
			return Invoked{FunctionError: "Unhandled", Payload: []byte(`RequestId: 1 Error`)}, nil
		},
		"Lambda.SdkClientException": func() (Invoked, error) { return Invoked{}, context.DeadlineExceeded },
		"Lambda.TooManyRequestsException": func() (Invoked, error) {
			return Invoked{}, &InvokeError{Name: "Lambda.TooManyRequestsException", Cause: "slow down"}
		},
		"States.DataLimitExceeded": func() (Invoked, error) { return answerJSON(large) },
	}
	tests := []struct {
		catch   string
		caught  bool
		raising string
	}{
		{"States.ALL", true, "Boom"},
		{"States.TaskFailed", true, "Boom"},
		{"Boom", true, "Boom"},
		{"Bo", false, "Boom"},
		{"States.Timeout", false, "Boom"},
		{"Lambda.Unknown", true, "Lambda.Unknown"},
		{"Lambda.SdkClientException", true, "Lambda.SdkClientException"},
		{"Lambda.TooManyRequestsException", true, "Lambda.TooManyRequestsException"},
		{"States.DataLimitExceeded", true, "States.DataLimitExceeded"},
		{"States.ALL", true, "States.DataLimitExceeded"},
	}
	for _, test := range tests {
		t.Run(test.catch+" for "+test.raising, func(t *testing.T) {
			t.Parallel()
			f := functionF(func(int, map[string]any) (Invoked, error) { return errors[test.raising]() })
			definition := `{"StartAt":"T","States":{"T":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName":"f"},
				"Catch":[{"ErrorEquals":["` + test.catch + `"],"ResultPath":"$.e","Next":"C"}],"End":true},"C":{"Type":"Succeed"}}}`
			bubble(t, f, nil, func(t *testing.T, r *Runner) {
				out := run(t, r, definition, `{"kept":1}`)
				if !test.caught {
					if out.Status != Failed || out.Error != test.raising {
						t.Errorf("%s %s", out.Status, out.Error)
					}
					return
				}
				if out.Status != Succeeded || path(t, out.Output, "e", "Error") != test.raising || fmt.Sprint(path(t, out.Output, "kept")) != "1" {
					t.Errorf("%s %s", out.Status, out.Output)
				}
			})
		})
	}
}

func TestStatesRuntimeIsNeitherRetriedNorCaught(t *testing.T) {
	t.Parallel()
	definition := `{"StartAt":"M","States":{"M":{"Type":"Map","ItemProcessor":{"StartAt":"P","States":{"P":{"Type":"Pass","InputPath":"$.no","End":true}}},
		"Retry":[{"ErrorEquals":["States.ALL"]}],"Catch":[{"ErrorEquals":["States.ALL"],"Next":"C"}],"Next":"C"},"C":{"Type":"Succeed"}}}`
	bubble(t, &scripted{}, nil, func(t *testing.T, r *Runner) {
		out := run(t, r, definition, `[{}]`)
		want := "An error occurred while executing the state 'P' (entered at the event id #5). Invalid path '$.no' : No results for path: $['no']"
		if out.Status != Failed || out.Error != "States.Runtime" || out.Cause != want {
			t.Errorf("%s %s %s", out.Status, out.Error, out.Cause)
		}
	})
}

func TestTaskTimeoutLeavesTheFunctionRunning(t *testing.T) {
	t.Parallel()
	var finished atomic.Bool
	f := &scripted{functions: map[string]func(context.Context, map[string]any) (Invoked, error){
		"f": func(ctx context.Context, _ map[string]any) (Invoked, error) {
			select {
			case <-time.After(time.Minute):
				finished.Store(true)
			case <-ctx.Done():
			}
			return answerJSON(`{}`)
		},
	}}
	bubble(t, f, nil, func(t *testing.T, r *Runner) {
		began := time.Now()
		out := run(t, r, invokeTask("lambda:invoke", `"TimeoutSeconds":10,`), `{}`)
		if out.Status != Failed || out.Error != "States.Timeout" || out.Cause != "" || time.Since(began) != 10*time.Second {
			t.Errorf("%s %s %q after %s", out.Status, out.Error, out.Cause, time.Since(began))
		}
		time.Sleep(time.Hour)
		if !finished.Load() {
			t.Error("the function was stopped with its task")
		}
		if diff := cmp.Diff("1 0 ExecutionStarted\n2 0 TaskStateEntered\n3 2 TaskScheduled\n4 3 TaskStarted\n5 4 TaskTimedOut\n6 5 ExecutionFailed\n", events(t, r, out.ExecutionARN)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestMachineTimeoutEndsTheExecutionAndItsTokens(t *testing.T) {
	t.Parallel()
	var token string
	f := functionF(func(_ int, payload map[string]any) (Invoked, error) {
		token = payload["token"].(string)
		return answerJSON(`{}`)
	})
	definition := strings.Replace(invokeTask("lambda:invoke.waitForTaskToken", ""), `{"StartAt"`, `{"TimeoutSeconds":30,"StartAt"`, 1)
	bubble(t, f, nil, func(t *testing.T, r *Runner) {
		out := run(t, r, definition, `{}`)
		if out.Status != TimedOut || out.Error != "" || *out.StopDate-out.StartDate != 30 {
			t.Errorf("%s %s", out.Status, out.Error)
		}
		_, err := r.SendTaskSuccess(SendTaskSuccessInput{TaskToken: token, Output: `{}`})
		wantAPIError(t, err, "TaskTimedOut")
		want := "1 0 ExecutionStarted\n2 0 TaskStateEntered\n3 2 TaskScheduled\n4 3 TaskStarted\n5 4 TaskSubmitted\n6 0 ExecutionTimedOut\n"
		if diff := cmp.Diff(want, events(t, r, out.ExecutionARN)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWaitScaleShortensWaitsAndRetriesButNoTimeout(t *testing.T) {
	t.Parallel()
	definition := `{"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":100,"Next":"U"},"U":{"Type":"Wait","TimestampPath":"$.at","Next":"T"},
		"T":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken","Parameters":{"FunctionName":"f","Payload":{"t.$":"$$.Task.Token"}},"TimeoutSeconds":50,
		"Retry":[{"ErrorEquals":["States.ALL"],"IntervalSeconds":100,"MaxAttempts":1}],"End":true}}}`
	f := functionF(func(int, map[string]any) (Invoked, error) { return answerJSON(`{}`) })
	bubble(t, f, &Options{WaitScale: 0.1}, func(t *testing.T, r *Runner) {
		began := time.Now()
		run(t, r, definition, `{"at":"`+began.Add(110*time.Second).UTC().Format(time.RFC3339)+`"}`)
		// 10 s, a tenth of what is then left (100 s), 50 s, 10 s, 50 s.
		if took := time.Since(began); took != 130*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestCloseLeavesAnExecutionWhereItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := functionF(func(int, map[string]any) (Invoked, error) { return answerJSON(`{}`) })
		r, err := New(f, nil)
		if err != nil {
			t.Fatal(err)
		}
		arn := start(t, r, create(t, r, invokeTask("lambda:invoke.waitForTaskToken", "")), "e", `{}`)
		synctest.Wait()
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if out := describe(t, r, arn); out.Status != Running {
			t.Errorf("status %s", out.Status)
		}
		_, err = r.StartExecution(StartExecutionInput{StateMachineARN: r.machineARN("m")})
		wantAPIError(t, err, "ServiceUnavailable")
	})
}

func TestCloseReportsAnInvokerThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := functionF(func(int, map[string]any) (Invoked, error) {
			<-release
			return answerJSON(`{}`)
		})
		r, err := New(f, nil)
		if err != nil {
			t.Fatal(err)
		}
		start(t, r, create(t, r, invokeTask("lambda:invoke", "")), "e", `{}`)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Close(ctx); err == nil {
			t.Error("Close did not say that a call still runs")
		}
		close(release)
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestHistoryLimitFailsTheExecutionWithItsLastEvent(t *testing.T) {
	t.Parallel()
	bubble(t, &scripted{}, nil, func(t *testing.T, r *Runner) {
		out := run(t, r, `{"StartAt":"A","States":{"A":{"Type":"Pass","Next":"B"},"B":{"Type":"Pass","Next":"A"}}}`, `{}`)
		if out.Status != Failed || out.Error != "States.Runtime" || out.Cause != "The execution reached the maximum number of history events (25000)." {
			t.Errorf("%s %s %s", out.Status, out.Error, out.Cause)
		}
		all := strings.Split(strings.TrimSpace(events(t, r, out.ExecutionARN)), "\n")
		if len(all) != 25_000 || all[24_999] != "25000 24999 ExecutionFailed" {
			t.Errorf("%d events, the last %s", len(all), all[len(all)-1])
		}
	})
}

func TestNumbersLeaveTheMachineAsTheyCame(t *testing.T) {
	t.Parallel()
	input := `{"a":9007199254740993,"b":1.0,"c":1E400,"d":-0,"e":0.10,"f":12345678901234567890123}`
	f := functionF(func(int, map[string]any) (Invoked, error) { return answerJSON(`{"n":9007199254740993}`) })
	definition := `{"StartAt":"P","States":{"P":{"Type":"Pass","ResultPath":"$.copy","Next":"T"},
		"T":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName":"f","Payload.$":"$"},"ResultSelector":{"n.$":"$.Payload.n","m.$":"States.MathAdd($.Payload.n, 1)"},"ResultPath":"$.r","End":true}}}`
	bubble(t, f, nil, func(t *testing.T, r *Runner) {
		out := run(t, r, definition, input)
		want := `{"a":9007199254740993,"b":1.0,"c":1E400,"copy":` + input + `,"d":-0,"e":0.10,"f":12345678901234567890123,"r":{"m":9007199254740994,"n":9007199254740993}}`
		if out.Output != want {
			t.Errorf("%s %s %s", out.Output, out.Error, out.Cause)
		}
	})
}

func TestOutputAboveTheLimitEndsTheExecution(t *testing.T) {
	t.Parallel()
	input := `{"a":"` + strings.Repeat("x", 200_000) + `"}`
	bubble(t, &scripted{}, nil, func(t *testing.T, r *Runner) {
		out := run(t, r, `{"StartAt":"P","States":{"P":{"Type":"Pass","ResultPath":"$.again","End":true}}}`, input)
		if out.Status != Failed || out.Error != "States.DataLimitExceeded" {
			t.Errorf("%s %s", out.Status, out.Error)
		}
	})
}

func TestStopExecutionAbortsAtOnceAndOnlyOnce(t *testing.T) {
	t.Parallel()
	bubble(t, &scripted{}, nil, func(t *testing.T, r *Runner) {
		arn := start(t, r, create(t, r, `{"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":5,"End":true}}}`), "e", `{}`)
		synctest.Wait()
		if _, err := r.StopExecution(StopExecutionInput{ExecutionARN: arn, Error: "E", Cause: "C"}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.StopExecution(StopExecutionInput{ExecutionARN: arn, Error: "Other"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		out := describe(t, r, arn)
		if out.Status != Aborted || out.Error != "E" || out.Cause != "C" {
			t.Errorf("%s %s %s", out.Status, out.Error, out.Cause)
		}
		if diff := cmp.Diff("1 0 ExecutionStarted\n2 0 WaitStateEntered\n3 0 ExecutionAborted\n", events(t, r, arn)); diff != "" {
			t.Error(diff)
		}
	})
}
