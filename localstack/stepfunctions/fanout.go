package stepfunctions

import (
	"context"
	"slices"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
	"github.com/onceward/onceward/localstack/stepfunctions/history"
	"github.com/onceward/onceward/localstack/stepfunctions/interpreter"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// fan is a Map in progress. Only the goroutine that called fanOut touches it;
// iterations report by a channel.
type fan struct {
	x       *execution
	state   *asl.Map
	plan    interpreter.FanOut
	reports chan report
	cancel  context.CancelFunc

	next    int // the next iteration to start
	active  int
	results []any
	last    int64 // the last event of success
	failure *interpreter.Failure
	failed  int64 // the event that failed
	stopped bool
}

type report struct {
	index int
	end   ending
}

// fanOut runs the iterations, at most plan.Concurrency at once. The first
// failure gives up the others; results are in the order of the items.
func (x *execution) fanOut(ctx context.Context, state *asl.Map, plan interpreter.FanOut, last int64) ending {
	started, ok := x.record(last, history.MapStateStarted, history.MapStarted{Length: len(plan.Items)})
	if !ok {
		return ending{stopped: true, last: last}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &fan{
		x: x, state: state, plan: plan, reports: make(chan report), cancel: cancel,
		results: make([]any, len(plan.Items)), last: started,
	}
	first := min(plan.Concurrency, len(plan.Items))
	f.start(ctx, first, started)
	aborted := []report{}
	for f.active > 0 {
		r := <-f.reports
		f.active--
		if f.take(ctx, r) {
			aborted = append(aborted, r)
		}
	}
	if f.failure != nil {
		f.abort(aborted)
		return ending{failure: f.failure, last: f.failed, fannedOut: true}
	}
	if f.stopped || ctx.Err() != nil {
		return ending{stopped: true, last: f.last}
	}
	return f.succeed()
}

// start records that up to count iterations begin and runs them. The events
// come first, so that the first ones stand together as on AWS.
func (f *fan) start(ctx context.Context, count int, previous int64) {
	events := make([]int64, 0, count)
	from := f.next
	for ; len(events) < count && f.next < len(f.plan.Items); f.next++ {
		id, ok := f.x.record(previous, history.MapIterationStarted, f.iteration(history.MapIterationStarted, f.next))
		if !ok {
			f.stopped = true
			f.cancel()
			break
		}
		events = append(events, id)
	}
	for n, event := range events {
		index := from + n
		f.active++
		f.x.runner.spawn(func(context.Context) {
			item := &f.plan.Items[index].Item
			f.reports <- report{index: index, end: f.x.workflow(ctx, &f.state.Processor, f.plan.Items[index].Input, event, item)}
		})
	}
}

// take handles the end of one iteration; true means that it was given up.
func (f *fan) take(ctx context.Context, r report) bool {
	over := f.failure != nil || f.stopped || ctx.Err() != nil
	switch {
	case over:
		return true
	case r.end.stopped:
		f.stopped = true
		f.cancel()
		return true
	case r.end.failure != nil:
		f.failure, f.failed = r.end.failure, r.end.last
		f.x.record(r.end.last, history.MapIterationFailed, f.iteration(history.MapIterationFailed, r.index))
		f.giveUp(r.end)
		f.cancel()
		return false
	}
	id, ok := f.x.record(r.end.last, history.MapIterationSucceeded, f.iteration(history.MapIterationSucceeded, r.index))
	if !ok {
		f.stopped = true
		f.cancel()
		return true
	}
	f.results[r.index], f.last = r.end.output, id
	f.start(ctx, 1, r.end.last)
	return false
}

// abort records the iterations that the failure of one has stopped.
func (f *fan) abort(reports []report) {
	slices.SortFunc(reports, func(a, b report) int { return a.index - b.index })
	for _, r := range reports {
		f.x.record(f.failed, history.MapIterationAborted, f.iteration(history.MapIterationAborted, r.index))
		f.giveUp(r.end)
	}
}

// giveUp records that the state of an iteration was given up, for the types
// of states that have such an event.
func (f *fan) giveUp(end ending) {
	switch end.stateType {
	case asl.TypeTask, asl.TypeWait, asl.TypeMap:
		f.x.record(f.failed, history.Aborted(end.stateType), nil)
	}
}

func (f *fan) succeed() ending {
	if len(jsonvalue.MustEncode(f.results)) > jsonvalue.MaxBytes {
		return ending{failure: interpreter.MapTooLarge(f.state.Name), last: f.last, fannedOut: true}
	}
	if _, ok := f.x.record(f.last, history.MapStateSucceeded, nil); !ok {
		return ending{stopped: true, last: f.last}
	}
	return ending{output: f.results, last: f.last}
}

func (f *fan) iteration(kind history.Type, index int) history.Iteration {
	return history.Iteration{Type: kind, Name: f.state.Name, Index: index}
}
