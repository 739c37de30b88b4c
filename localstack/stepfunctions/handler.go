package stepfunctions

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/google/uuid"
)

const (
	contentType  = "application/x-amz-json-1.0"
	targetPrefix = "AWSStepFunctions."
	// maxRequest holds the largest definition or input with every byte escaped.
	maxRequest = 8 << 20
)

// operation decodes a request, does it and returns the answer.
type operation func(body []byte) (any, error)

func decoded[In, Out any](do func(In) (Out, error)) operation {
	return func(body []byte) (any, error) {
		var in In
		decoder := json.NewDecoder(bytes.NewReader(body))
		// A member that is unknown here would be ignored silently.
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&in); err != nil {
			return nil, apiError(codeSerialization, "%v", err)
		}
		if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
			return nil, apiError(codeSerialization, "text after the end of the request")
		}
		return do(in)
	}
}

// Handler serves the API's JSON 1.0 protocol: POST with X-Amz-Target
// AWSStepFunctions.<operation>. Signatures are not checked.
func (r *Runner) Handler() http.Handler {
	operations := map[string]operation{
		"CreateStateMachine":             decoded(r.CreateStateMachine),
		"DeleteStateMachine":             decoded(r.DeleteStateMachine),
		"DescribeExecution":              decoded(r.DescribeExecution),
		"DescribeStateMachine":           decoded(r.DescribeStateMachine),
		"GetExecutionHistory":            decoded(r.GetExecutionHistory),
		"ListExecutions":                 decoded(r.ListExecutions),
		"ListStateMachines":              decoded(r.ListStateMachines),
		"RedriveExecution":               decoded(r.RedriveExecution),
		"SendTaskFailure":                decoded(r.SendTaskFailure),
		"SendTaskHeartbeat":              decoded(r.SendTaskHeartbeat),
		"SendTaskSuccess":                decoded(r.SendTaskSuccess),
		"StartExecution":                 decoded(r.StartExecution),
		"StopExecution":                  decoded(r.StopExecution),
		"UpdateStateMachine":             decoded(r.UpdateStateMachine),
		"ValidateStateMachineDefinition": decoded(r.ValidateStateMachineDefinition),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		out, err := serve(operations, w, request)
		r.respond(w, request, out, err)
	})
}

func serve(operations map[string]operation, w http.ResponseWriter, request *http.Request) (any, error) {
	name, ok := strings.CutPrefix(request.Header.Get("X-Amz-Target"), targetPrefix)
	do, known := operations[name]
	if request.Method != http.MethodPost || !ok || !known {
		return nil, apiError(codeUnknownOperation, "The operation '%s' is not known or not supported by the local runner.", name)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxRequest))
	if err != nil {
		return nil, apiError(codeSerialization, "can't read the request: %v", err)
	}
	return do(body)
}

func (r *Runner) respond(w http.ResponseWriter, request *http.Request, out any, err error) {
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("X-Amzn-Requestid", uuid.NewString())
	status := http.StatusOK
	if err != nil {
		refused, ok := errors.AsType[*APIError](err)
		if !ok {
			refused = &APIError{Type: "InternalFailure", Message: err.Error(), Status: http.StatusInternalServerError}
		}
		header.Set("X-Amzn-Errortype", refused.Type)
		status, out = refused.Status, map[string]string{"__type": refused.Type, "message": refused.Message}
	}
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(out); err != nil {
		r.options.Logger.LogAttrs(request.Context(), slog.LevelWarn, "answer not sent", slog.String("error", err.Error()))
	}
}
