package stepfunctions

import (
	"time"

	"github.com/onceward/onceward/localstack/stepfunctions/history"
)

// story is what the records of an execution tell.
type story struct {
	beginning
	roleARN   string
	input     string
	status    Status
	started   time.Time
	stopped   time.Time
	output    string
	failure   history.Ended
	redrives  int
	redriven  time.Time
	requests  []request
	log       history.Log
	places    standing
	events    int  // of the history, also when it is only in the journal
	forgotten bool // history and places are only in the journal,
	textless  bool // and input, output and cause too, because they are long
}

// shortTexts is how long the texts of an execution may be together to stay in
// memory when it has ended.
const shortTexts = 16 << 10

// request is a client token that redrove the execution.
type request struct {
	token string
	at    time.Time
}

// apply adds a record to the story.
func (s *story) apply(r record) {
	if r.Event != nil {
		s.log.Add(*r.Event)
		s.events = s.log.Len()
		s.applyEvent(r)
	}
	s.places.apply(r)
}

func (s *story) applyEvent(r record) {
	e := *r.Event
	switch d := e.Details.(type) {
	case history.Started:
		s.beginning, s.roleARN, s.input, s.started, s.status, s.places = *r.Start, d.RoleARN, d.Input, e.At, Running, standing{}
	case history.Succeeded:
		s.status, s.stopped, s.output = Succeeded, e.At, d.Output
	case history.Ended:
		s.status, s.stopped, s.failure = endings[e.Type], e.At, d
	case history.Redriven:
		s.status, s.stopped, s.failure = Running, time.Time{}, history.Ended{}
		s.redrives, s.redriven = d.Count, e.At
		s.requests = append(s.requests, request{token: r.Request, at: e.At})
	}
}

// endings are the statuses that events of unsuccessful ends lead to.
var endings = map[history.Type]Status{ //nolint:exhaustive // the other types end nothing
	history.ExecutionFailed: Failed, history.ExecutionTimedOut: TimedOut, history.ExecutionAborted: Aborted,
}

// shed returns what stays in memory of an execution that has ended when its
// journal holds the rest.
func (s *story) shed() *story {
	slim := *s
	slim.log, slim.places, slim.requests, slim.Definition, slim.forgotten = history.Log{}, nil, nil, "", true
	if len(s.input)+len(s.output)+len(s.failure.Cause) > shortTexts {
		slim.input, slim.output, slim.failure, slim.Trace, slim.textless = "", "", history.Ended{}, "", true
	}
	return &slim
}
