package stepfunctions

import (
	"fmt"
	"net/http"
	"unicode/utf8"
)

// APIError is an error of the service's API with the name that AWS gives it.
type APIError struct {
	Type    string
	Message string
	Status  int // of HTTP
}

// Error returns type and message.
func (e *APIError) Error() string { return "stepfunctions: " + e.Type + ": " + e.Message }

// The types of API errors that the Runner answers.
const (
	codeExecutionAlreadyExists    = "ExecutionAlreadyExists"
	codeExecutionDoesNotExist     = "ExecutionDoesNotExist"
	codeExecutionLimitExceeded    = "ExecutionLimitExceeded"
	codeExecutionNotRedrivable    = "ExecutionNotRedrivable"
	codeInvalidARN                = "InvalidArn"
	codeInvalidDefinition         = "InvalidDefinition"
	codeInvalidExecutionInput     = "InvalidExecutionInput"
	codeInvalidName               = "InvalidName"
	codeInvalidOutput             = "InvalidOutput"
	codeInvalidToken              = "InvalidToken"
	codeMissingRequiredParameter  = "MissingRequiredParameter"
	codeSerialization             = "SerializationException"
	codeServiceUnavailable        = "ServiceUnavailable"
	codeStateMachineAlreadyExists = "StateMachineAlreadyExists"
	codeStateMachineDeleting      = "StateMachineDeleting"
	codeStateMachineDoesNotExist  = "StateMachineDoesNotExist"
	codeTaskTimedOut              = "TaskTimedOut"
	codeTypeNotSupported          = "StateMachineTypeNotSupported"
	codeUnknownOperation          = "UnknownOperationException"
	codeValidation                = "ValidationException"
)

func apiError(code, format string, args ...any) error {
	return &APIError{Type: code, Message: fmt.Sprintf(format, args...), Status: http.StatusBadRequest}
}

func errClosed() error {
	return &APIError{Type: codeServiceUnavailable, Message: "The runner is closed.", Status: http.StatusServiceUnavailable}
}

func errLimit() error {
	return apiError(codeExecutionLimitExceeded, "The maximum number of running executions has been reached. Running executions must end or be stopped before a new execution can be started.")
}

// invalid is AWS's message for one member that breaks a constraint.
func invalid(field, value, constraint string) error {
	return apiError(codeValidation, "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: %s", value, field, constraint)
}

func checkLength(field, value string, least, most int) error {
	switch n := utf8.RuneCountInString(value); {
	case n < least:
		return invalid(field, value, fmt.Sprintf("Member must have length greater than or equal to %d", least))
	case n > most:
		return invalid(field, value, fmt.Sprintf("Member must have length less than or equal to %d", most))
	}
	return nil
}

// unsupported refuses a member of a request that AWS knows and this Runner does not.
func unsupported(field, value string) error {
	return apiError(codeValidation, "'%s' at '%s' is not supported by the local runner", value, field)
}
