package asl

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// parameters lists what the call behind a resource takes here; required ones are true.
var parameters = map[Resource]map[string]bool{
	InvokeLambda:        {"FunctionName": true, "Payload": false, "Qualifier": false},
	InvokeLambdaAndWait: {"FunctionName": true, "Payload": false, "Qualifier": false},
	StartExecution:      {"StateMachineArn": true, "Name": false, "Input": false},
}

func (f *fields) task(base Common) State {
	f.transition(&base)
	state := &Task{
		Common: base, ResultSelector: f.template("ResultSelector"), ResultPath: f.resultPath(),
		Timeout: f.seconds("TimeoutSeconds", 1), Heartbeat: f.seconds("HeartbeatSeconds", 1),
		Retry: f.retry(), Catch: f.catch(),
	}
	f.require("Resource", "Parameters")
	resource, _ := f.text("Resource")
	state.Resource = Resource(resource)
	allowed, known := parameters[state.Resource]
	if f.has("Resource") && !known {
		f.fail("Resource", "The resource '%s' is not supported. Supported resources: %v", resource, slices.Sorted(maps.Keys(parameters)))
	}
	if given := f.template("Parameters"); given != nil {
		state.Parameters = *given
		if known {
			f.checkParameters(*given, allowed)
		}
	}
	if t, h := state.Timeout, state.Heartbeat; t.Literal > 0 && h.Literal > 0 && h.Literal >= t.Literal {
		f.fail("HeartbeatSeconds", "HeartbeatSeconds must be smaller than TimeoutSeconds")
	}
	return state
}

func (f *fields) checkParameters(given Template, allowed map[string]bool) {
	names := given.MemberNames()
	for _, name := range names {
		if _, ok := allowed[name]; !ok {
			f.fail("Parameters", "The field '%s' is not supported in the parameters of this resource", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		if allowed[name] && !slices.Contains(names, name) {
			f.fail("Parameters", "The field '%s' is required but was missing", name)
		}
	}
}

func (f *fields) retry() []Retrier {
	var out []Retrier
	f.each("Retry", func(r *fields, last bool) {
		out = append(out, Retrier{
			ErrorEquals: r.errorEquals(last),
			Interval:    time.Duration(r.integer("IntervalSeconds", 1, maxSeconds, 1)) * time.Second,
			MaxAttempts: int(r.integer("MaxAttempts", 0, maxSeconds, 3)),
			BackoffRate: r.backoff(),
			MaxDelay:    time.Duration(r.integer("MaxDelaySeconds", 1, maxRetryDelaySeconds, 0)) * time.Second,
			FullJitter:  r.oneOf("JitterStrategy", "FULL", "NONE") == "FULL",
		})
	})
	return out
}

func (f *fields) catch() []Catcher {
	var out []Catcher
	f.each("Catch", func(c *fields, last bool) {
		c.require("Next")
		next, _ := c.text("Next")
		out = append(out, Catcher{ErrorEquals: c.errorEquals(last), ResultPath: c.resultPath(), Next: next})
	})
	return out
}

// each reads a list of objects; read learns whether it has the last one.
func (f *fields) each(name string, read func(item *fields, last bool)) {
	value, ok := f.take(name)
	if !ok {
		return
	}
	list, ok := value.([]any)
	if !ok {
		f.fail(name, "Expected value of type Array")
		return
	}
	for i, element := range list {
		item, ok := f.parser.fields(element, fmt.Sprintf("%s/%d", f.place(name), i))
		if !ok {
			continue
		}
		item.text("Comment")
		read(item, i == len(list)-1)
		item.done()
	}
}

func (f *fields) backoff() float64 {
	value, ok := f.take("BackoffRate")
	if !ok {
		return 2
	}
	if n, isNumber := value.(json.Number); isNumber {
		if rate, err := n.Float64(); err == nil && rate >= 1 {
			return rate
		}
	}
	f.fail("BackoffRate", "Expected a number of at least 1.0")
	return 2
}

// stateErrors are the error names that the language reserves.
var stateErrors = []string{
	ErrorAll, ErrorDataLimitExceeded, ErrorHeartbeatTimeout, ErrorIntrinsicFailure, ErrorNoChoiceMatched,
	ErrorParameterPathFailure, ErrorPermissions, ErrorResultPathMatchFailure, ErrorRuntime, ErrorTaskFailed, ErrorTimeout,
}

// The reserved names of errors that occur here.
const (
	ErrorAll                    = "States.ALL"
	ErrorDataLimitExceeded      = "States.DataLimitExceeded"
	ErrorHeartbeatTimeout       = "States.HeartbeatTimeout"
	ErrorIntrinsicFailure       = "States.IntrinsicFailure"
	ErrorNoChoiceMatched        = "States.NoChoiceMatched"
	ErrorParameterPathFailure   = "States.ParameterPathFailure"
	ErrorPermissions            = "States.Permissions"
	ErrorResultPathMatchFailure = "States.ResultPathMatchFailure"
	ErrorRuntime                = "States.Runtime"
	ErrorTaskFailed             = "States.TaskFailed"
	ErrorTimeout                = "States.Timeout"
)

func (f *fields) errorEquals(last bool) []string {
	f.require("ErrorEquals")
	value, ok := f.take("ErrorEquals")
	if !ok {
		return nil
	}
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		f.fail("ErrorEquals", "Expected a list of at least one error name")
		return nil
	}
	var names []string
	for _, element := range list {
		name, ok := element.(string)
		switch {
		case !ok || name == "":
			f.fail("ErrorEquals", "Expected error names of type String")
		case strings.HasPrefix(name, "States.") && !slices.Contains(stateErrors, name):
			f.fail("ErrorEquals", "The error name '%s' is reserved and does not occur here", name)
		case name == ErrorAll && (len(list) > 1 || !last):
			f.fail("ErrorEquals", "'%s' must be alone in ErrorEquals, and the last in the list", ErrorAll)
		default:
			names = append(names, name)
		}
	}
	return names
}
