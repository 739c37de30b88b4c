package stepfunctions

import (
	"context"
	"time"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
	"github.com/onceward/onceward/localstack/stepfunctions/history"
	"github.com/onceward/onceward/localstack/stepfunctions/interpreter"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// ending is how a workflow, or a part of one, came to its end: with an output,
// with a failure, or stopped from outside. last is the event that led there.
type ending struct {
	output  any
	failure *interpreter.Failure
	stopped bool
	last    int64
	// stateType is the type of the state that failed or was stopped.
	stateType string
	// fannedOut is set when an iteration, or the size of all results, failed a Map.
	fannedOut bool
}

// cursor is where a workflow stands: all that is needed to go on from here.
type cursor struct {
	state   asl.State
	raw     any // the state's input
	item    *interpreter.Item
	entered time.Time
	event   int64 // of the state being entered
	retries []int // how often each retrier has tried
}

func (c *cursor) retryCount() int {
	count := 0
	for _, n := range c.retries {
		count += n
	}
	return count
}

// workflow runs states from StartAt until one ends, fails or ctx does.
func (x *execution) workflow(ctx context.Context, w *asl.Workflow, input any, last int64, item *interpreter.Item) ending {
	next := w.StartAt
	for {
		c := &cursor{state: w.States[next], raw: input, item: item, entered: x.runner.options.Now()}
		common := c.state.Base()
		id, ok := x.record(last, history.Entered(common.Type),
			history.StateEntered{Name: common.Name, Input: jsonvalue.MustEncode(input), InputDetails: history.Whole()})
		if !ok || ctx.Err() != nil {
			return ending{stopped: true, last: last, stateType: common.Type}
		}
		c.event = id
		advance, end := x.visit(ctx, c)
		if end.failure != nil || end.stopped {
			end.stateType = common.Type
			return end
		}
		last, ok = x.record(end.last, history.Exited(common.Type),
			history.StateExited{Name: common.Name, Output: jsonvalue.MustEncode(advance.Output), OutputDetails: history.Whole()})
		if !ok {
			return ending{stopped: true, last: end.last, stateType: common.Type}
		}
		if advance.Next == "" {
			return ending{output: advance.Output, last: last}
		}
		next, input = advance.Next, advance.Output
	}
}

// visit runs one state, with its retries and catchers.
func (x *execution) visit(ctx context.Context, c *cursor) (interpreter.Advance, ending) {
	last := c.event
	for {
		advance, end := x.attempt(ctx, c, last)
		if end.failure == nil || end.stopped {
			return advance, end
		}
		object := x.context(c, nil)
		recovery, bad := x.runner.interpreter.Recover(c.state, c.raw, end.failure, c.retries, object)
		if recovery.Retrier >= 0 {
			c.retry(recovery.Retrier)
			if !x.runner.sleep(ctx, recovery.Delay) {
				return advance, ending{stopped: true, last: end.last}
			}
			last = end.last
			continue
		}
		if end.fannedOut {
			id, ok := x.record(end.last, history.MapStateFailed, nil)
			if !ok {
				return advance, ending{stopped: true, last: end.last}
			}
			end.last = id
		}
		switch {
		case bad != nil:
			return advance, ending{failure: bad, last: end.last}
		case recovery.Caught != nil:
			return *recovery.Caught, ending{last: end.last}
		}
		return advance, end
	}
}

func (c *cursor) retry(retrier int) {
	for len(c.retries) <= retrier {
		c.retries = append(c.retries, 0)
	}
	c.retries[retrier]++
}

// attempt runs one state once.
func (x *execution) attempt(ctx context.Context, c *cursor, last int64) (interpreter.Advance, ending) {
	var wait *waiter
	if task, ok := c.state.(*asl.Task); ok && task.Resource.WaitsForToken() {
		// Each attempt has a token of its own; an answer to an earlier one comes too late.
		wait = x.runner.tokens.mint(x.arn)
		defer x.runner.tokens.close(wait)
	}
	object := x.context(c, wait)
	step, failure := x.runner.interpreter.Begin(c.state, c.raw, object)
	if failure != nil {
		return interpreter.Advance{}, ending{failure: failure, last: last}
	}
	switch s := step.(type) {
	case interpreter.Advance:
		return s, ending{last: last}
	case interpreter.Failed:
		return interpreter.Advance{}, ending{failure: s.Failure, last: last}
	case interpreter.Pause:
		d := s.For
		if !s.Until.IsZero() {
			d = s.Until.Sub(x.runner.options.Now())
		}
		return s.Then, ending{stopped: !x.runner.sleep(ctx, d), last: last}
	case interpreter.Call:
		return x.resume(c, object, x.call(ctx, s, wait, last))
	case interpreter.FanOut:
		return x.resume(c, object, x.fanOut(ctx, c.state.(*asl.Map), s, last))
	default:
		panic("stepfunctions: unknown step") // Begin returns no other
	}
}

// resume ends a state with the result of what it asked for.
func (x *execution) resume(c *cursor, object interpreter.Context, end ending) (interpreter.Advance, ending) {
	if end.failure != nil || end.stopped {
		return interpreter.Advance{}, end
	}
	advance, failure := x.runner.interpreter.Resume(c.state, c.raw, end.output, object)
	return advance, ending{failure: failure, last: end.last}
}

func (x *execution) context(c *cursor, wait *waiter) interpreter.Context {
	object := interpreter.Context{
		Execution: interpreter.Execution{ID: x.arn, Name: x.name, RoleARN: x.roleARN, Input: x.value, Started: x.started},
		Machine:   interpreter.Machine{ID: x.machine.arn, Name: x.machine.name},
		StateName: c.state.Base().Name, Entered: c.entered, EnteredEvent: c.event, RetryCount: c.retryCount(), Item: c.item,
	}
	if wait != nil {
		object.Token = wait.token
	}
	return object
}
