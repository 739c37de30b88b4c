package once

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda/messages"

	"github.com/onceward/onceward/middleware/ledger"
)

// Report is all that is known of an invocation, without its result.
type Report struct {
	Key        ledger.Key // zero if the request named none that is well formed
	Tool       string
	Status     Status
	Effect     ledger.Effect // of the call, whoever ran it
	Next       ledger.Next   // what an orchestrator should do
	Attempt    int
	Replayed   bool // answered from the ledger; the tool did not run now
	Joined     bool // waited for another attempt
	ExternalID string
	Code       string // why, in one stable word of [Codes]; "" when completed
	Message    string
	ModelSays  string        // the fixed sentence for the model
	RetryAfter time.Duration // before asking again
	Since      time.Time     // when the record's attempt started; zero without one
}

// Error is an outcome without a result. It reads the same on a first run and on
// a replay, so it never wraps what the handler returned: Code and Message are
// what was stored of that.
type Error struct {
	Report
	err error // the store's, or that of Wrap's identify
}

// Error implements error.
func (e *Error) Error() string {
	words := []string{"once"}
	if e.Tool != "" {
		words = append(words, e.Tool)
	}
	if e.Key != (ledger.Key{}) {
		words = append(words, e.Key.String())
	}
	words = append(words, string(e.Status))
	if e.Code != "" {
		words = append(words, e.Code)
	}
	if e.Message != "" {
		words = append(words, e.Message)
	}
	return strings.Join(words, ": ")
}

// Is matches the [Status].
func (e *Error) Is(target error) bool {
	s, ok := target.(Status)
	return ok && s == e.Status
}

// Unwrap returns the store's error, or that of Wrap's identify, if that is why
// the call was refused or could not be recorded.
func (e *Error) Unwrap() error { return e.err }

// LambdaError turns an error of a wrapped function into one that Step Functions
// sees by name, such as "Onceward.InProgress". Return it unwrapped. Other errors
// stay as they are.
func LambdaError(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return messages.InvokeResponse_Error{Type: errorName(e.Status), Message: e.Error()}
	}
	return err
}

// errorName returns "Onceward.InProgress" for in_progress.
func errorName(s Status) string {
	var name strings.Builder
	name.WriteString("Onceward.")
	for word := range strings.SplitSeq(string(s), "_") {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}

// refusal is the start of a refused report; the ledger has not been asked yet,
// so it says the least that is known.
func refusal(key ledger.Key, code, format string, args ...any) *Error {
	message := sentences[code]
	if format != "" {
		message = fmt.Sprintf(format, args...)
	}
	return &Error{Report: Report{
		Key: key, Status: Refused, Effect: ledger.Unknown, Next: ledger.Inspect,
		Code: code, Message: ledger.Shorten(message, ledger.MaxMessage),
	}}
}
