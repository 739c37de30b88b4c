package stepfunctions

import (
	"context"
	"maps"
	"slices"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
	"github.com/onceward/onceward/localstack/stepfunctions/history"
	"github.com/onceward/onceward/localstack/stepfunctions/interpreter"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// fan is a Map in progress. Only the goroutine that visits the Map touches it
// and its place; iterations report by a channel.
type fan struct {
	*visit
	state   *asl.Map
	plan    interpreter.FanOut
	place   *fanPlace
	reports chan report
	cancel  context.CancelFunc
	active  int
	halted  bool
}

type report struct {
	index int
	end   ending
}

// fanOut begins a Map.
func (v *visit) fanOut(ctx context.Context, plan interpreter.FanOut) ending {
	if end := v.commit(v.note(v.p.last, history.MapStateStarted, history.MapStarted{Length: len(plan.Items)})); end.stopped {
		return end
	}
	return v.iterate(ctx, plan)
}

// fanAgain goes on with a Map that has begun. Its items are worked out again;
// iterations that have begun have theirs already.
func (v *visit) fanAgain(ctx context.Context) ending {
	step, failure := v.x.runner.interpreter.Begin(v.state, v.p.raw, v.context(""))
	if failure != nil {
		v.p.fail(failure)
		return ending{}
	}
	return v.iterate(ctx, step.(interpreter.FanOut))
}

// iterate runs the iterations, at most plan.Concurrency at once. The first
// failure gives up the others; results are in the order of the items.
func (v *visit) iterate(ctx context.Context, plan interpreter.FanOut) ending {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &fan{visit: v, state: v.state.(*asl.Map), plan: plan, place: v.p.fan, reports: make(chan report), cancel: cancel}
	var aborted []report
	if f.place.failure != nil {
		aborted = f.leftBehind()
	} else {
		f.goOn(ctx)
	}
	for f.active > 0 {
		r := <-f.reports
		f.active--
		if f.take(ctx, r) {
			aborted = append(aborted, r)
		}
	}
	if f.place.failure != nil {
		if end := f.abort(aborted); end.stopped {
			return end
		}
		return f.fails(f.place.failure, f.place.failed)
	}
	if f.halted || ctx.Err() != nil {
		return f.stopped()
	}
	return f.succeed()
}

// goOn runs the iterations that have begun and as many more as there is room for.
func (f *fan) goOn(ctx context.Context) {
	begun := slices.Sorted(maps.Keys(f.place.branches))
	for _, index := range begun {
		f.run(ctx, index)
	}
	f.start(ctx, f.plan.Concurrency-len(begun))
}

// start records that up to count iterations begin and runs them. The events
// come first, so that the first ones stand together as on AWS.
func (f *fan) start(ctx context.Context, count int) {
	from := f.place.started
	count = min(count, len(f.plan.Items)-from)
	if count <= 0 {
		return
	}
	records := make([]record, count)
	for n := range records {
		records[n] = f.iteration(f.place.freed, history.MapIterationStarted, from+n)
	}
	if end := f.commit(records...); end.stopped {
		f.halt()
		return
	}
	for n := range records {
		f.run(ctx, from+n)
	}
}

func (f *fan) run(ctx context.Context, index int) {
	f.x.mu.Lock()
	p := f.x.story.places[f.place.branches[index]]
	f.x.mu.Unlock()
	f.active++
	f.x.runner.spawn(func(context.Context) {
		item := &f.plan.Items[index]
		f.reports <- report{index: index, end: f.x.workflow(ctx, &f.state.Processor, p, item.Input, &item.Item)}
	})
}

func (f *fan) halt() {
	f.halted = true
	f.cancel()
}

// take handles the end of one iteration; true means that it was given up.
func (f *fan) take(ctx context.Context, r report) bool {
	over := f.place.failure != nil || f.halted || ctx.Err() != nil
	switch {
	case over:
		return true
	case r.end.stopped:
		f.halt()
		return true
	case r.end.failure != nil:
		culprit := f.iteration(r.end.last, history.MapIterationFailed, r.index)
		culprit.Failure = r.end.failure
		if end := f.commit(append([]record{culprit}, f.givenUp(r.end.last, r.end.stateType)...)...); end.stopped {
			f.halt()
		}
		f.cancel()
		return false
	}
	if end := f.commit(f.iteration(r.end.last, history.MapIterationSucceeded, r.index)); end.stopped {
		f.halt()
		return true
	}
	f.start(ctx, 1)
	return false
}

// leftBehind are the iterations that had not ended when the Runner died after
// the failure of one.
func (f *fan) leftBehind() []report {
	var reports []report
	if f.place.abandoned {
		return nil
	}
	f.x.mu.Lock()
	defer f.x.mu.Unlock()
	for index, branch := range f.place.branches {
		if index != f.place.culprit {
			reports = append(reports, report{index: index, end: ending{stateType: f.x.story.places[branch].stateType(&f.state.Processor)}})
		}
	}
	return reports
}

// abort records, in one piece, the iterations that the failure of one has stopped.
func (f *fan) abort(reports []report) ending {
	slices.SortFunc(reports, func(a, b report) int { return a.index - b.index })
	var records []record
	for _, r := range reports {
		records = append(records, f.iteration(f.place.failed, history.MapIterationAborted, r.index))
		records = append(records, f.givenUp(f.place.failed, r.end.stateType)...)
	}
	if len(records) == 0 {
		return ending{}
	}
	return f.commit(records...)
}

// givenUp says that the state of an iteration was given up, for the types of
// states that have such an event.
func (f *fan) givenUp(failed int64, stateType string) []record {
	switch stateType {
	case asl.TypeTask, asl.TypeWait, asl.TypeMap:
		return []record{f.note(failed, history.Aborted(stateType), nil)}
	}
	return nil
}

// fails ends the Map by a failure that its iterations or their results made.
func (f *fan) fails(failure *interpreter.Failure, last int64) ending {
	f.p.fail(failure)
	f.p.ofFan, f.p.last = true, last
	return ending{}
}

func (f *fan) succeed() ending {
	if len(jsonvalue.MustEncode(f.place.results)) > jsonvalue.MaxBytes {
		return f.fails(interpreter.MapTooLarge(f.state.Name), f.place.last)
	}
	return f.commit(f.note(f.place.last, history.MapStateSucceeded, nil))
}

func (f *fan) iteration(previous int64, kind history.Type, index int) record {
	return f.note(previous, kind, history.Iteration{Type: kind, Name: f.state.Name, Index: index})
}
