package stepfunctions

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// doorbell is a function that keeps the tokens which it is given.
type doorbell struct {
	mu     sync.Mutex
	tokens []string
	then   func(ctx context.Context, n int, token string) (Invoked, error)
}

func (d *doorbell) Invoke(ctx context.Context, call Invocation) (Invoked, error) {
	token := strings.Split(string(call.Payload), `"`)
	d.mu.Lock()
	d.tokens = append(d.tokens, token[len(token)-2])
	n := len(d.tokens)
	d.mu.Unlock()
	if d.then != nil {
		return d.then(ctx, n, token[len(token)-2])
	}
	return answerJSON(`"parked"`)
}

func (d *doorbell) token(n int) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tokens[n]
}

func waiting(extra string) string { return invokeTask("lambda:invoke.waitForTaskToken", extra) }

func success(token, output string) SendTaskSuccessInput {
	return SendTaskSuccessInput{TaskToken: token, Output: output}
}

func TestOnlyTheFirstAnswerToATokenCounts(t *testing.T) {
	t.Parallel()
	d := &doorbell{}
	bubble(t, d, nil, func(t *testing.T, r *Runner) {
		arn := start(t, r, create(t, r, waiting("")), "e", `{}`)
		synctest.Wait()
		if _, err := r.SendTaskSuccess(success(d.token(0), `{"n":1}`)); err != nil {
			t.Fatal(err)
		}
		_, err := r.SendTaskSuccess(success(d.token(0), `{"n":2}`))
		wantAPIError(t, err, "TaskTimedOut")
		out := finish(t, r, arn)
		if out.Output != `{"n":1}` {
			t.Errorf("output %s", out.Output)
		}
		_, err = r.SendTaskFailure(SendTaskFailureInput{TaskToken: d.token(0)})
		wantAPIError(t, err, "TaskTimedOut")
		_, err = r.SendTaskHeartbeat(SendTaskHeartbeatInput{TaskToken: d.token(0)})
		wantAPIError(t, err, "TaskTimedOut")
		want := "1 0 ExecutionStarted\n2 0 TaskStateEntered\n3 2 TaskScheduled\n4 3 TaskStarted\n5 4 TaskSubmitted\n6 5 TaskSucceeded\n7 6 TaskStateExited\n8 7 ExecutionSucceeded\n"
		if diff := cmp.Diff(want, events(t, r, arn)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOneOfManyRacingAnswersWins(t *testing.T) {
	t.Parallel()
	d := &doorbell{}
	bubble(t, d, nil, func(t *testing.T, r *Runner) {
		arn := start(t, r, create(t, r, waiting("")), "e", `{}`)
		synctest.Wait()
		var won atomic.Int64
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := r.SendTaskSuccess(success(d.token(0), `{}`)); err == nil {
					won.Add(1)
				} else {
					wantAPIError(t, err, "TaskTimedOut")
				}
			})
		}
		all.Wait()
		if out := finish(t, r, arn); won.Load() != 1 || out.Status != Succeeded {
			t.Errorf("%d answers accepted, %s", won.Load(), out.Status)
		}
	})
}

func TestUnknownAndMalformedTokensAreInvalid(t *testing.T) {
	t.Parallel()
	d := &doorbell{}
	bubble(t, d, nil, func(t *testing.T, r *Runner) {
		start(t, r, create(t, r, waiting("")), "e", `{}`)
		synctest.Wait()
		token := d.token(0)
		flipped := "B" + token[1:]
		if token[0] == 'B' {
			flipped = "A" + token[1:]
		}
		for _, wrong := range []string{"made up", token[:len(token)-4], flipped, token + token[:4]} {
			_, err := r.SendTaskSuccess(success(wrong, `{}`))
			wantAPIError(t, err, "InvalidToken")
		}
		_, err := r.SendTaskSuccess(success("", `{}`))
		wantAPIError(t, err, "ValidationException")
		_, err = r.SendTaskSuccess(success(strings.Repeat("a", 2049), `{}`))
		wantAPIError(t, err, "ValidationException")
		if _, err := r.SendTaskSuccess(success(token, `{}`)); err != nil {
			t.Errorf("the true token after all that: %v", err)
		}
	})
}

func TestAnswerThatIsNoJSONLeavesTheTokenOpen(t *testing.T) {
	t.Parallel()
	d := &doorbell{}
	bubble(t, d, nil, func(t *testing.T, r *Runner) {
		arn := start(t, r, create(t, r, waiting("")), "e", `{}`)
		synctest.Wait()
		for _, output := range []string{"", "nope", `{} {}`, `"` + strings.Repeat("x", 262_143) + `"`} {
			_, err := r.SendTaskSuccess(success(d.token(0), output))
			wantAPIError(t, err, "InvalidOutput")
		}
		_, err := r.SendTaskFailure(SendTaskFailureInput{TaskToken: d.token(0), Error: strings.Repeat("e", 257)})
		wantAPIError(t, err, "ValidationException")
		if _, err := r.SendTaskSuccess(success(d.token(0), `"`+strings.Repeat("x", 262_142)+`"`)); err != nil {
			t.Fatal(err)
		}
		if out := finish(t, r, arn); out.Status != Succeeded {
			t.Errorf("%s %s", out.Status, out.Error)
		}
	})
}

func TestTokenDiesWithItsTask(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		extra string
		then  func(context.Context, int, string) (Invoked, error)
		stop  bool
		error string
	}{
		"timeout":      {extra: `"TimeoutSeconds":5,`, error: "States.Timeout"},
		"no heartbeat": {extra: `"HeartbeatSeconds":5,`, error: "States.HeartbeatTimeout"},
		"function error": {
			then:  func(context.Context, int, string) (Invoked, error) { return lambdaError("Boom", "x") },
			error: "Boom",
		},
		"execution stopped": {stop: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &doorbell{then: test.then}
			bubble(t, d, nil, func(t *testing.T, r *Runner) {
				arn := start(t, r, create(t, r, waiting(test.extra)), "e", `{}`)
				synctest.Wait()
				if test.stop {
					if _, err := r.StopExecution(StopExecutionInput{ExecutionARN: arn}); err != nil {
						t.Fatal(err)
					}
				}
				if out := finish(t, r, arn); out.Error != test.error {
					t.Errorf("error %s", out.Error)
				}
				_, err := r.SendTaskSuccess(success(d.token(0), `{}`))
				wantAPIError(t, err, "TaskTimedOut")
			})
		})
	}
}

func TestRetryOfAWaitMakesANewTokenAndKillsTheOldOne(t *testing.T) {
	t.Parallel()
	d := &doorbell{}
	bubble(t, d, nil, func(t *testing.T, r *Runner) {
		arn := start(t, r, create(t, r, waiting(`"Retry":[{"ErrorEquals":["Again"]}],`)), "e", `{}`)
		synctest.Wait()
		if _, err := r.SendTaskFailure(SendTaskFailureInput{TaskToken: d.token(0), Error: "Again"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		_, err := r.SendTaskSuccess(success(d.token(0), `{}`))
		wantAPIError(t, err, "TaskTimedOut")
		if _, err := r.SendTaskSuccess(success(d.token(1), `{}`)); err != nil {
			t.Fatal(err)
		}
		finish(t, r, arn)
	})
}

func TestHeartbeatsKeepATaskAliveUpToItsTimeout(t *testing.T) {
	t.Parallel()
	d := &doorbell{}
	bubble(t, d, nil, func(t *testing.T, r *Runner) {
		began := time.Now()
		arn := start(t, r, create(t, r, waiting(`"HeartbeatSeconds":10,"TimeoutSeconds":60,`)), "e", `{}`)
		for range 6 {
			time.Sleep(9 * time.Second)
			if _, err := r.SendTaskHeartbeat(SendTaskHeartbeatInput{TaskToken: d.token(0)}); err != nil {
				t.Fatal(err)
			}
		}
		if out := finish(t, r, arn); out.Error != "States.Timeout" || time.Since(began) != time.Minute {
			t.Errorf("%s after %s", out.Error, time.Since(began))
		}
	})
}

func TestMissedHeartbeatIsCaughtAsATimeoutButNotAsATaskFailure(t *testing.T) {
	t.Parallel()
	d := &doorbell{}
	definition := `{"StartAt":"T","States":{"T":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken","Parameters":{"FunctionName":"f","Payload":{"t.$":"$$.Task.Token"}},
		"HeartbeatSeconds":3,"Catch":[{"ErrorEquals":["States.TaskFailed"],"Next":"No"},{"ErrorEquals":["States.Timeout"],"Next":"Yes"}],"End":true},
		"Yes":{"Type":"Succeed"},"No":{"Type":"Fail"}}}`
	bubble(t, d, nil, func(t *testing.T, r *Runner) {
		out := run(t, r, definition, `{}`)
		if out.Output != `{"Cause":"","Error":"States.HeartbeatTimeout"}` {
			t.Errorf("%s %s", out.Status, out.Output)
		}
	})
}

func TestAnswerBeforeTheFunctionReturnsIsHonoured(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func() (Invoked, error){
		"returns": func() (Invoked, error) { return answerJSON(`{}`) },
		"fails":   func() (Invoked, error) { return lambdaError("Boom", "x") },
		"is lost": func() (Invoked, error) { return Invoked{}, context.DeadlineExceeded },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &doorbell{}
			bubble(t, d, nil, func(t *testing.T, r *Runner) {
				d.then = func(_ context.Context, _ int, token string) (Invoked, error) {
					if _, err := r.SendTaskSuccess(success(token, `"early"`)); err != nil {
						t.Error(err)
					}
					return after()
				}
				arn := start(t, r, create(t, r, waiting("")), "e", `{}`)
				if out := finish(t, r, arn); out.Output != `"early"` {
					t.Errorf("%s %s %s", out.Status, out.Output, out.Error)
				}
			})
		})
	}
}

func TestFailureWithoutANameIsCaughtAsNull(t *testing.T) {
	t.Parallel()
	d := &doorbell{}
	definition := `{"StartAt":"T","States":{"T":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken","Parameters":{"FunctionName":"f","Payload":{"t.$":"$$.Task.Token"}},
		"Catch":[{"ErrorEquals":["States.ALL"],"Next":"C"}],"End":true},"C":{"Type":"Succeed"}}}`
	bubble(t, d, nil, func(t *testing.T, r *Runner) {
		arn := start(t, r, create(t, r, definition), "e", `{}`)
		synctest.Wait()
		if _, err := r.SendTaskFailure(SendTaskFailureInput{TaskToken: d.token(0)}); err != nil {
			t.Fatal(err)
		}
		if out := finish(t, r, arn); out.Output != `{"Cause":null,"Error":null}` {
			t.Errorf("%s", out.Output)
		}
	})
}
