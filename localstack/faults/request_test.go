package faults_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/onceward/onceward/localstack/faults"
)

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestRequestsAreKnownByServiceOperationAndFunction(t *testing.T) {
	t.Parallel()
	const arn = "/2015-03-31/functions/arn%3Aaws%3Alambda%3Aus-east-1%3A000000000000%3Afunction%3Abilling-tools%3Alive"
	for _, c := range []struct {
		method, target, path string
		want                 faults.Request
		known                bool
	}{
		{"POST", "DynamoDB_20120810.UpdateItem", "/", faults.Request{Service: faults.DynamoDB, Operation: "UpdateItem"}, true},
		{"POST", "AWSStepFunctions.SendTaskSuccess", "/", faults.Request{Service: faults.StepFunctions, Operation: "SendTaskSuccess"}, true},
		{"POST", "Kinesis_20131202.PutRecord", "/", faults.Request{}, false},
		{"POST", "", arn + "/invocations", faults.Request{Service: faults.Lambda, Operation: "Invoke", Function: "billing-tools"}, true},
		{"POST", "", "/2015-03-31/functions/planner:live/invocations", faults.Request{Service: faults.Lambda, Operation: "Invoke", Function: "planner"}, true},
		{"POST", "", "/2015-03-31/functions/000000000000%3Afunction%3Aplanner/invocations", faults.Request{Service: faults.Lambda, Operation: "Invoke", Function: "planner"}, true},
		{"GET", "", "/2015-03-31/functions/", faults.Request{Service: faults.Lambda, Operation: "ListFunctions"}, true},
		{"GET", "", "/2015-03-31/functions/planner", faults.Request{Service: faults.Lambda, Operation: "GetFunction", Function: "planner"}, true},
		{"GET", "", "/2015-03-31/functions/planner/configuration", faults.Request{Service: faults.Lambda, Operation: "GetFunctionConfiguration", Function: "planner"}, true},
		{"GET", "", "/v1/tool-executions", faults.Request{Service: faults.Operator, Operation: "list"}, true},
		{"GET", "", "/v1/tool-executions/run-1:c1", faults.Request{Service: faults.Operator, Operation: "show"}, true},
		{"GET", "", "/v1/runs/run-1", faults.Request{Service: faults.Operator, Operation: "run"}, true},
		{"GET", "", "/v1/runs", faults.Request{Service: faults.Operator, Operation: "runs"}, true},
		{"POST", "", "/v1/runs", faults.Request{Service: faults.Operator, Operation: "start"}, true},
		{"POST", "", "/v1/runs/run-1/resume", faults.Request{Service: faults.Operator, Operation: "resume"}, true},
		{"POST", "", "/v1/tool-executions/run-1:call_1/compensate", faults.Request{Service: faults.Operator, Operation: "compensate"}, true},
		{"POST", "", "/v1/tool-executions/run-1:c1/resolve", faults.Request{Service: faults.Operator, Operation: "resolve"}, true},
		{"GET", "", "/healthz", faults.Request{}, false},
	} {
		r := httptest.NewRequest(c.method, c.path, http.NoBody)
		if c.target != "" {
			r.Header.Set("X-Amz-Target", c.target)
		}
		got, known := faults.Identify(r)
		if got != c.want || known != c.known {
			t.Errorf("%s %s %s: %+v %v, want %+v %v", c.method, c.target, c.path, got, known, c.want, c.known)
		}
	}
}

func TestSenderIsKnownByItsSignature(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"AWS4-HMAC-SHA256 Credential=AKIAX/20261129/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0": "AKIAX",
		"AWS4-HMAC-SHA256 Credential=AKIAX": "",
		"Bearer dev:acme:ann":               "",
		"":                                  "",
	} {
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.Header.Set("Authorization", header)
		if got := faults.AccessKeyID(r); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}
