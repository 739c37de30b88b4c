package stepfunctions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
	"github.com/onceward/onceward/localstack/stepfunctions/history"
	"github.com/onceward/onceward/localstack/stepfunctions/interpreter"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// call makes the call of a Task state and waits for its end.
func (v *visit) call(ctx context.Context, call interpreter.Call, wait *waiter) ending {
	resource := resourceOf(call.Resource)
	scheduled := v.note(v.p.last, history.TaskScheduled, history.Scheduled{
		Resource: resource, Region: v.x.runner.options.Region, Parameters: jsonvalue.MustEncode(call.Parameters),
		TimeoutInSeconds: int64(call.Timeout / time.Second), HeartbeatInSeconds: int64(call.Heartbeat / time.Second),
	})
	if wait != nil {
		scheduled.Token, scheduled.wait = wait.token, wait
	}
	// Stored now: the call, with its token. If we stop after, nobody knows whether
	// it was made.
	if end := v.commit(scheduled, v.note(history.Chain, history.TaskStarted, history.Begun{Resource: resource})); end.stopped || ctx.Err() != nil {
		return v.stopped()
	}
	return v.await(ctx, v.perform(call))
}

// perform makes the call.
func (v *visit) perform(call interpreter.Call) <-chan outcome {
	outcomes := make(chan outcome, 1)
	by := v.x.arn + "#" + strconv.FormatInt(v.p.task.event, 10)
	v.x.runner.spawn(func(ctx context.Context) {
		// The context is the runner's: a task that times out can't stop the function, as on AWS.
		outcomes <- v.x.runner.perform(ctx, call, by)
	})
	return outcomes
}

// takeUp goes on with a task whose call was made by a Runner that is gone. If
// nothing tells that the call has ended, nobody knows whether a function ran.
// Whether an execution was started this Runner knows itself: it may ask again.
func (v *visit) takeUp(ctx context.Context) ending {
	task := v.p.task
	if task.submitted {
		return v.await(ctx, nil)
	}
	resource := v.state.(*asl.Task).Resource
	if parameters, err := jsonvalue.Decode([]byte(task.scheduled.Parameters)); err == nil && resource == asl.StartExecution {
		return v.await(ctx, v.perform(interpreter.Call{Resource: resource, Parameters: parameters.(map[string]any)}))
	}
	return v.unlessAnswered(func() ending {
		return v.finished(failed(ErrorSdkClient, "Unable to execute HTTP request: the runner stopped while the call was in progress"))
	})
}

// await waits for whatever ends the task first.
func (v *visit) await(ctx context.Context, outcomes <-chan outcome) ending {
	task := v.p.task
	var answers <-chan answer
	var beats <-chan struct{}
	if task.wait != nil {
		answers, beats = task.wait.answers, task.wait.beats
		defer v.x.runner.tokens.release(task.wait)
	}
	v.x.mu.Lock()
	timeoutAt, heartbeatAt := task.deadlines()
	v.x.mu.Unlock()
	timeout, heartbeat := v.x.runner.timer(timeoutAt), v.x.runner.timer(heartbeatAt)
	defer timeout.stop()
	defer heartbeat.stop()
	for {
		select {
		case <-ctx.Done():
			return v.stopped()
		case a := <-answers:
			return v.answered(a)
		case <-beats:
			heartbeat.reset(time.Duration(task.scheduled.HeartbeatInSeconds) * time.Second)
		case <-timeout.fired:
			return v.unlessAnswered(func() ending { return v.timedOut(asl.ErrorTimeout) })
		case <-heartbeat.fired:
			return v.unlessAnswered(func() ending { return v.timedOut(asl.ErrorHeartbeatTimeout) })
		case o := <-outcomes:
			switch {
			case o.failure != nil && ctx.Err() != nil:
				return v.stopped() // the call was cancelled with the Runner: what became of it is unknown
			case task.wait == nil:
				return v.finished(o)
			case o.failure != nil:
				return v.unlessAnswered(func() ending { return v.finished(o) })
			}
			if end := v.commit(v.result(history.TaskSubmitted, o.result)); end.stopped {
				return end
			}
			outcomes = nil
		}
	}
}

// unlessAnswered closes the token; if an answer came before, that counts.
func (v *visit) unlessAnswered(otherwise func() ending) ending {
	if wait := v.p.task.wait; wait != nil {
		if a, ok := v.x.runner.tokens.close(wait); ok {
			return v.answered(a)
		}
	}
	return otherwise()
}

func (v *visit) answered(a answer) ending {
	if a.Failure != nil {
		return v.failed(history.TaskFailed, a.Failure)
	}
	output, err := jsonvalue.Decode([]byte(a.Output))
	if err != nil {
		panic(err) // it was checked when it came in
	}
	return v.finished(outcome{result: output})
}

func (v *visit) finished(o outcome) ending {
	if o.failure != nil {
		return v.failed(history.TaskFailed, o.failure)
	}
	// Stored now: the result. If we stop before, the call counts as lost, an
	// answer to the token still stands.
	return v.commit(v.result(history.TaskSucceeded, o.result))
}

func (v *visit) timedOut(name string) ending {
	return v.failed(history.TaskTimedOut, interpreter.NewFailure(name, ""))
}

func (v *visit) failed(kind history.Type, failure *interpreter.Failure) ending {
	r := v.note(v.p.last, kind, history.Problem{Resource: v.p.task.scheduled.Resource, Type: kind, Error: failure.Error, Cause: failure.Cause})
	r.Failure = failure
	return v.commit(r)
}

func (v *visit) result(kind history.Type, value any) record {
	r := v.note(v.p.last, kind, history.Result{
		Resource: v.p.task.scheduled.Resource, Type: kind, Output: jsonvalue.MustEncode(value), OutputDetails: history.Whole(),
	})
	r.value = value
	return r
}

// perform does what the resource says.
func (r *Runner) perform(ctx context.Context, call interpreter.Call, by string) outcome {
	if call.Resource == asl.StartExecution {
		return r.startFromTask(call.Parameters, by)
	}
	return r.invoke(ctx, call.Parameters)
}

// startFromTask is arn:aws:states:::states:startExecution.
func (r *Runner) startFromTask(parameters map[string]any, by string) outcome {
	// A name that only this call gives, so that asking again finds what it started.
	in := StartExecutionInput{Input: new("{}"), Name: new(uuid.NewSHA1(uuid.NameSpaceURL, []byte(by)).String())}
	in.StateMachineARN, _ = parameters["StateMachineArn"].(string)
	if name, ok := parameters["Name"].(string); ok {
		in.Name = &name
	}
	if input, given := parameters["Input"]; given {
		in.Input = new(jsonvalue.MustEncode(input))
	}
	requestID := uuid.NewString()
	out, err := r.startExecution(in, by)
	if err != nil {
		refused, ok := errors.AsType[*APIError](err)
		if !ok {
			return failed("StepFunctions.SdkClientException", err.Error())
		}
		return failed("StepFunctions."+refused.Type+"Exception", fmt.Sprintf("%s (Service: AWSStepFunctions; Status Code: %d; Error Code: %s; Request ID: %s; Proxy: null)",
			refused.Message, refused.Status, refused.Type, requestID))
	}
	header := http.Header{"Content-Type": {contentType}, "X-Amzn-Requestid": {requestID}}
	result := sdkMetadata(http.StatusOK, header, requestID)
	result["ExecutionArn"] = out.ExecutionARN
	result["StartDate"] = json.Number(strconv.FormatFloat(out.StartDate, 'f', 3, 64))
	return outcome{result: result}
}

// resourceOf splits a resource into the two names that histories show.
func resourceOf(resource asl.Resource) history.Resource {
	rest := strings.TrimPrefix(string(resource), "arn:aws:states:::")
	service, action, _ := strings.Cut(rest, ":")
	return history.Resource{ResourceType: service, Resource: action}
}
