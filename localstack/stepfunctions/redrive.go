package stepfunctions

import (
	"slices"
	"time"

	"github.com/onceward/onceward/localstack/stepfunctions/history"
)

const (
	redrivePeriod = 14 * 24 * time.Hour
	maxOpenTime   = 365 * 24 * time.Hour
	// A client token is remembered for that long, and so many of them are.
	requestPeriod = 15 * time.Minute
	maxRequests   = 10
)

// whyNotRedrivable is AWS's reason why an execution can't be redriven now, or
// empty; deleting tells of its machine.
func (r *Runner) whyNotRedrivable(s *story, deleting bool) string {
	now := r.options.Now()
	switch {
	case deleting:
		return "State machine is in DELETING status"
	case s.status == Running || s.status == Succeeded:
		return "Execution is " + string(s.status) + " and cannot be redriven"
	case s.events >= history.MaxEvents-1:
		return "Execution history event limit exceeded"
	case now.Sub(s.started) > maxOpenTime:
		return "Execution has exceeded the max execution time"
	case now.Sub(s.stopped) > redrivePeriod:
		return "Execution redrivable period exceeded"
	}
	return ""
}

// RedriveExecution lets an execution that failed, timed out or was aborted in
// the last 14 days go on from the state that did not succeed, with the same
// input, the same definition and all of its retries; its history goes on and
// its time begins anew. Others are refused with ExecutionNotRedrivable.
func (r *Runner) RedriveExecution(in RedriveExecutionInput) (RedriveExecutionOutput, error) {
	if err := in.check(); err != nil {
		return RedriveExecutionOutput{}, err
	}
	x, err := r.findExecution(in.ExecutionARN)
	if err != nil {
		return RedriveExecutionOutput{}, err
	}
	x.mu.Lock()
	done := x.done
	ended := x.story.status != Running
	x.mu.Unlock()
	if ended && done != nil {
		// It is still letting go of what it was doing, which takes no time.
		<-done
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return RedriveExecutionOutput{}, errClosed()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.redrive(in)
}

// redrive is RedriveExecution with both mutexes held.
func (x *execution) redrive(in RedriveExecutionInput) (RedriveExecutionOutput, error) {
	r := x.runner
	told, err := x.whole()
	if err != nil {
		return RedriveExecutionOutput{}, err
	}
	if at, ok := told.redrivenBy(in.ClientToken, r.options.Now()); ok {
		return RedriveExecutionOutput{RedriveDate: seconds(at)}, nil
	}
	if reason := r.whyNotRedrivable(told, x.machine.Deleting); reason != "" {
		return RedriveExecutionOutput{}, apiError(codeExecutionNotRedrivable, "Execution is not redrivable: '%s'. %s", x.arn, reason)
	}
	if r.open >= r.maxOpen {
		return RedriveExecutionOutput{}, errLimit()
	}
	last := event(0, int64(told.events), history.ExecutionRedriven, history.Redriven{Count: told.redrives + 1})
	if in.ClientToken != nil {
		last.Request = *in.ClientToken
	}
	x.story = told
	r.store.forget()
	// Stored now: that it runs again. If we stop before, it has ended as it had.
	if err := x.store(last); err != nil {
		return RedriveExecutionOutput{}, err
	}
	r.opened(x.machine)
	x.stop, x.cancel, x.done = make(chan struct{}), nil, nil
	if err := x.drive(); err != nil {
		return RedriveExecutionOutput{}, err
	}
	return RedriveExecutionOutput{RedriveDate: seconds(x.story.redriven)}, nil
}

// redrivenBy tells whether a client token has redriven the execution lately.
func (s *story) redrivenBy(token *string, now time.Time) (time.Time, bool) {
	if token == nil {
		return time.Time{}, false
	}
	recent := s.requests[max(0, len(s.requests)-maxRequests):]
	i := slices.IndexFunc(recent, func(q request) bool { return q.token == *token && now.Sub(q.at) < requestPeriod })
	if i < 0 {
		return time.Time{}, false
	}
	return recent[i].at, true
}
