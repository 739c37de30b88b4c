package lambda

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/google/uuid"
)

// Handler serves the part of AWS's Lambda API (2015-03-31) that runs and
// describes functions. A client that hangs up does not stop its invocation.
func (s *Supervisor) Handler() http.Handler {
	const functions = "/2015-03-31/functions"
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+functions+"/{name}/invocations", s.serveInvoke)
	mux.HandleFunc("GET "+functions, s.serveList)
	mux.HandleFunc("GET "+functions+"/{$}", s.serveList)
	mux.HandleFunc("GET "+functions+"/{name}", s.serveGet)
	mux.HandleFunc("GET "+functions+"/{name}/configuration", s.serveConfiguration)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeAPIError(w, uuid.NewString(), &APIError{
			Status: http.StatusNotFound, Code: "UnknownOperationException", Fault: "User",
			Message: "Only Invoke, ListFunctions, GetFunction and GetFunctionConfiguration are served here, not " + r.Method + " " + r.URL.Path,
		})
	})
	return mux
}

func (s *Supervisor) serveInvoke(w http.ResponseWriter, r *http.Request) {
	in, err := readInvocation(w, r)
	if err != nil {
		writeAPIError(w, uuid.NewString(), err)
		return
	}
	switch kind := r.Header.Get("X-Amz-Invocation-Type"); kind {
	case "", "RequestResponse":
		s.invokeAndAnswer(w, r, in)
	case "DryRun":
		if _, _, err := s.prepare(in); err != nil {
			writeAPIError(w, uuid.NewString(), err)
			return
		}
		w.Header().Set("X-Amzn-RequestId", uuid.NewString())
		w.WriteHeader(http.StatusNoContent)
	case "Event":
		writeAPIError(w, uuid.NewString(), invalidParameter(
			"Asynchronous invocation (Event) is not served here: invoke with RequestResponse."))
	default:
		writeAPIError(w, uuid.NewString(), invalidParameter("1 validation error detected: Value '"+kind+
			"' at 'invocationType' failed to satisfy constraint: Member must satisfy enum value set: [Event, RequestResponse, DryRun]"))
	}
}

func (s *Supervisor) invokeAndAnswer(w http.ResponseWriter, r *http.Request, in Invocation) {
	logType := r.Header.Get("X-Amz-Log-Type")
	if logType != "" && logType != "None" && logType != "Tail" {
		writeAPIError(w, uuid.NewString(), invalidParameter("1 validation error detected: Value '"+logType+
			"' at 'logType' failed to satisfy constraint: Member must satisfy enum value set: [None, Tail]"))
		return
	}
	result, err := s.Invoke(r.Context(), in)
	if err != nil {
		// Where the client has hung up this goes nowhere, and the sandbox goes on.
		writeAPIError(w, uuid.NewString(), err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Amzn-RequestId", result.RequestID)
	h.Set("X-Amzn-Trace-Id", result.TraceID)
	h.Set("X-Amz-Executed-Version", result.Version)
	if result.FunctionError != "" {
		h.Set("X-Amz-Function-Error", result.FunctionError)
	}
	if logType == "Tail" {
		h.Set("X-Amz-Log-Result", base64.StdEncoding.EncodeToString(result.LogTail))
	}
	_, _ = w.Write(result.Payload)
}

func readInvocation(w http.ResponseWriter, r *http.Request) (Invocation, error) {
	payload, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxRequest))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return Invocation{}, tooLarge()
	}
	if err != nil {
		return Invocation{}, &APIError{
			Status: http.StatusBadRequest, Code: "InvalidRequestContentException", Fault: "User",
			Message: "Could not read the request body: " + err.Error(),
		}
	}
	clientContext, err := base64.StdEncoding.DecodeString(r.Header.Get("X-Amz-Client-Context"))
	if err != nil {
		return Invocation{}, &APIError{
			Status: http.StatusBadRequest, Code: "InvalidRequestContentException", Fault: "User",
			Message: "Client context must be a valid Base64-encoded JSON object.",
		}
	}
	return Invocation{
		Function: r.PathValue("name"), Qualifier: r.URL.Query().Get("Qualifier"), Payload: payload,
		ClientContext: string(clientContext), TraceID: r.Header.Get("X-Amzn-Trace-Id"),
	}, nil
}

// writeAPIError answers a request that was refused; anything but an [*APIError]
// is a failure of the service.
func writeAPIError(w http.ResponseWriter, requestID string, err error) {
	refused, ok := errors.AsType[*APIError](err)
	if !ok {
		refused = &APIError{
			Status: http.StatusInternalServerError, Code: "ServiceException", Fault: "Service",
			Message: strings.TrimPrefix(err.Error(), "lambda: "),
		}
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Amzn-RequestId", requestID)
	h.Set("X-Amzn-ErrorType", refused.Code)
	w.WriteHeader(refused.Status)
	body := map[string]string{"Type": refused.Fault, "Message": refused.Message}
	if refused.Reason != "" {
		body["Reason"] = refused.Reason
	}
	_ = json.NewEncoder(w).Encode(body)
}
