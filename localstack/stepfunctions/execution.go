package stepfunctions

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
	"github.com/onceward/onceward/localstack/stepfunctions/history"
	"github.com/onceward/onceward/localstack/stepfunctions/interpreter"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// Status is the status of an execution.
type Status string

// The statuses of executions.
const (
	Running   Status = "RUNNING"
	Succeeded Status = "SUCCEEDED"
	Failed    Status = "FAILED"
	TimedOut  Status = "TIMED_OUT"
	Aborted   Status = "ABORTED"
)

// execution is one run of a machine. Its definition is the one that the
// machine had when it started.
type execution struct {
	runner     *Runner
	definition *asl.Machine
	machine    *machine
	roleARN    string
	arn, name  string
	input      string // as it was given
	value      any    // the input, decoded
	trace      string
	started    time.Time
	log        *history.Log
	stop       chan struct{} // closed when the execution has ended

	mu      sync.Mutex
	status  Status
	stopped time.Time
	output  string
	failure history.Ended
}

// run drives the execution to its end. If ctx ends first it stays RUNNING: the
// Runner was closed under it.
func (x *execution) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x.runner.spawn(func(context.Context) { x.watch(ctx, cancel) })
	end := x.workflow(ctx, &x.definition.Workflow, x.value, 0, nil)
	switch {
	case end.stopped:
	case end.failure != nil:
		x.fail(end.last, end.failure)
	default:
		x.end(Succeeded, end.last, history.Ended{}, jsonvalue.MustEncode(end.output))
	}
}

// watch stops the work when the execution ends or its time is over.
func (x *execution) watch(ctx context.Context, cancel context.CancelFunc) {
	limit := newTimer(x.definition.Timeout)
	defer limit.stop()
	select {
	case <-ctx.Done():
	case <-limit.fired:
		x.end(TimedOut, 0, history.Ended{Type: history.ExecutionTimedOut}, "")
		cancel()
	case <-x.stop:
		cancel()
	}
}

func (x *execution) fail(last int64, failure *interpreter.Failure) {
	x.end(Failed, last, history.Ended{Type: history.ExecutionFailed, Error: failure.Error, Cause: failure.Cause}, "")
}

// end closes the execution once: whoever comes first says how it ended. From
// then on nothing is recorded and no token of it can be answered.
func (x *execution) end(status Status, last int64, ended history.Ended, output string) {
	x.mu.Lock()
	if x.status != Running {
		x.mu.Unlock()
		return
	}
	if status == Succeeded {
		x.log.Seal(last, history.ExecutionSucceeded, history.Succeeded{Output: output, OutputDetails: history.Whole()})
	} else {
		x.log.Seal(last, ended.Type, ended)
	}
	x.status, x.output, x.failure, x.stopped = status, output, ended, x.runner.options.Now()
	x.mu.Unlock()
	x.runner.tokens.closeExecution(x.arn)
	close(x.stop)
	x.runner.ended(x)
	x.runner.options.Logger.LogAttrs(context.Background(), slog.LevelInfo, "execution ended",
		slog.String("execution", x.arn), slog.String("status", string(status)), slog.String("error", ended.Error))
}

// record adds an event. It reports false when the execution has ended, also by
// this very event being one too many.
func (x *execution) record(previous int64, kind history.Type, details history.Details) (int64, bool) {
	id, ok := x.log.Append(previous, kind, details)
	if !ok && x.log.Full() {
		x.end(Failed, previous, history.Ended{
			Type: history.ExecutionFailed, Error: asl.ErrorRuntime, Cause: "The execution reached the maximum number of history events (25000).",
		}, "")
	}
	return id, ok
}

func (x *execution) running() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.status == Running
}
