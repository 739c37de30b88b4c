package billing

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
)

// MaxBodyBytes is the largest request body that is read.
const MaxBodyBytes = 64 << 10

// Headers of the service.
const (
	HeaderKey      = "Idempotency-Key"
	HeaderReplayed = "Idempotent-Replayed"
	HeaderAccount  = "X-Account-Id"
)

// decode reads the whole body into out. Unknown and duplicate names, trailing
// data and values of another type are refused.
func decode(w http.ResponseWriter, r *http.Request, out any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return &StatusError{Status: http.StatusRequestEntityTooLarge, Code: CodeTooLarge, Message: fmt.Sprintf("the body is larger than %d bytes", MaxBodyBytes)}
	}
	if err != nil {
		return badRequest("the body could not be read")
	}
	if err := jsonv2.Unmarshal(body, out, jsonv2.RejectUnknownMembers(true)); err != nil {
		return badRequest("the body is not the JSON object that is expected here: " + err.Error())
	}
	return nil
}

// decodeEmpty refuses a body that says anything.
func decodeEmpty(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if err != nil || len(body) > 0 && string(body) != "{}" {
		return badRequest("this request takes no body")
	}
	return nil
}

// query returns the parameters, each at most once and none but allowed.
func query(r *http.Request, allowed ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("the query string is malformed")
	}
	for name, all := range values {
		if !slices.Contains(allowed, name) || len(all) != 1 {
			return nil, badRequest(fmt.Sprintf("query parameters here are %v, each at most once", allowed))
		}
	}
	return values, nil
}

// oneOf returns the single parameter that is present of two.
func oneOf(r *http.Request, a, b string) (name, value string, err error) {
	values, err := query(r, a, b)
	if err != nil {
		return "", "", err
	}
	if (values.Get(a) == "") == (values.Get(b) == "") {
		return "", "", badRequest(fmt.Sprintf("exactly one of %s and %s is required", a, b))
	}
	if v := values.Get(a); v != "" {
		return a, v, nil
	}
	return b, values.Get(b), nil
}

// idempotencyKey returns the key, empty if there is none.
func idempotencyKey(r *http.Request) (string, error) {
	all := r.Header.Values(HeaderKey)
	if len(all) == 0 {
		return "", nil
	}
	if len(all) > 1 {
		return "", badRequest("more than one idempotency key")
	}
	return all[0], checkKey(all[0])
}

// reply is an answer that is ready to be sent.
type reply struct {
	status   int
	replayed bool
	body     json.RawMessage
}

func replyJSON(status int, value any) (reply, error) {
	body, err := json.Marshal(value)
	return reply{status: status, body: body}, err
}

func (a reply) send(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	if a.replayed {
		w.Header().Set(HeaderReplayed, "true")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client went away; what took effect stays
}
