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
// The zero value means that it goes on.
type ending struct {
	output  any
	failure *interpreter.Failure
	stopped bool
	last    int64
	// stateType is the type of the state that failed or was stopped.
	stateType string
}

// workflow runs states from where p stands until one ends, fails or ctx does.
func (x *execution) workflow(ctx context.Context, w *asl.Workflow, p *place, input any, item *interpreter.Item) ending {
	if p.phase == unborn {
		p.phase, p.next, p.raw = between, w.StartAt, input
	}
	for p.phase != finished {
		v := &visit{x: x, p: p, item: item, state: w.States[p.state]}
		if p.phase == between {
			v.state = w.States[p.next]
		}
		if end := v.step(ctx); end.stopped || end.failure != nil {
			end.stateType = v.state.Base().Type
			return end
		}
	}
	return ending{output: p.raw, last: p.last}
}

// visit is a workflow in one of its states.
type visit struct {
	x     *execution
	p     *place
	state asl.State
	item  *interpreter.Item
}

// step does what is next in the state. The same steps are taken by who comes
// from the step before and by who goes on after a death.
func (v *visit) step(ctx context.Context) ending {
	p := v.p
	switch p.phase {
	case between:
		return v.enter(ctx)
	case entered:
		return v.begin(ctx)
	case called:
		return v.takeUp(ctx)
	case fanned:
		return v.fanAgain(ctx)
	case resulted:
		return v.leaveUnless(v.x.runner.interpreter.Resume(v.state, p.raw, p.result, v.context(v.token())))
	case broken:
		return v.recover()
	case retrying:
		if !v.x.runner.sleepUntil(ctx, p.wake) {
			return v.stopped()
		}
		p.phase = entered
		return ending{}
	case unborn, finished: // workflow does not come here with them
	}
	panic("stepfunctions: unknown phase")
}

func (v *visit) stopped() ending { return ending{stopped: true, last: v.p.last} }

// commit stores records of this workflow; if that can't be, the ending says so.
func (v *visit) commit(records ...record) ending {
	if _, ok := v.x.commit(records...); !ok {
		return v.stopped()
	}
	return ending{}
}

// note makes a record of this workflow.
func (v *visit) note(previous int64, kind history.Type, details history.Details) record {
	return event(v.p.branch, previous, kind, details)
}

func (v *visit) enter(ctx context.Context) ending {
	common, input := v.state.Base(), v.p.raw
	r := v.note(v.p.last, history.Entered(common.Type),
		history.StateEntered{Name: common.Name, Input: jsonvalue.MustEncode(input), InputDetails: history.Whole()})
	r.value = input
	// Stored now: which state, with what. If we stop before, it is entered later.
	if end := v.commit(r); end.stopped || ctx.Err() != nil {
		return v.stopped()
	}
	return ending{}
}

// leaveUnless leaves the state, unless it failed.
func (v *visit) leaveUnless(advance interpreter.Advance, failure *interpreter.Failure) ending {
	if failure != nil {
		v.p.fail(failure)
		return ending{}
	}
	return v.leave(advance)
}

func (v *visit) leave(advance interpreter.Advance) ending {
	common := v.state.Base()
	r := v.note(v.p.last, history.Exited(common.Type),
		history.StateExited{Name: common.Name, Output: jsonvalue.MustEncode(advance.Output), OutputDetails: history.Whole()})
	r.value, r.Next = advance.Output, advance.Next
	// Stored now: the output and where it goes. If we stop before, it is worked
	// out again from the result.
	return v.commit(r)
}

// begin starts an attempt.
func (v *visit) begin(ctx context.Context) ending {
	var wait *waiter
	token := ""
	if task, ok := v.state.(*asl.Task); ok && task.Resource.WaitsForToken() {
		// Each attempt has a token of its own; an answer to an earlier one comes too late.
		wait = v.x.runner.tokens.mint(v.x, v.p.branch)
		defer v.x.runner.tokens.release(wait)
		token = wait.token
	}
	step, failure := v.x.runner.interpreter.Begin(v.state, v.p.raw, v.context(token))
	if failure != nil {
		v.p.fail(failure)
		return ending{}
	}
	switch s := step.(type) {
	case interpreter.Advance:
		return v.leave(s)
	case interpreter.Failed:
		v.p.fail(s.Failure)
		return ending{}
	case interpreter.Pause:
		d := s.For
		if !s.Until.IsZero() {
			d = s.Until.Sub(v.p.since)
		}
		if !v.x.runner.sleepUntil(ctx, v.p.since.Add(v.x.runner.scaled(d))) {
			return v.stopped()
		}
		return v.leave(s.Then)
	case interpreter.Call:
		return v.call(ctx, s, wait)
	case interpreter.FanOut:
		return v.fanOut(ctx, s)
	default:
		panic("stepfunctions: unknown step") // Begin returns no other
	}
}

// recover asks the state's retriers and catchers about the failure.
func (v *visit) recover() ending {
	p := v.p
	recovery, bad := v.x.runner.interpreter.Recover(v.state, p.raw, p.failure, p.retries, v.context(""))
	if recovery.Retrier >= 0 {
		until := v.x.runner.options.Now().Add(v.x.runner.scaled(recovery.Delay))
		// Stored now: that this retry is used up, and when it is. If we stop before,
		// it is counted later.
		return v.commit(record{Branch: p.branch, Retry: &retry{Retrier: recovery.Retrier, Until: until}})
	}
	if p.ofFan {
		r := v.note(p.last, history.MapStateFailed, nil)
		r.Failure = p.failure
		return v.commit(r)
	}
	switch {
	case bad != nil:
		return ending{failure: bad, last: p.last}
	case recovery.Caught != nil:
		return v.leave(*recovery.Caught)
	}
	return ending{failure: p.failure, last: p.last}
}

// token is the one of the attempt in progress, or empty.
func (v *visit) token() string {
	if v.p.task == nil {
		return ""
	}
	return v.p.task.token
}

func (v *visit) context(token string) interpreter.Context {
	x, p := v.x, v.p
	return interpreter.Context{
		Execution: interpreter.Execution{
			ID: x.arn, Name: x.story.Name, RoleARN: x.story.roleARN, Input: x.input, Started: x.story.started,
			Redrives: x.story.redrives, Redriven: x.story.redriven,
		},
		Machine:   interpreter.Machine{ID: x.story.MachineARN, Name: x.story.Machine},
		StateName: v.state.Base().Name, Entered: p.entered, EnteredEvent: p.event, RetryCount: p.retryCount(), Item: v.item,
		Token: token,
	}
}

// scaled is a wait as the options shorten it.
func (r *Runner) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * r.options.WaitScale)
}

// sleepUntil waits until a time of the Runner's clock. It reports false if ctx
// ended first.
func (r *Runner) sleepUntil(ctx context.Context, until time.Time) bool {
	timer := r.timer(until)
	defer timer.stop()
	select {
	case <-timer.fired:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// optionalTimer never fires if its time is zero.
type optionalTimer struct {
	timer *time.Timer
	fired <-chan time.Time
}

// timer fires at a time of the Runner's clock, at once if that is over.
func (r *Runner) timer(at time.Time) *optionalTimer {
	if at.IsZero() {
		return &optionalTimer{}
	}
	timer := time.NewTimer(max(at.Sub(r.options.Now()), 0))
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
