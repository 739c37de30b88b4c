package stepfunctions

import (
	"time"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
	"github.com/onceward/onceward/localstack/stepfunctions/history"
	"github.com/onceward/onceward/localstack/stepfunctions/interpreter"
)

// phase is how far a workflow is with its current state.
type phase int

const (
	unborn   phase = iota // no state was entered
	between               // next is to be entered
	entered               // an attempt is to begin
	called                // the resource was called
	fanned                // the iterations of a Map run
	resulted              // the result is there
	broken                // failure is to be retried or caught
	retrying              // waits until wake for the next attempt
	finished              // raw is the output
)

// place is where a workflow stands: all that is needed to go on from here. Only
// the goroutine that runs the workflow uses it, under the execution's mutex
// where others may look.
type place struct {
	branch int64
	phase  phase
	state  string
	next   string
	raw    any   // the input of state or next
	event  int64 // of the state being entered
	last   int64 // the event that led here
	// entered is when the state was; since is from when its waits count, which
	// differs after a redrive.
	entered, since time.Time
	retries        []int // how often each retrier has tried
	wake           time.Time
	task           *taskPlace
	fan            *fanPlace
	result         any
	failure        *interpreter.Failure
	ofFan          bool // failure is the Map's, and no event says so yet
}

// taskPlace is the call of a place in its current attempt.
type taskPlace struct {
	scheduled history.Scheduled
	event     int64
	since     time.Time // for the timeout
	beat      time.Time // the last sign of life
	submitted bool
	token     string
	wait      *waiter
	answer    *answer
}

// fanPlace is the Map of a place in its current attempt.
type fanPlace struct {
	length    int
	started   int           // iterations 0 to started-1 were
	branches  map[int]int64 // of iterations that have begun and not succeeded
	results   []any
	last      int64 // the last event of success
	freed     int64 // the event that made room for the next iteration
	failure   *interpreter.Failure
	failed    int64 // the event that failed
	culprit   int   // the iteration that failed
	abandoned bool  // the failed Map's other iterations are recorded as aborted
}

func (p *place) retryCount() int {
	count := 0
	for _, n := range p.retries {
		count += n
	}
	return count
}

func (p *place) retry(retrier int) {
	for len(p.retries) <= retrier {
		p.retries = append(p.retries, 0)
	}
	p.retries[retrier]++
}

// stateType is the type of the state that the place is in.
func (p *place) stateType(w *asl.Workflow) string {
	switch p.phase {
	case unborn, between, finished:
		return ""
	case entered, called, fanned, resulted, broken, retrying:
	}
	return w.States[p.state].Base().Type
}

// fail remembers a failure that no event tells of: whoever goes on from the
// records comes to the same one.
func (p *place) fail(failure *interpreter.Failure) {
	p.phase, p.failure, p.ofFan = broken, failure, false
}

// standing is where all workflows of an execution stand, by branch.
type standing map[int64]*place

// apply moves the place that a record tells of. Running and going on after a
// death both pass here, so that they can't come to differ.
func (s standing) apply(r record) {
	p := s[r.Branch]
	switch {
	case r.Retry != nil:
		p.retry(r.Retry.Retrier)
		p.phase, p.wake, p.ofFan = retrying, r.Retry.Until, false
	case r.Answer != nil:
		p.task.answer = r.Answer
	case r.Beat != nil:
		p.task.beat = *r.Beat
	case r.Event != nil:
		s.applyEvent(p, r)
	}
}

func (s standing) applyEvent(p *place, r record) {
	e := *r.Event
	switch e.Type {
	case history.ExecutionStarted:
		s[0] = &place{}
	case history.ExecutionRedriven:
		s.redrive(s[0], e.At)
	case history.TaskScheduled:
		d := e.Details.(history.Scheduled)
		p.phase, p.last, p.task = called, e.ID, &taskPlace{scheduled: d, event: e.ID, since: e.At, beat: e.At, token: r.Token, wait: r.wait}
	case history.TaskStarted:
		p.last = e.ID
	case history.TaskSubmitted:
		p.last, p.task.submitted = e.ID, true
	case history.TaskSucceeded:
		p.last, p.phase, p.result = e.ID, resulted, r.value
	case history.TaskFailed, history.TaskTimedOut, history.MapStateFailed:
		p.last = e.ID
		p.fail(r.Failure)
	case history.MapStateStarted, history.MapStateSucceeded,
		history.MapIterationStarted, history.MapIterationSucceeded, history.MapIterationFailed, history.MapIterationAborted:
		s.applyMap(p, r)
	case history.ExecutionSucceeded, history.ExecutionFailed, history.ExecutionTimedOut, history.ExecutionAborted:
		// They are the execution's, not a workflow's.
	default:
		s.applyState(p, r)
	}
}

// applyState enters or leaves a state. What is left is a state given up, which
// moves nothing.
func (s standing) applyState(p *place, r record) {
	e := *r.Event
	switch d := e.Details.(type) {
	case history.StateEntered:
		s.leave(p)
		*p = place{
			branch: p.branch, phase: entered, state: d.Name, raw: r.value, event: e.ID, last: e.ID, entered: e.At, since: e.At,
		}
	case history.StateExited:
		s.leave(p)
		*p = place{branch: p.branch, phase: between, next: r.Next, raw: r.value, last: e.ID}
		if r.Next == "" {
			p.phase = finished
		}
	}
}

func (s standing) applyMap(p *place, r record) {
	e := *r.Event
	switch d := e.Details.(type) {
	case history.MapStarted:
		s.leave(p)
		p.phase, p.last, p.failure = fanned, e.ID, nil
		p.fan = &fanPlace{length: d.Length, branches: map[int]int64{}, results: make([]any, d.Length), last: e.ID, freed: e.ID}
	case history.Iteration:
		s.applyIteration(p.fan, d.Index, r)
	default: // MapStateSucceeded
		p.last, p.phase, p.result = p.fan.last, resulted, p.fan.results
	}
}

func (s standing) applyIteration(f *fanPlace, index int, r record) {
	e := *r.Event
	switch e.Type { //nolint:exhaustive // only iterations come here
	case history.MapIterationStarted:
		f.started = index + 1
		f.branches[index] = e.ID
		s[e.ID] = &place{branch: e.ID, last: e.ID}
	case history.MapIterationSucceeded:
		f.results[index] = s[f.branches[index]].raw
		f.last, f.freed = e.ID, e.Previous
		s.drop(f.branches[index])
		delete(f.branches, index)
	case history.MapIterationFailed:
		f.failure, f.failed, f.culprit = r.Failure, e.Previous, index
	case history.MapIterationAborted:
		f.abandoned = true
	}
}

// leave forgets the iterations of a Map that is over or begins again.
func (s standing) leave(p *place) {
	if p.fan == nil {
		return
	}
	for _, branch := range p.fan.branches {
		s.drop(branch)
	}
	p.fan = nil
}

func (s standing) drop(branch int64) {
	s.leave(s[branch])
	delete(s, branch)
}

// redrive lets an execution that ended badly go on: each workflow begins its
// state again, with all of its retries. Of a Map only the iterations that did
// not succeed do, unless their results together were too large.
func (s standing) redrive(p *place, at time.Time) {
	p.retries, p.since, p.ofFan = nil, at, false
	switch p.phase {
	case unborn, between, finished:
		return
	case entered, called, fanned, resulted, broken, retrying:
	}
	if p.fan == nil || p.failure != nil && p.failure.Error == asl.ErrorDataLimitExceeded {
		s.leave(p)
		// AWS lets the new attempt follow the state's entry, not the redrive.
		p.phase, p.last, p.task, p.failure = entered, p.event, nil, nil
		return
	}
	p.phase, p.failure = fanned, nil
	p.fan.failure, p.fan.abandoned = nil, false
	for _, branch := range p.fan.branches {
		s.redrive(s[branch], at)
	}
}
