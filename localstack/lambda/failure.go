package lambda

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Limits of payloads, in bytes.
const (
	// MaxRequest is the largest payload of a synchronous invocation.
	MaxRequest = 6 << 20
	// MaxResponse is the largest payload a function may answer.
	MaxResponse = 6<<20 + 100
)

// ErrClosed means that the supervisor was closed; the function was not entered.
var ErrClosed = errors.New("lambda: supervisor is closed")

// APIError is a request that Lambda refuses: the function was not entered.
type APIError struct {
	// Status is the HTTP status answered.
	Status int
	// Code is the AWS error code, sent as x-amzn-ErrorType.
	Code string
	// Fault is User or Service.
	Fault string
	// Message is the text for people.
	Message string
	// Reason is given for throttling only.
	Reason string
}

// Error gives code and message.
func (e *APIError) Error() string { return "lambda: " + e.Code + ": " + e.Message }

func invalidParameter(message string) *APIError {
	return &APIError{Status: http.StatusBadRequest, Code: "InvalidParameterValueException", Fault: "User", Message: message}
}

// tooLarge words a refused payload. The service model calls the error
// RequestTooLargeException; what AWS sends is the code below.
func tooLarge() *APIError {
	return &APIError{
		Status: http.StatusRequestEntityTooLarge, Code: "RequestEntityTooLargeException", Fault: "User",
		Message: fmt.Sprintf("Request must be smaller than %d bytes for the InvokeFunction operation", MaxRequest),
	}
}

func throttled() *APIError {
	return &APIError{
		Status: http.StatusTooManyRequests, Code: "TooManyRequestsException", Fault: "User",
		Message: "Rate Exceeded.", Reason: "ConcurrentInvocationLimitExceeded",
	}
}

// outcome is how an invocation ended.
type outcome struct {
	payload []byte
	// failed marks a function error; errorType is only set where the sandbox
	// failed, not where the function reported an error itself.
	failed    bool
	errorType string
	message   string
	status    string
}

func failure(status, errorType, message string) outcome {
	payload, err := json.Marshal(struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}{errorType, message})
	if err != nil {
		panic(err) // two strings always encode
	}
	return outcome{payload: payload, failed: true, errorType: errorType, message: message, status: status}
}

func timedOut(requestID string, timeout time.Duration) outcome {
	return failure("timeout", "Sandbox.Timedout",
		fmt.Sprintf("RequestId: %s Error: Task timed out after %.2f seconds", requestID, timeout.Seconds()))
}

// exited words the end of a process that did not answer; err is what waiting
// for it gave.
func exited(requestID string, err error) outcome {
	if err == nil {
		return failure("error", "Runtime.ExitError",
			fmt.Sprintf("RequestId: %s Error: Runtime exited without providing a reason", requestID))
	}
	return failure("error", "Runtime.ExitError",
		fmt.Sprintf("RequestId: %s Error: Runtime exited with error: %v", requestID, err))
}

func notStarted(requestID string, err error) outcome {
	return failure("error", "Runtime.InvalidEntrypoint", fmt.Sprintf("RequestId: %s Error: %v", requestID, err))
}

func responseTooLarge() outcome {
	return failure("error", "Function.ResponseSizeTooLarge",
		fmt.Sprintf("Response payload size exceeded maximum allowed payload size (%d bytes).", MaxResponse))
}
