package interpreter

import (
	"fmt"
	"unicode/utf8"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
)

// Failure is an error in the sense of the language: a name to retry or catch
// by, and a text. A fatal one can be neither retried nor caught.
type Failure struct {
	Error, Cause string
	Fatal        bool
	// FromTask is set when a called resource reported the error; States.ALL
	// catches States.DataLimitExceeded only then.
	FromTask bool
}

// output is what a catcher writes. A name or cause that nobody gave is null; a
// timeout has an empty cause.
func (f *Failure) output() map[string]any {
	out := map[string]any{"Error": f.Error, "Cause": f.Cause}
	if f.Error == "" {
		out["Error"] = nil
	}
	if f.Cause == "" && !f.isTimeout() {
		out["Cause"] = nil
	}
	return out
}

func (f *Failure) isTimeout() bool {
	return f.Error == asl.ErrorTimeout || f.Error == asl.ErrorHeartbeatTimeout
}

// maxCause is the greatest length of a cause in characters.
const maxCause = 32_768

// NewFailure returns a failure whose cause is cut to the length that AWS keeps.
func NewFailure(name, cause string) *Failure {
	if utf8.RuneCountInString(cause) > maxCause {
		cause = string([]rune(cause)[:maxCause])
	}
	return &Failure{Error: name, Cause: cause}
}

// runtime makes a States.Runtime failure, which ends the execution.
func (e *evaluation) runtime(format string, args ...any) *Failure {
	failure := NewFailure(asl.ErrorRuntime, fmt.Sprintf("An error occurred while executing the state '%s' (entered at the event id #%d). ",
		e.context.StateName, e.context.EnteredEvent)+fmt.Sprintf(format, args...))
	failure.Fatal = true
	return failure
}

// tooLarge is for what a state makes itself; States.ALL does not catch it.
func tooLarge(name string) *Failure {
	return NewFailure(asl.ErrorDataLimitExceeded,
		fmt.Sprintf("The state/task '%s' returned a result with a size exceeding the maximum number of bytes service limit.", name))
}

// MapTooLarge is the failure of a Map whose results together are above the
// limit; States.ALL does not catch it.
func MapTooLarge(name string) *Failure { return tooLarge(name) }

// ResultTooLarge is the failure of a called resource whose result is above the
// limit; resourceType is such as "lambda".
func ResultTooLarge(resourceType string) *Failure {
	failure := tooLarge(resourceType)
	failure.FromTask = true
	return failure
}

// Failed is what a Fail state asks for.
type Failed struct{ Failure *Failure }

func (Failed) step() {}

func (e *evaluation) fail(s *asl.Fail, raw any) (Step, *Failure) {
	name, failure := e.failText(s.Error, s.ErrorAt, "ErrorPath", raw)
	if failure != nil {
		return nil, failure
	}
	cause, failure := e.failText(s.Cause, s.CauseAt, "CausePath", raw)
	if failure != nil {
		return nil, failure
	}
	return Failed{Failure: NewFailure(name, cause)}, nil
}

func (e *evaluation) failText(text string, at *asl.Expression, field string, raw any) (string, *Failure) {
	if at == nil {
		return text, nil
	}
	value, failure := e.expression(*at, field, raw)
	if failure != nil {
		return "", failure
	}
	text, ok := value.(string)
	if !ok {
		return "", e.runtime("The field '%s' must refer to a string", field)
	}
	return text, nil
}
