package stepfunctions

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/onceward/onceward/localstack/stepfunctions/interpreter"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// Invoker calls Lambda functions for the tasks of all executions. It makes one
// attempt and waits as long as the function runs: a task that times out leaves
// its call alone, so ctx ends only when the Runner closes. It is called
// concurrently.
type Invoker interface {
	// Invoke returns what the function answered, an error of its own included.
	// An *InvokeError says by which name a state machine sees the failure; any
	// other error means that nobody knows whether the function ran.
	Invoke(ctx context.Context, call Invocation) (Invoked, error)
}

// Invocation is one call of a function.
type Invocation struct {
	Function  string // name, partial or full ARN
	Qualifier string // version or alias; empty means none
	Payload   []byte // JSON
}

// Invoked is the answer of Lambda.
type Invoked struct {
	StatusCode      int
	ExecutedVersion string
	Payload         []byte
	// FunctionError is set when the function reported an error (Handled or
	// Unhandled); Payload then describes it.
	FunctionError string
	Header        http.Header
	RequestID     string
}

// InvokeError is a failed call under the name that state machines know, such
// as Lambda.TooManyRequestsException.
type InvokeError struct {
	Name  string
	Cause string
	Err   error // may be nil
}

// Error returns name and cause.
func (e *InvokeError) Error() string { return "stepfunctions: " + e.Name + ": " + e.Cause }

// Unwrap returns the error behind it.
func (e *InvokeError) Unwrap() error { return e.Err }

// The names of failures that have no code of Lambda's API.
const (
	ErrorSdkClient     = "Lambda.SdkClientException"
	ErrorLambdaUnknown = "Lambda.Unknown"
	// ErrorLambdaService is the one of an answer without a code of the API.
	ErrorLambdaService = "Lambda.AWSLambdaException"
)

// outcome is the end of a call.
type outcome struct {
	result  any
	failure *interpreter.Failure
}

func failed(name, cause string) outcome {
	failure := interpreter.NewFailure(name, cause)
	failure.FromTask = true
	return outcome{failure: failure}
}

// invoke calls a function with the parameters of a task.
func (r *Runner) invoke(ctx context.Context, parameters map[string]any) outcome {
	call := Invocation{Payload: []byte("{}")}
	call.Function, _ = parameters["FunctionName"].(string)
	call.Qualifier, _ = parameters["Qualifier"].(string)
	if payload, given := parameters["Payload"]; given {
		call.Payload = []byte(jsonvalue.MustEncode(payload))
	}
	answer, err := r.invoker.Invoke(ctx, call)
	if err != nil {
		if known, ok := errors.AsType[*InvokeError](err); ok {
			return failed(known.Name, known.Cause)
		}
		return failed(ErrorSdkClient, err.Error())
	}
	if answer.FunctionError != "" {
		return failed(errorType(answer.Payload), string(answer.Payload))
	}
	result := invokeResult(answer)
	if len(jsonvalue.MustEncode(result)) > jsonvalue.MaxBytes {
		return outcome{failure: interpreter.ResultTooLarge("lambda")}
	}
	return outcome{result: result}
}

// errorType reads the name that a function gave its error.
func errorType(payload []byte) string {
	var reported struct {
		ErrorType string `json:"errorType"`
	}
	if err := json.Unmarshal(payload, &reported); err != nil || reported.ErrorType == "" {
		return ErrorLambdaUnknown
	}
	return reported.ErrorType
}

// invokeResult has the members that AWS documents for lambda:invoke.
func invokeResult(answer Invoked) map[string]any {
	var payload any
	if len(answer.Payload) > 0 {
		value, err := jsonvalue.Decode(answer.Payload)
		if err != nil {
			value = string(answer.Payload) // a function may answer something else; it arrives as a string
		}
		payload = value
	}
	version := answer.ExecutedVersion
	if version == "" {
		version = "$LATEST"
	}
	result := sdkMetadata(answer.StatusCode, answer.Header, answer.RequestID)
	result["ExecutedVersion"] = version
	result["Payload"] = payload
	result["StatusCode"] = json.Number(strconv.Itoa(answer.StatusCode))
	return result
}

// sdkMetadata has the members that every result of an AWS service carries.
func sdkMetadata(status int, header http.Header, requestID string) map[string]any {
	all, first := map[string]any{}, map[string]any{}
	for name, values := range header {
		list := make([]any, len(values))
		for i, value := range values {
			list[i] = value
		}
		all[name] = list
		if len(values) > 0 {
			first[name] = values[0]
		}
	}
	return map[string]any{
		"SdkHttpMetadata": map[string]any{
			"AllHttpHeaders": all, "HttpHeaders": first, "HttpStatusCode": json.Number(strconv.Itoa(status)),
		},
		"SdkResponseMetadata": map[string]any{"RequestId": requestID},
	}
}
