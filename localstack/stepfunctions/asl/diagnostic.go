package asl

import (
	"fmt"
	"strings"
)

// The codes of diagnostics, as AWS names them.
const (
	CodeNotJSON    = "INVALID_JSON_DESCRIPTION"
	CodeSchema     = "SCHEMA_VALIDATION_FAILED"
	CodeTransition = "MISSING_TRANSITION_TARGET"
)

// Diagnostic is one thing that is wrong with a definition.
type Diagnostic struct {
	Code     string
	Message  string
	Location string // JSON pointer; empty if there is no place
}

// String returns code, message and place as AWS prints them.
func (d Diagnostic) String() string {
	if d.Location == "" {
		return d.Code + ": " + d.Message
	}
	return fmt.Sprintf("%s: %s at %s", d.Code, d.Message, d.Location)
}

// DefinitionError is returned by Parse; it names everything that is wrong.
type DefinitionError struct {
	Diagnostics []Diagnostic
}

// Error lists the diagnostics.
func (e *DefinitionError) Error() string {
	all := make([]string, len(e.Diagnostics))
	for i, d := range e.Diagnostics {
		all[i] = d.String()
	}
	return "asl: " + strings.Join(all, ", ")
}

var pointerTokens = strings.NewReplacer("~", "~0", "/", "~1")

// pointerEscape writes a member name as a token of a JSON pointer (RFC 6901).
func pointerEscape(name string) string { return pointerTokens.Replace(name) }
