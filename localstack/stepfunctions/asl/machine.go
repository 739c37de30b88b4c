// Package asl reads the subset of the Amazon States Language that the local
// Step Functions runs: JSONPath, the states Pass, Task, Choice, Wait, Map
// (inline), Succeed and Fail. Parse checks a whole definition and refuses, with
// its place, everything that it does not know, so that nothing is ignored.
// Start at Parse and Machine; running a state is the interpreter's work.
package asl

import (
	"time"
)

// Machine is a definition that has been checked.
type Machine struct {
	Workflow
	Comment string
	Timeout time.Duration // of one execution; 0 means none
}

// Workflow is a set of states and where to start: a machine, or what a Map
// runs for each item.
type Workflow struct {
	StartAt string
	States  map[string]State
}

// State is one of *Pass, *Task, *Choice, *Wait, *Map, *Succeed, *Fail.
type State interface {
	// Base returns what all states have.
	Base() *Common
}

// Common holds the fields that most states have.
type Common struct {
	Name       string
	Type       string
	Next       string // empty at an end, in a Choice, Succeed or Fail
	InputPath  *Path  // nil means null: the input is {}
	OutputPath *Path  // nil means null: the output is {}
}

// Base returns c itself, so that a State embeds it.
func (c *Common) Base() *Common { return c }

// ResultPath says where a result goes.
type ResultPath struct {
	Discard bool // the result is dropped and the input goes on
	Path    Path // $ replaces the input
}

// Pass hands its input on, changed as its fields say.
type Pass struct {
	Common
	Parameters *Template
	Result     any // a literal; HasResult tells null from absent
	HasResult  bool
	ResultPath ResultPath
}

// Resource is what a Task calls.
type Resource string

// The resources that a Task may name.
const (
	InvokeLambda        Resource = "arn:aws:states:::lambda:invoke"
	InvokeLambdaAndWait Resource = "arn:aws:states:::lambda:invoke.waitForTaskToken"
	StartExecution      Resource = "arn:aws:states:::states:startExecution"
)

// The greatest numbers of seconds, of waits and timeouts and of MaxDelaySeconds.
const (
	maxSeconds           = 99_999_999
	maxRetryDelaySeconds = 31_622_399
)

// WaitsForToken tells whether the task ends by an answer to its token.
func (r Resource) WaitsForToken() bool { return r == InvokeLambdaAndWait }

// Task calls a resource.
type Task struct {
	Common
	Resource       Resource
	Parameters     Template
	ResultSelector *Template
	ResultPath     ResultPath
	Timeout        Seconds
	Heartbeat      Seconds
	Retry          []Retrier
	Catch          []Catcher
}

// Seconds is a literal, a path to a number, or (the zero value) absent.
type Seconds struct {
	Literal int64
	Path    *Path
	Given   bool
}

// Retrier says which errors are tried again, and when.
type Retrier struct {
	ErrorEquals []string
	Interval    time.Duration
	MaxAttempts int
	BackoffRate float64
	MaxDelay    time.Duration // 0 means unbounded
	FullJitter  bool
}

// Catcher says where an error leads.
type Catcher struct {
	ErrorEquals []string
	ResultPath  ResultPath
	Next        string
}

// Choice picks the next state by the first rule that holds.
type Choice struct {
	Common
	Rules   []Rule
	Default string // empty: no match is an error
}

// Rule is a condition and where it leads.
type Rule struct {
	Condition
	Next string
}

// Condition is And, Or, Not, or a comparison of Variable; exactly one is set.
type Condition struct {
	And      []Condition
	Or       []Condition
	Not      *Condition
	Compare  *Comparison
	Operator string // the field's name, such as And or StringEquals
}

// Comparison compares the value at Variable with Value or, if set, with the
// value at ValuePath.
type Comparison struct {
	Variable  Path
	Operation Operation
	Value     any
	ValuePath *Path
}

// Operation is what a comparison does, without "Path" at its end.
type Operation struct {
	Kind  OperandKind
	Order Order
}

// Wait pauses; exactly one of its fields is given.
type Wait struct {
	Common
	Seconds       Seconds
	Timestamp     time.Time
	TimestampPath *Path
}

// Map runs a workflow for each item of a list.
type Map struct {
	Common
	ItemsPath      Path
	ItemSelector   *Template
	Concurrency    int   // 0 means as many as allowed
	ConcurrentPath *Path // to a number, instead of Concurrency
	Processor      Workflow
	ResultSelector *Template
	ResultPath     ResultPath
	Retry          []Retrier
	Catch          []Catcher
}

// Succeed ends the workflow.
type Succeed struct{ Common }

// Fail ends the workflow with an error.
type Fail struct {
	Common
	Error, Cause     string
	ErrorAt, CauseAt *Expression // instead of Error and Cause
}
