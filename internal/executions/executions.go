// Package executions says how an execution of a state machine is started and
// looked at by its name, which is all that a run's record knows of its driver.
// Start with [Machine]; executions/sfnexecutions is one through Step Functions,
// and executions/memexecutions one in memory, for tests.
package executions

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
)

// State is what is known of an execution.
type State string

// The states.
const (
	Missing   State = "missing" // never started, or its history has been removed
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	TimedOut  State = "timed_out"
	Aborted   State = "aborted"
)

// Ended reports whether an execution in this state does nothing any more.
func (s State) Ended() bool {
	switch s {
	case Succeeded, Failed, TimedOut, Aborted:
		return true
	case Missing, Running:
	}
	return false
}

// ErrRefused reports that the service surely started nothing: it throttled, or
// the request was wrong. After any other error of [Machine.Start] it is not
// known whether the execution runs.
var ErrRefused = errors.New("executions: refused, nothing was started")

// Machine starts and looks at executions of the state machine with the ARN
// machine, which may name a version or an alias; a name is one execution's on all
// of them. It must be safe for concurrent use.
type Machine interface {
	// Start starts the execution named name and returns Running. If there has
	// been one of that name already nothing is started, whatever its input, and
	// its state is returned: to start again by the same name is always safe.
	Start(ctx context.Context, machine, name string, input json.RawMessage) (State, error)

	// State looks the execution up, consistently enough that one which Start has
	// answered for is never missing. An error says nothing of the execution.
	State(ctx context.Context, machine, name string) (State, error)
}

// Unversioned returns the ARN of a state machine without its version or alias,
// as the ARNs of its executions know it. Any other text is returned as it is.
func Unversioned(machine string) string {
	// arn:partition:states:region:account:stateMachine:name[:version]
	const fields = 7
	parts := strings.Split(machine, ":")
	if len(parts) <= fields || parts[5] != "stateMachine" {
		return machine
	}
	return strings.Join(parts[:fields], ":")
}
