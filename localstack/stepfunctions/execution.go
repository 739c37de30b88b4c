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
	runner  *Runner
	machine *machine
	arn     string

	// definition and input are set before run and then read only.
	definition *asl.Machine
	input      any

	mu     sync.Mutex
	story  *story
	stuck  error              // the journal took no record: nothing moves any more
	cancel context.CancelFunc // of run
	stop   chan struct{}      // closed when the execution has ended
	done   chan struct{}      // closed when nothing runs for it any more; nil if nothing did
}

// drive lets the execution run from where it stands, in a goroutine of its own.
// The Runner's mutex must be held.
func (x *execution) drive() error {
	definition, err := x.machine.parse(x.story.Definition)
	if err != nil {
		return err
	}
	if x.input, err = jsonvalue.Decode([]byte(x.story.input)); err != nil {
		return err
	}
	x.definition, x.done = definition, make(chan struct{})
	x.runner.spawn(x.run)
	return nil
}

// run drives the execution to its end. If ctx ends first it stays RUNNING: the
// Runner was closed under it.
func (x *execution) run(ctx context.Context) {
	defer close(x.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x.mu.Lock()
	x.cancel = cancel
	root, limit := x.story.places[0], x.deadline()
	over := x.stuck != nil || x.story.status != Running
	x.mu.Unlock()
	if over {
		x.settle()
		return
	}
	x.runner.spawn(func(context.Context) { x.watch(ctx, limit) })
	end := x.workflow(ctx, &x.definition.Workflow, root, x.input, nil)
	switch {
	case end.stopped:
	case end.failure != nil:
		x.fail(end.last, end.failure)
	default:
		_ = x.end(Succeeded, event(0, end.last, history.ExecutionSucceeded, // what it returns is logged
			history.Succeeded{Output: jsonvalue.MustEncode(end.output), OutputDetails: history.Whole()}))
	}
	x.settle()
}

// deadline is when the execution's own time is over; zero means never. The
// mutex must be held.
func (x *execution) deadline() time.Time {
	if x.definition.Timeout == 0 {
		return time.Time{}
	}
	since := x.story.started
	if x.story.redrives > 0 {
		since = x.story.redriven
	}
	return since.Add(x.definition.Timeout)
}

// watch ends the execution when its time is over.
func (x *execution) watch(ctx context.Context, limit time.Time) {
	timer := x.runner.timer(limit)
	defer timer.stop()
	select {
	case <-ctx.Done():
	case <-timer.fired:
		_ = x.end(TimedOut, event(0, 0, history.ExecutionTimedOut, history.Ended{Type: history.ExecutionTimedOut})) // what it returns is logged
	}
}

func (x *execution) fail(last int64, failure *interpreter.Failure) {
	_ = x.end(Failed, event(0, last, history.ExecutionFailed, // what it returns is logged
		history.Ended{Type: history.ExecutionFailed, Error: failure.Error, Cause: failure.Cause}))
}

// end closes the execution once: whoever comes first says how it ended. From
// then on nothing is recorded and no token of it can be answered.
func (x *execution) end(status Status, last record) error {
	x.mu.Lock()
	if x.story.status != Running {
		x.mu.Unlock()
		return nil
	}
	// Stored now: how it ended. If we stop before, whoever goes on comes to an end
	// again.
	if err := x.store(last); err != nil {
		x.mu.Unlock()
		return err
	}
	closed := x.story.places.closeTokens()
	name, description, idle := x.story.failure.Error, x.describe(x.story, false), x.done == nil
	close(x.stop)
	if x.cancel != nil {
		x.cancel()
	}
	x.mu.Unlock()
	x.runner.tokens.forget(closed)
	x.runner.ended(x)
	if idle {
		x.settle()
	}
	x.runner.options.Logger.LogAttrs(context.Background(), slog.LevelInfo, "execution ended",
		slog.String("execution", x.arn), slog.String("status", string(status)), slog.String("error", name))
	x.runner.announce(description)
	return nil
}

// settle leaves the data of an execution that has ended to its journal.
func (x *execution) settle() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.story.status != Running && x.runner.store.keeps() {
		x.story, x.input, x.definition = x.story.shed(), nil, nil
	}
}

// commit stores records in one piece and then applies them. It returns the id
// of the last event, and false when the execution has ended, also by these
// events being too many, or stands still because its journal failed.
func (x *execution) commit(records ...record) (int64, bool) {
	x.mu.Lock()
	full := x.story.status == Running && records[0].Event != nil && !x.story.log.Room(len(records))
	ok := x.story.status == Running && !full && x.store(records...) == nil
	last := int64(x.story.log.Len())
	x.mu.Unlock()
	if full {
		x.fail(records[0].Event.Previous, &interpreter.Failure{
			Error: asl.ErrorRuntime, Cause: "The execution reached the maximum number of history events (25000).",
		})
	}
	return last, ok
}

// store is commit for who holds the mutex and has checked.
func (x *execution) store(records ...record) error {
	if x.stuck != nil {
		return x.stuck
	}
	events := make([]*history.Event, 0, len(records))
	for _, r := range records {
		if r.Event != nil {
			events = append(events, r.Event)
		}
	}
	x.story.log.Number(x.runner.options.Now(), events...)
	first := x.story.log.Len() == 0
	if err := x.runner.store.writeExecution(x.arn, first, records); err != nil {
		x.halt(err)
		return err
	}
	for _, r := range records {
		x.story.apply(r)
	}
	return nil
}

// halt stops the execution where it is: the journal holds an unknown part of
// the last step, so another one must not follow it. A Runner that starts anew
// reads what is there and goes on.
func (x *execution) halt(err error) {
	x.stuck = err
	if x.cancel != nil {
		x.cancel()
	}
	x.runner.options.Logger.LogAttrs(context.Background(), slog.LevelError, "execution stands still: its journal failed",
		slog.String("execution", x.arn), slog.String("error", err.Error()))
}

// standsStill tells whether nothing of the execution moves though it has not ended.
func (x *execution) standsStill() bool {
	if x.runner.isClosed() {
		return true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stuck != nil
}

// whole is the story with its data, read from the journal if it is only there.
// The mutex must be held.
func (x *execution) whole() (*story, error) {
	if !x.story.forgotten {
		return x.story, nil
	}
	return x.runner.store.readExecution(x.arn)
}
