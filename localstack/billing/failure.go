package billing

import (
	"errors"
	"fmt"
	"net/http"
)

// Codes of the service's JSON errors. Every one but [CodeServerError] and
// [CodeUnavailable] says that this request changed nothing.
const (
	CodeBadRequest         = "bad_request"         // 400: malformed, nothing was looked at
	CodeTooLarge           = "body_too_large"      // 413: more than 64 KiB
	CodeCredentialsExpired = "credentials_expired" // 401: sign-in refused
	CodeSessionInvalid     = "session_invalid"     // 401: no token, or an expired or forged one
	CodeNotFound           = "not_found"           // 404
	CodeKeyReused          = "key_reused"          // 409: the key belongs to another request
	CodeAccountClosed      = "account_closed"      // 422: definite refusal
	CodeAmountInvalid      = "amount_invalid"      // 422: definite refusal
	CodeRefused            = "refused"             // 422: definite refusal by a fault
	CodeServerError        = "server_error"        // 500: may have taken effect
	CodeUnavailable        = "unavailable"         // 503
)

// StatusError is an answer of the service that is not a success. Code is one
// of the Code constants, or empty when the body was not the service's own.
type StatusError struct {
	Status  int    `json:"-"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error names the status and the code.
func (e *StatusError) Error() string {
	return fmt.Sprintf("billing: %d %s: %s", e.Status, e.Code, e.Message)
}

func badRequest(message string) error {
	return &StatusError{Status: http.StatusBadRequest, Code: CodeBadRequest, Message: message}
}

func refusal(code, message string) error {
	return &StatusError{Status: http.StatusUnprocessableEntity, Code: code, Message: message}
}

func notFound(message string) error {
	return &StatusError{Status: http.StatusNotFound, Code: CodeNotFound, Message: message}
}

// asStatus is what a client is told about err; the text of an unexpected error stays in the log.
func asStatus(err error) *StatusError {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status
	}
	return &StatusError{Status: http.StatusInternalServerError, Code: CodeServerError, Message: "the request failed inside the service"}
}
