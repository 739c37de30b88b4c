package history

import (
	"encoding/json"
	"fmt"
	"time"
)

// stored is an event as MarshalJSON writes it.
type stored struct {
	ID       int64           `json:"id"`
	Previous int64           `json:"previous"`
	At       time.Time       `json:"at"`
	Type     Type            `json:"type"`
	Details  json.RawMessage `json:"details,omitempty"`
}

// MarshalJSON writes the event with its exact time, for UnmarshalJSON; what AWS
// shows is Wire.
func (e Event) MarshalJSON() ([]byte, error) {
	out := stored{ID: e.ID, Previous: e.Previous, At: e.At, Type: e.Type}
	if e.Details != nil {
		details, err := json.Marshal(e.Details)
		if err != nil {
			return nil, fmt.Errorf("history: event %d: %w", e.ID, err)
		}
		out.Details = details
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote; an event of a type that is not
// known here is an error.
func (e *Event) UnmarshalJSON(text []byte) error {
	var in stored
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	*e = Event{ID: in.ID, Previous: in.Previous, At: in.At, Type: in.Type}
	if in.Details == nil {
		return nil
	}
	details, err := decodeDetails(in.Type, in.Details)
	if err != nil {
		return fmt.Errorf("history: event %d: %w", in.ID, err)
	}
	e.Details = details
	return nil
}

// decodeDetails knows which details an event of a type has.
func decodeDetails(kind Type, text []byte) (Details, error) {
	switch kind {
	case ExecutionStarted:
		return decode[Started](text, nil)
	case ExecutionSucceeded:
		return decode[Succeeded](text, nil)
	case ExecutionFailed, ExecutionTimedOut, ExecutionAborted:
		return decode(text, func(d *Ended) { d.Type = kind })
	case ExecutionRedriven:
		return decode[Redriven](text, nil)
	case TaskScheduled:
		return decode[Scheduled](text, nil)
	case TaskStarted:
		return decode[Begun](text, nil)
	case TaskSubmitted, TaskSucceeded:
		return decode(text, func(d *Result) { d.Type = kind })
	case TaskFailed, TaskTimedOut:
		return decode(text, func(d *Problem) { d.Type = kind })
	case MapStateStarted:
		return decode[MapStarted](text, nil)
	case MapIterationStarted, MapIterationSucceeded, MapIterationFailed, MapIterationAborted:
		return decode(text, func(d *Iteration) { d.Type = kind })
	case MapStateSucceeded, MapStateFailed:
		return nil, fmt.Errorf("details of a %s", kind)
	}
	switch {
	case kind.IsEntered():
		return decode[StateEntered](text, nil)
	case kind.IsExited():
		return decode[StateExited](text, nil)
	}
	return nil, fmt.Errorf("unknown type %q", kind)
}

// decode reads details; complete sets what their JSON leaves to the event.
func decode[D Details](text []byte, complete func(*D)) (Details, error) {
	var d D
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	if complete != nil {
		complete(&d)
	}
	return d, nil
}
