package history

import (
	"strings"
	"time"
)

// Whole is the mark of data that was not cut.
func Whole() *Truncation { return &Truncation{} }

// Wire returns the event as a member list for JSON; timestamps are seconds of
// the epoch with milliseconds. Without data, inputs, outputs and parameters
// are left out.
func (e Event) Wire(withData bool) map[string]any {
	out := map[string]any{
		"id": e.ID, "previousEventId": e.Previous, "type": e.Type, "timestamp": Seconds(e.At),
	}
	if e.Details == nil {
		return out
	}
	details := e.Details
	if !withData {
		details = details.withoutData()
	}
	out[details.member()] = details
	return out
}

// Seconds is a time as AWS's JSON protocol sends it.
func Seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

// memberOf derives the name from a type, as in taskFailedEventDetails.
func memberOf(t Type) string {
	return strings.ToLower(string(t[:1])) + string(t[1:]) + "EventDetails"
}

func (Started) member() string      { return memberOf(ExecutionStarted) }
func (Succeeded) member() string    { return memberOf(ExecutionSucceeded) }
func (d Ended) member() string      { return memberOf(d.Type) }
func (Redriven) member() string     { return memberOf(ExecutionRedriven) }
func (StateEntered) member() string { return "stateEnteredEventDetails" }
func (StateExited) member() string  { return "stateExitedEventDetails" }
func (Scheduled) member() string    { return memberOf(TaskScheduled) }
func (Begun) member() string        { return memberOf(TaskStarted) }
func (d Result) member() string     { return memberOf(d.Type) }
func (d Problem) member() string    { return memberOf(d.Type) }
func (MapStarted) member() string   { return memberOf(MapStateStarted) }
func (d Iteration) member() string  { return memberOf(d.Type) }

func (d Started) withoutData() Details {
	d.Input, d.InputDetails = "", nil
	return d
}

func (d Succeeded) withoutData() Details {
	d.Output, d.OutputDetails = "", nil
	return d
}

func (d StateEntered) withoutData() Details {
	d.Input, d.InputDetails = "", nil
	return d
}

func (d StateExited) withoutData() Details {
	d.Output, d.OutputDetails = "", nil
	return d
}

func (d Scheduled) withoutData() Details {
	d.Parameters = ""
	return d
}

func (d Result) withoutData() Details {
	d.Output, d.OutputDetails = "", nil
	return d
}

func (d Ended) withoutData() Details      { return d }
func (d Redriven) withoutData() Details   { return d }
func (d Begun) withoutData() Details      { return d }
func (d Problem) withoutData() Details    { return d }
func (d MapStarted) withoutData() Details { return d }
func (d Iteration) withoutData() Details  { return d }
