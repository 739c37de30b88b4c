package faults

import (
	"fmt"
	"slices"
	"strings"
)

// Rule names the requests it applies to and what happens to them. Empty
// matching fields match everything.
type Rule struct {
	// ID names the rule; [Plan.Arm] chooses one where it is empty.
	ID string `json:"id"`
	// Service is the service asked, see [Services].
	Service Service `json:"service,omitzero"`
	// Operation is the API operation: the part of X-Amz-Target after the dot,
	// Invoke for an invocation, the last verb of an operator's request.
	Operation string `json:"operation,omitzero"`
	// Function is the function that a Lambda request is for.
	Function string `json:"function,omitzero"`
	// Caller is the name of the function whose sandbox sends the request.
	Caller string `json:"caller,omitzero"`
	// Contains must occur in the request's body, in its first 8 MiB.
	Contains string `json:"contains,omitzero"`
	// Nth is the match from which on the rule applies; zero means the first.
	Nth int `json:"nth"`
	// Times is how many requests the rule applies to; zero means one.
	Times int `json:"times"`
	// Effect is what happens.
	Effect Effect `json:"effect"`
	// Status is the HTTP status answered by [AnswerError], 400 to 599; zero means 400.
	Status int `json:"status,omitzero"`
	// Code is the AWS error code answered by [AnswerError].
	Code string `json:"code,omitzero"`
	// Message is the text answered by [AnswerError].
	Message string `json:"message,omitzero"`
}

// ArmedRule is a rule with what it has seen and done so far.
type ArmedRule struct {
	Rule
	// Matches counts the requests that fitted the rule's matching fields.
	Matches int `json:"matches"`
	// Hits counts the requests the effect was applied to.
	Hits int `json:"hits"`
}

// FieldError names one wrong field of a rule.
type FieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// RuleError is why a rule was not armed: every wrong field, by name.
type RuleError struct {
	Fields []FieldError
}

// Error lists the wrong fields.
func (e *RuleError) Error() string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = f.Field + ": " + f.Detail
	}

	return "faults: rule refused: " + strings.Join(parts, "; ")
}

func (e *RuleError) add(field, format string, args ...any) {
	e.Fields = append(e.Fields, FieldError{Field: field, Detail: fmt.Sprintf(format, args...)})
}

func (e *RuleError) orNil() error {
	if len(e.Fields) == 0 {
		return nil
	}

	return e
}

// normalise fills the defaults in and reports every wrong field.
func (r Rule) normalise() (Rule, error) {
	var bad RuleError
	if r.Nth == 0 {
		r.Nth = 1
	}
	if r.Times == 0 {
		r.Times = 1
	}
	if r.Nth < 1 {
		bad.add("nth", "must be at least 1")
	}
	if r.Times < 1 {
		bad.add("times", "must be at least 1")
	}
	if strings.Contains(r.ID, "/") || len(r.ID) > 128 {
		bad.add("id", "must be at most 128 bytes without a slash")
	}
	if r.Service != "" && !slices.Contains(Services(), r.Service) {
		bad.add("service", "unknown service %q, known are %v", r.Service, Services())
	}
	if r.Function != "" && r.Service != "" && r.Service != Lambda {
		bad.add("function", "only requests for lambda name a function")
	}
	r = r.normaliseEffect(&bad)

	return r, bad.orNil()
}

func (r Rule) normaliseEffect(bad *RuleError) Rule {
	if !r.Effect.known() {
		bad.add("effect", "unknown effect %q, known are %v", r.Effect, Effects())

		return r
	}
	if r.Effect != AnswerError {
		r.refuseAnswer(bad)

		return r
	}
	if r.Status == 0 {
		r.Status = 400
	}
	if r.Status < 400 || r.Status > 599 {
		bad.add("status", "must be from 400 to 599")
	}
	if r.Code == "" {
		bad.add("code", "required by effect %q", AnswerError)
	}

	return r
}

func (r Rule) refuseAnswer(bad *RuleError) {
	if r.Status != 0 {
		bad.add("status", "only for effect %q", AnswerError)
	}
	if r.Code != "" {
		bad.add("code", "only for effect %q", AnswerError)
	}
	if r.Message != "" {
		bad.add("message", "only for effect %q", AnswerError)
	}
}

// fits reports whether every matching field but Contains fits the request.
func (r *ArmedRule) fits(req Request) bool {
	return (r.Service == "" || r.Service == req.Service) &&
		(r.Operation == "" || r.Operation == req.Operation) &&
		(r.Function == "" || r.Function == req.Function) &&
		(r.Caller == "" || r.Caller == req.Caller) &&
		(!r.Effect.needsCaller() || req.Caller != "")
}

// spent reports whether the rule has been applied as often as it may be.
func (r *ArmedRule) spent() bool { return r.Hits >= r.Times }
