package faults

import (
	"net/http"
	"strings"
)

// Service is one of the services that stand behind the middleware.
type Service string

const (
	// DynamoDB is asked by X-Amz-Target DynamoDB_20120810.
	DynamoDB Service = "dynamodb"
	// StepFunctions is asked by X-Amz-Target AWSStepFunctions.
	StepFunctions Service = "stepfunctions"
	// Lambda is asked under /2015-03-31/functions.
	Lambda Service = "lambda"
	// Operator is the operator's API, asked under /v1/.
	Operator Service = "operator"
)

// Services lists every service a rule may name.
func Services() []Service { return []Service{DynamoDB, StepFunctions, Lambda, Operator} }

// Request is what a rule can see of a request besides its body.
type Request struct {
	Service   Service `json:"service"`
	Operation string  `json:"operation"`
	// Function is the function a Lambda request is for, without ARN and qualifier.
	Function string `json:"function,omitzero"`
	// Caller is the function whose sandbox sends the request, empty for others.
	Caller string `json:"caller,omitzero"`
}

const lambdaPrefix = "/2015-03-31/functions"

// Identify says which service and operation a request is for; false if it is
// for none of them, such as a health check.
func Identify(r *http.Request) (Request, bool) {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return identifyTarget(target)
	}
	if path, ok := strings.CutPrefix(r.URL.Path, lambdaPrefix); ok {
		return identifyLambda(r.Method, path), true
	}
	if path, ok := strings.CutPrefix(r.URL.Path, "/v1/"); ok {
		return Request{Service: Operator, Operation: operatorOperation(r.Method, path)}, true
	}
	return Request{}, false
}

func identifyTarget(target string) (Request, bool) {
	prefix, operation, _ := strings.Cut(target, ".")
	switch {
	case strings.HasPrefix(prefix, "DynamoDB"):
		return Request{Service: DynamoDB, Operation: operation}, true
	case prefix == "AWSStepFunctions":
		return Request{Service: StepFunctions, Operation: operation}, true
	}
	return Request{}, false
}

func identifyLambda(method, path string) Request {
	name, action, _ := strings.Cut(strings.Trim(path, "/"), "/")
	req := Request{Service: Lambda, Function: functionName(name)}
	switch {
	case action == "invocations":
		req.Operation = "Invoke"
	case name == "" && method == http.MethodGet:
		req.Operation = "ListFunctions"
	case action == "" && method == http.MethodGet:
		req.Operation = "GetFunction"
	case action == "configuration" && method == http.MethodGet:
		req.Operation = "GetFunctionConfiguration"
	default:
		req.Operation = method + " " + action
	}
	return req
}

// functionName takes the plain name out of a name, partial or full ARN, with
// or without a qualifier.
func functionName(ref string) string {
	if _, after, ok := strings.Cut(ref, ":function:"); ok {
		ref = after
	}
	name, _, _ := strings.Cut(ref, ":")
	return name
}

// operatorOperation is the verb of a POST, start for that of a new run, else what
// is shown or listed: resolve, resume, list, show, runs, run.
func operatorOperation(method, path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	last := parts[len(parts)-1]
	reads, ofRuns := method == http.MethodGet || method == http.MethodHead, parts[0] == "runs"
	switch {
	case !reads && ofRuns && len(parts) == 1:
		return "start"
	case !reads:
		return last
	case ofRuns && len(parts) == 1:
		return "runs"
	case len(parts) == 1:
		return "list"
	case ofRuns:
		return "run"
	}
	return "show"
}

// AccessKeyID is the access key id in a request's SigV4 Authorization header,
// empty where there is none. It says who sends; it is not checked.
func AccessKeyID(r *http.Request) string {
	_, after, ok := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	if !ok {
		return ""
	}
	id, _, ok := strings.Cut(after, "/")
	if !ok {
		return ""
	}
	return id
}
