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

// task is a call in progress.
type task struct {
	x        *execution
	resource history.Resource
	wait     *waiter // nil unless the task waits for its token
	last     int64
}

// call makes the call of a Task state and waits for its end.
func (x *execution) call(ctx context.Context, call interpreter.Call, wait *waiter, last int64) ending {
	t := &task{x: x, resource: resourceOf(call.Resource), wait: wait, last: last}
	scheduled := history.Scheduled{
		Resource: t.resource, Region: x.runner.options.Region, Parameters: jsonvalue.MustEncode(call.Parameters),
		TimeoutInSeconds: int64(call.Timeout / time.Second), HeartbeatInSeconds: int64(call.Heartbeat / time.Second),
	}
	if !t.record(history.TaskScheduled, scheduled) || !t.record(history.TaskStarted, history.Begun{Resource: t.resource}) || ctx.Err() != nil {
		return t.stopped()
	}
	outcomes := make(chan outcome, 1)
	x.runner.spawn(func(ctx context.Context) {
		// The context is the runner's: a task that times out can't stop the function, as on AWS.
		outcomes <- x.runner.perform(ctx, call)
	})
	return t.await(ctx, call, outcomes)
}

// await waits for whatever ends the task first.
func (t *task) await(ctx context.Context, call interpreter.Call, outcomes <-chan outcome) ending {
	var answers <-chan answer
	var beats <-chan struct{}
	if t.wait != nil {
		answers, beats = t.wait.answers, t.wait.beats
	}
	timeout, heartbeat := newTimer(call.Timeout), newTimer(call.Heartbeat)
	defer timeout.stop()
	defer heartbeat.stop()
	for {
		select {
		case <-ctx.Done():
			return t.stopped()
		case a := <-answers:
			return t.answered(a)
		case <-beats:
			heartbeat.reset(call.Heartbeat)
		case <-timeout.fired:
			return t.unlessAnswered(func() ending { return t.timedOut(asl.ErrorTimeout) })
		case <-heartbeat.fired:
			return t.unlessAnswered(func() ending { return t.timedOut(asl.ErrorHeartbeatTimeout) })
		case o := <-outcomes:
			switch {
			case t.wait == nil:
				return t.finished(o)
			case o.failure != nil:
				return t.unlessAnswered(func() ending { return t.finished(o) })
			case !t.record(history.TaskSubmitted, t.result(history.TaskSubmitted, o.result)):
				return t.stopped()
			}
			outcomes = nil
		}
	}
}

// unlessAnswered closes the token; if an answer came before, that counts.
func (t *task) unlessAnswered(otherwise func() ending) ending {
	if t.wait != nil {
		if a, ok := t.x.runner.tokens.close(t.wait); ok {
			return t.answered(a)
		}
	}
	return otherwise()
}

func (t *task) answered(a answer) ending {
	return t.finished(outcome{result: a.output, failure: a.failure})
}

func (t *task) finished(o outcome) ending {
	if o.failure != nil {
		return t.failed(history.TaskFailed, o.failure)
	}
	if !t.record(history.TaskSucceeded, t.result(history.TaskSucceeded, o.result)) {
		return t.stopped()
	}
	return ending{output: o.result, last: t.last}
}

func (t *task) timedOut(name string) ending {
	return t.failed(history.TaskTimedOut, interpreter.NewFailure(name, ""))
}

func (t *task) failed(kind history.Type, failure *interpreter.Failure) ending {
	if !t.record(kind, history.Problem{Resource: t.resource, Type: kind, Error: failure.Error, Cause: failure.Cause}) {
		return t.stopped()
	}
	return ending{failure: failure, last: t.last}
}

func (t *task) stopped() ending { return ending{stopped: true, last: t.last} }

func (t *task) record(kind history.Type, details history.Details) bool {
	id, ok := t.x.record(t.last, kind, details)
	if ok {
		t.last = id
	}
	return ok
}

func (t *task) result(kind history.Type, value any) history.Result {
	return history.Result{Resource: t.resource, Type: kind, Output: jsonvalue.MustEncode(value), OutputDetails: history.Whole()}
}

// perform does what the resource says.
func (r *Runner) perform(ctx context.Context, call interpreter.Call) outcome {
	if call.Resource == asl.StartExecution {
		return r.startFromTask(call.Parameters)
	}
	return r.invoke(ctx, call.Parameters)
}

// startFromTask is arn:aws:states:::states:startExecution.
func (r *Runner) startFromTask(parameters map[string]any) outcome {
	in := StartExecutionInput{Input: new("{}")}
	in.StateMachineARN, _ = parameters["StateMachineArn"].(string)
	if name, ok := parameters["Name"].(string); ok {
		in.Name = &name
	}
	if input, given := parameters["Input"]; given {
		in.Input = new(jsonvalue.MustEncode(input))
	}
	requestID := uuid.NewString()
	out, err := r.StartExecution(in)
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

// optionalTimer never fires if its duration is 0.
type optionalTimer struct {
	timer *time.Timer
	fired <-chan time.Time
}

func newTimer(d time.Duration) *optionalTimer {
	if d <= 0 {
		return &optionalTimer{}
	}
	timer := time.NewTimer(d)
	return &optionalTimer{timer: timer, fired: timer.C}
}

func (o *optionalTimer) reset(d time.Duration) {
	if o.timer != nil {
		o.timer.Reset(d)
	}
}

func (o *optionalTimer) stop() {
	if o.timer != nil {
		o.timer.Stop()
	}
}
