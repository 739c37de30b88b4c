package interpreter

import (
	"encoding/json"
	"time"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// Call means that the state wants a resource to be called.
type Call struct {
	Resource   asl.Resource
	Parameters map[string]any
	Timeout    time.Duration // 0 means none
	Heartbeat  time.Duration // 0 means none
}

func (Call) step() {}

// textParameters are the parameters, of any resource, that must be strings.
var textParameters = []string{"FunctionName", "Qualifier", "StateMachineArn", "Name"}

func (e *evaluation) task(s *asl.Task, input any) (Step, *Failure) {
	value, failure := e.template(s.Parameters, "Parameters", input)
	if failure != nil {
		return nil, failure
	}
	parameters, ok := value.(map[string]any)
	if !ok {
		return nil, e.runtime("The Parameters must be an object")
	}
	if len(jsonvalue.MustEncode(value)) > jsonvalue.MaxBytes {
		return nil, tooLarge(s.Name)
	}
	for _, name := range textParameters {
		if given, ok := parameters[name]; ok {
			if _, ok := given.(string); !ok {
				return nil, e.runtime("The Parameters '%s' could not be used to start the Task: [The value for the field '%s' must be a STRING]", jsonvalue.MustEncode(value), name)
			}
		}
	}
	call := Call{Resource: s.Resource, Parameters: parameters}
	if call.Timeout, failure = e.duration("TimeoutSecondsPath", s.Timeout, input); failure != nil {
		return nil, failure
	}
	if call.Heartbeat, failure = e.duration("HeartbeatSecondsPath", s.Heartbeat, input); failure != nil {
		return nil, failure
	}
	if call.Timeout > 0 && call.Heartbeat >= call.Timeout {
		return nil, e.runtime("HeartbeatSeconds must be smaller than TimeoutSeconds")
	}
	return call, nil
}

const maxSeconds = 99_999_999

// duration reads the seconds of a timeout.
func (e *evaluation) duration(field string, s asl.Seconds, input any) (time.Duration, *Failure) {
	seconds := s.Literal
	if s.Path != nil {
		value, failure := e.at(*s.Path, input)
		if failure != nil {
			return 0, failure
		}
		n, ok := value.(json.Number)
		if ok {
			seconds, ok = jsonvalue.Int64(n)
		}
		if !ok || seconds < 1 || seconds > maxSeconds {
			return 0, e.runtime("The %s field refers to value \"%s\" which is not a positive integer up to %d: %s", field, jsonvalue.MustEncode(value), maxSeconds, s.Path)
		}
	}
	return time.Duration(seconds) * time.Second, nil
}
