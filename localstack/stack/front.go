package stack

import (
	"encoding/json"
	"net/http"
	"strings"
)

// front sends each request on the one port to the service it is for, as AWS's
// endpoints would: by target header, path or, for ours, by prefix.
type front struct {
	dynamodb, machines, functions, operator, faults, control http.Handler

	about []byte
}

func newFront(s *Stack, dynamodb, machines, operator http.Handler) http.Handler {
	about, err := json.Marshal(s.About())
	if err != nil {
		panic(err) // strings are always JSON
	}
	return front{
		dynamodb:  s.Faults.Middleware(dynamodb),
		machines:  s.Faults.Middleware(machines),
		functions: s.Faults.Middleware(s.Lambda.Handler()),
		operator:  s.Faults.Middleware(operator),
		faults:    s.Faults.Handler(),
		control:   s.Lambda.Control(),
		about:     about,
	}
}

// ServeHTTP implements [http.Handler].
func (f front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target, path := r.Header.Get("X-Amz-Target"), r.URL.Path
	switch {
	case strings.HasPrefix(target, "DynamoDB_"):
		f.dynamodb.ServeHTTP(w, r)
	case strings.HasPrefix(target, "AWSStepFunctions."):
		f.machines.ServeHTTP(w, r)
	case strings.HasPrefix(path, "/_local/lambda/"):
		f.control.ServeHTTP(w, r)
	case strings.HasPrefix(path, "/_local/faults"), strings.HasPrefix(path, "/_local/requests"):
		f.faults.ServeHTTP(w, r)
	case strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-") && !strings.HasPrefix(path, "/20"):
		http.Error(w, "this stack serves DynamoDB, Step Functions and Lambda only", http.StatusNotImplemented)
	case path == "/_local/about" || path == "/_local" || path == "/":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(f.about)
	case strings.HasPrefix(path, "/v1/"):
		f.operator.ServeHTTP(w, r)
	case strings.HasPrefix(path, "/2015-03-31/"), strings.HasPrefix(path, "/2017-"), strings.HasPrefix(path, "/2019-"), strings.HasPrefix(path, "/2020-"), strings.HasPrefix(path, "/2021-"):
		f.functions.ServeHTTP(w, r)
	default:
		http.Error(w, "nothing here: DynamoDB, Step Functions and Lambda by their SDKs, the operator's API under /v1/, controls under /_local/", http.StatusNotFound)
	}
}
