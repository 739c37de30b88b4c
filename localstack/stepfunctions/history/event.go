// Package history keeps what happened in an execution: events with ids from 1,
// the id of the event that led to each, and the types, names and details that
// AWS's GetExecutionHistory shows. A Log is bounded as on AWS, and nothing is
// appended after the event that ends the execution. Start with [Event] and [Log].
package history

import (
	"strings"
	"time"
)

// Type is the type of an event.
type Type string

// The types of events without the StateEntered and StateExited ones, which
// Entered and Exited make.
const (
	ExecutionStarted      Type = "ExecutionStarted"
	ExecutionSucceeded    Type = "ExecutionSucceeded"
	ExecutionFailed       Type = "ExecutionFailed"
	ExecutionTimedOut     Type = "ExecutionTimedOut"
	ExecutionAborted      Type = "ExecutionAborted"
	ExecutionRedriven     Type = "ExecutionRedriven"
	TaskScheduled         Type = "TaskScheduled"
	TaskStarted           Type = "TaskStarted"
	TaskSubmitted         Type = "TaskSubmitted"
	TaskSucceeded         Type = "TaskSucceeded"
	TaskFailed            Type = "TaskFailed"
	TaskTimedOut          Type = "TaskTimedOut"
	MapStateStarted       Type = "MapStateStarted"
	MapStateSucceeded     Type = "MapStateSucceeded"
	MapStateFailed        Type = "MapStateFailed"
	MapIterationStarted   Type = "MapIterationStarted"
	MapIterationSucceeded Type = "MapIterationSucceeded"
	MapIterationFailed    Type = "MapIterationFailed"
	MapIterationAborted   Type = "MapIterationAborted"
)

const entered, exited = "StateEntered", "StateExited"

// Entered is the type of event for a state of this type being entered.
func Entered(stateType string) Type { return Type(stateType + entered) }

// Exited is the type of event for a state of this type being left.
func Exited(stateType string) Type { return Type(stateType + exited) }

// IsEntered tells whether a state was entered.
func (t Type) IsEntered() bool { return strings.HasSuffix(string(t), entered) }

// IsExited tells whether a state was left.
func (t Type) IsExited() bool { return strings.HasSuffix(string(t), exited) }

// Aborted is the type of event for a state of this type being given up.
func Aborted(stateType string) Type { return Type(stateType + "StateAborted") }

// Event is one entry of a history.
type Event struct {
	ID       int64
	Previous int64
	At       time.Time
	Type     Type
	Details  Details // nil if the type has none
}

// Details is one of the detail types of this package.
type Details interface {
	// member is the name under which the details are sent.
	member() string
	// withoutData drops what includeExecutionData=false hides.
	withoutData() Details
}

// Truncation says whether data was cut; it never is here.
type Truncation struct {
	Truncated bool `json:"truncated"`
}

// Started details an ExecutionStarted event.
type Started struct {
	Input        string      `json:"input,omitempty"`
	InputDetails *Truncation `json:"inputDetails,omitempty"`
	RoleARN      string      `json:"roleArn"`
}

// Succeeded details an ExecutionSucceeded event.
type Succeeded struct {
	Output        string      `json:"output,omitempty"`
	OutputDetails *Truncation `json:"outputDetails,omitempty"`
}

// Ended details an execution that failed, timed out or was aborted.
type Ended struct {
	Type  Type   `json:"-"`
	Error string `json:"error,omitempty"`
	Cause string `json:"cause,omitempty"`
}

// Redriven details an ExecutionRedriven event.
type Redriven struct {
	Count int `json:"redriveCount"`
}

// StateEntered details a state being entered.
type StateEntered struct {
	Name         string      `json:"name"`
	Input        string      `json:"input,omitempty"`
	InputDetails *Truncation `json:"inputDetails,omitempty"`
}

// StateExited details a state being left.
type StateExited struct {
	Name          string      `json:"name"`
	Output        string      `json:"output,omitempty"`
	OutputDetails *Truncation `json:"outputDetails,omitempty"`
}

// Resource names what a task calls, such as lambda and invoke.
type Resource struct {
	ResourceType string `json:"resourceType"`
	Resource     string `json:"resource"`
}

// Scheduled details a TaskScheduled event.
type Scheduled struct {
	Resource
	Region             string `json:"region"`
	Parameters         string `json:"parameters"` // required by the API, so empty when data is left out
	TimeoutInSeconds   int64  `json:"timeoutInSeconds,omitempty"`
	HeartbeatInSeconds int64  `json:"heartbeatInSeconds,omitempty"`
}

// Begun details a TaskStarted event.
type Begun struct{ Resource }

// Result details a TaskSubmitted or TaskSucceeded event.
type Result struct {
	Resource
	Type          Type        `json:"-"`
	Output        string      `json:"output,omitempty"`
	OutputDetails *Truncation `json:"outputDetails,omitempty"`
}

// Problem details a TaskFailed or TaskTimedOut event.
type Problem struct {
	Resource
	Type  Type   `json:"-"`
	Error string `json:"error,omitempty"`
	Cause string `json:"cause,omitempty"`
}

// MapStarted details a MapStateStarted event.
type MapStarted struct {
	Length int `json:"length"`
}

// Iteration details the events of one iteration of a Map.
type Iteration struct {
	Type  Type   `json:"-"`
	Name  string `json:"name"`
	Index int    `json:"index"`
}
