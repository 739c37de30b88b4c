package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"
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
	// Times is how many requests the rule applies to; zero means one. An
	// [Outage] has none: it strikes every match until it is over.
	Times int `json:"times,omitzero"`
	// Effect is what happens.
	Effect Effect `json:"effect"`
	// Status is the HTTP status answered by [AnswerError], 400 to 599; zero means 400.
	Status int `json:"status,omitzero"`
	// Code is the AWS error code answered by [AnswerError].
	Code string `json:"code,omitzero"`
	// Message is the text answered by [AnswerError].
	Message string `json:"message,omitzero"`
	// Milliseconds is how long [Delay] holds, 1 to 3,600,000, and how long an
	// [Outage] lasts from its first match on; an outage without it lasts until
	// the rule is taken out.
	Milliseconds int `json:"milliseconds,omitzero"`
	// Of is what [Delay] holds; empty means [TheRequest].
	Of Part `json:"of,omitzero"`
}

// ArmedRule is a rule with what it has seen and done so far.
type ArmedRule struct {
	Rule
	// Matches counts the requests that fitted the rule's matching fields.
	Matches int `json:"matches"`
	// Hits counts the requests the effect was applied to.
	Hits int `json:"hits"`
}

// armed is a rule in a plan.
type armed struct {
	ArmedRule
	// over is when an outage that has begun ends; zero means at no set time.
	over time.Time
	// out is closed once the rule is taken out of the plan.
	out chan struct{}
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

// maxMilliseconds is an hour: longer than anything waits here.
const maxMilliseconds = 3_600_000

// normalise fills the defaults in and reports every wrong field.
func (r Rule) normalise() (Rule, error) {
	var bad RuleError
	if r.Nth == 0 {
		r.Nth = 1
	}
	if r.Times == 0 && r.Effect != Outage {
		r.Times = 1
	}
	if r.Nth < 1 {
		bad.add("nth", "must be at least 1")
	}
	if r.Times < 1 && r.Effect != Outage {
		bad.add("times", "must be at least 1")
	}
	if strings.Contains(r.ID, "/") || len(r.ID) > 128 {
		bad.add("id", "must be at most 128 bytes without a slash")
	}
	if r.Service != "" && !slices.Contains(Services(), r.Service) {
		bad.add("service", "unknown service %q, known are %v", r.Service, Services())
	}
	r.checkOperation(&bad)
	if r.Function != "" && r.Service != "" && r.Service != Lambda {
		bad.add("function", "only requests for lambda name a function")
	}
	if !r.Effect.known() {
		bad.add("effect", "unknown effect %q, known are %v", r.Effect, Effects())
		return r, bad.orNil()
	}
	r.refuseForeign(&bad)
	r = r.normaliseAnswer(&bad).normaliseTime(&bad)
	return r, bad.orNil()
}

// refuseForeign reports the fields that the rule's effect does not have.
func (r Rule) refuseForeign(bad *RuleError) {
	if r.Effect == Outage && r.Times != 0 {
		bad.add("times", "not for effect %q, which strikes every match until it is over", Outage)
	}
	for _, f := range []struct {
		name    string
		given   bool
		effects []Effect
	}{
		{"status", r.Status != 0, []Effect{AnswerError}},
		{"code", r.Code != "", []Effect{AnswerError}},
		{"message", r.Message != "", []Effect{AnswerError}},
		{"milliseconds", r.Milliseconds != 0, []Effect{Delay, Outage}},
		{"of", r.Of != "", []Effect{Delay}},
	} {
		if f.given && !slices.Contains(f.effects, r.Effect) {
			bad.add(f.name, "only for effect %q", f.effects)
		}
	}
}

func (r Rule) normaliseAnswer(bad *RuleError) Rule {
	if r.Effect != AnswerError {
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

func (r Rule) normaliseTime(bad *RuleError) Rule {
	if r.Effect != Delay && r.Effect != Outage {
		return r
	}
	switch {
	case r.Effect == Delay && r.Milliseconds == 0:
		bad.add("milliseconds", "required by effect %q", Delay)
	case r.Milliseconds < 0 || r.Milliseconds > maxMilliseconds:
		bad.add("milliseconds", "must be from 1 to %d", maxMilliseconds)
	}
	if r.Effect == Delay && r.Of == "" {
		r.Of = TheRequest
	}
	if r.Effect == Delay && !slices.Contains(Parts(), r.Of) {
		bad.add("of", "unknown part %q, known are %v", r.Of, Parts())
	}
	return r
}

func (r Rule) length() time.Duration { return time.Duration(r.Milliseconds) * time.Millisecond }

// fits reports whether every matching field but Contains fits the request.
func (r Rule) fits(req Request) bool {
	return (r.Service == "" || r.Service == req.Service) &&
		(r.Operation == "" || r.Operation == req.Operation) &&
		(r.Function == "" || r.Function == req.Function) &&
		(r.Caller == "" || r.Caller == req.Caller) &&
		(!r.Effect.needsCaller() || req.Caller != "")
}

// spent reports whether the rule has been applied as often, or for as long, as
// it may be.
func (a *armed) spent() bool {
	if a.Effect == Outage {
		return !a.over.IsZero() && !time.Now().Before(a.over)
	}
	return a.Hits >= a.Times
}

// match counts a request that fits and reports whether the rule is due. The
// match that makes an outage due starts its clock, even if another rule is
// applied to that request.
func (a *armed) match() bool {
	a.Matches++
	if a.Effect == Outage && a.Matches == a.Nth && a.Milliseconds > 0 {
		a.over = time.Now().Add(a.length())
	}
	return a.Matches >= a.Nth
}
