package lambda_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/localstack/lambda"
)

func TestFailuresAreWordedAsOnAWS(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		do, kind, message, log string
	}{
		{"error", "errorString", "no such account", ""},
		{"panic", "string", "broken", ""},
		{"exit 0", "Runtime.ExitError", "RequestId: ID Error: Runtime exited without providing a reason", "Status: error\tError Type: Runtime.ExitError"},
		{"exit 7", "Runtime.ExitError", "RequestId: ID Error: Runtime exited with error: exit status 7", "Status: error\tError Type: Runtime.ExitError"},
	} {
		t.Run(c.do, func(t *testing.T) {
			t.Parallel()
			s := start(t, lambda.Options{})
			r := invoke(t, s, order{Do: c.do})
			checkFailure(t, r, c.kind, c.message)
			if !bytes.Contains(r.LogTail, []byte(c.log)) {
				t.Errorf("log:\n%s", r.LogTail)
			}
			if r := invoke(t, s, order{}); r.FunctionError != "" || string(r.Payload) != `"done"` {
				t.Errorf("the next call: %s %s", r.FunctionError, r.Payload)
			}
		})
	}
}

func checkFailure(t *testing.T, r lambda.Result, kind, message string) {
	t.Helper()
	var got struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}
	if err := json.Unmarshal(r.Payload, &got); err != nil {
		t.Fatalf("%s: %v", r.Payload, err)
	}
	want := strings.ReplaceAll(message, "ID", r.RequestID)
	if r.FunctionError != "Unhandled" || got.Type != kind || strings.ReplaceAll(message, "RequestId: ID", "RequestId: "+r.RequestID) != got.Message {
		t.Errorf("got %s %s %q, want Unhandled %s %q", r.FunctionError, got.Type, got.Message, kind, want)
	}
}

func TestFailedStartIsRepeatedOnceWithinTheInvocation(t *testing.T) {
	t.Parallel()
	f := function(t, "f")
	f.Env[programVariable] = "dies at first start"
	f.Env["ONCE"] = filepath.Join(t.TempDir(), "once")
	s := start(t, lambda.Options{}, f)
	r := invoke(t, s, order{})
	if r.FunctionError != "" || string(r.Payload) != `"done"` {
		t.Fatalf("%s %s", r.FunctionError, r.Payload)
	}
	var reported bool
	for _, line := range s.Logs("f") {
		reported = reported || strings.HasPrefix(line.Text, "INIT_REPORT ") && strings.HasSuffix(line.Text, "Status: error\tError Type: Runtime.ExitError")
	}
	if !reported {
		t.Errorf("log: %v", s.Logs("f"))
	}
}

func TestStartThatNeverSucceedsFailsTheInvocation(t *testing.T) {
	t.Parallel()
	f := function(t, "f")
	f.Env[programVariable] = "dies at start"
	r := invoke(t, start(t, lambda.Options{}, f), order{})
	checkFailure(t, r, "Runtime.ExitError", "RequestId: ID Error: Runtime exited with error: exit status 3")
	if !bytes.Contains(r.LogTail, []byte("no settings")) {
		t.Errorf("log lacks what the process said:\n%s", r.LogTail)
	}

	f.Env[programVariable] = "hangs at start"
	f.Timeout = 200 * time.Millisecond
	r = invoke(t, start(t, lambda.Options{InitTimeout: 100 * time.Millisecond}, f), order{})
	checkFailure(t, r, "Sandbox.Timedout", "RequestId: ID Error: Task timed out after 0.20 seconds")

	f = function(t, "f")
	f.Path = filepath.Join(t.TempDir(), "bootstrap")
	if err := os.WriteFile(f.Path, []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	r = invoke(t, start(t, lambda.Options{}, f), order{})
	checkFailure(t, r, "Runtime.InvalidEntrypoint", "RequestId: ID Error: fork/exec "+f.Path+": exec format error")
}

func TestPayloadLimitsAreThoseOfAWS(t *testing.T) {
	t.Parallel()
	s := start(t, lambda.Options{})
	if r := invoke(t, s, order{Do: "size", Size: lambda.MaxResponse}); r.FunctionError != "" || len(r.Payload) != lambda.MaxResponse {
		t.Errorf("the largest answer: %s, %d bytes", r.FunctionError, len(r.Payload))
	}
	r := invoke(t, s, order{Do: "size", Size: lambda.MaxResponse + 1})
	checkFailure(t, r, "Function.ResponseSizeTooLarge", "Response payload size exceeded maximum allowed payload size (6291556 bytes).")

	pad := func(n int) []byte {
		text := []byte(`{"text":""}`)
		return slices.Concat(text[:9], bytes.Repeat([]byte("x"), n-len(text)), text[9:])
	}
	if _, err := s.Invoke(t.Context(), lambda.Invocation{Function: "f", Payload: pad(lambda.MaxRequest)}); err != nil {
		t.Errorf("the largest request: %v", err)
	}
	_, err := s.Invoke(t.Context(), lambda.Invocation{Function: "f", Payload: pad(lambda.MaxRequest + 1)})
	if refused, ok := errors.AsType[*lambda.APIError](err); !ok || refused.Status != 413 || refused.Code != "RequestEntityTooLargeException" {
		t.Errorf("a larger request: %v", err)
	}
}
