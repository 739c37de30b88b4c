package stepfunctions

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/localstack/stepfunctions/history"
	"github.com/onceward/onceward/localstack/stepfunctions/interpreter"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// record is one step of an execution as it is stored: an event of the history,
// what the history does not show of it, or both. From its records in their
// order, and nothing else, an execution goes on after the Runner has died.
type record struct {
	// Branch is the workflow that took the step: the id of the event that
	// started a Map's iteration, or 0 for the machine's own states.
	Branch int64          `json:"branch,omitempty"`
	Event  *history.Event `json:"event,omitempty"`

	Start   *beginning           `json:"start,omitempty"`   // with ExecutionStarted
	Next    string               `json:"next,omitempty"`    // with a StateExited
	Token   string               `json:"token,omitempty"`   // with TaskScheduled
	Failure *interpreter.Failure `json:"failure,omitempty"` // with what failed
	Retry   *retry               `json:"retry,omitempty"`
	Answer  *answer              `json:"answer,omitempty"`  // to the token
	Beat    *time.Time           `json:"beat,omitempty"`    // a heartbeat of the task
	Request string               `json:"request,omitempty"` // the client token, with ExecutionRedriven

	value any     // the event's input or output, decoded
	wait  *waiter // for Token
}

// beginning is what an execution has from its start.
type beginning struct {
	Serial     int64  `json:"serial"` // the order of starts
	MachineID  string `json:"machine_id"`
	MachineARN string `json:"machine_arn"`
	Machine    string `json:"machine"`
	ARN        string `json:"arn"`
	Name       string `json:"name"`
	Definition string `json:"definition"` // the one at the start; updates don't touch it
	Trace      string `json:"trace,omitempty"`
	// By is the task that started it, so that asking again after a lost answer
	// starts no second one.
	By string `json:"by,omitempty"`
}

// retry says which retrier of a state tries again, and when.
type retry struct {
	Retrier int       `json:"retrier"`
	Until   time.Time `json:"until"`
}

// event makes a record of an event that has no id and time yet.
func event(branch, previous int64, kind history.Type, details history.Details) record {
	return record{Branch: branch, Event: &history.Event{Previous: previous, Type: kind, Details: details}}
}

// decode sets the value of a record that was read.
func (r *record) decode() error {
	if r.Event == nil {
		return nil
	}
	var text string
	switch d := r.Event.Details.(type) {
	case history.StateEntered:
		text = d.Input
	case history.StateExited:
		text = d.Output
	case history.Result:
		text = d.Output
	default:
		return nil
	}
	value, err := jsonvalue.Decode([]byte(text))
	if err != nil {
		return fmt.Errorf("event %d: %w", r.Event.ID, err)
	}
	r.value = value
	return nil
}
