// Package machine holds the state machine round the plain Lambda function, with
// a Retry and neither ledger nor guard: the comparison that the demo pays twice
// with. Start with [Definition].
package machine

import _ "embed"

//go:embed plain.asl.json
var definition string

// Names of the comparison's resources.
const (
	Function = "plain"
	Name     = "plain-payment"
)

// Definition returns the state machine's definition.
func Definition() string { return definition }
