package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/localstack/gateway"
)

var update = flag.Bool("update", false, "rewrite the events in testdata/events")

func options() gateway.Options {
	return gateway.Options{
		Scopes:    []string{"calls:read"},
		Now:       func() time.Time { return time.Date(2026, 11, 29, 10, 0, 0, 250e6, time.UTC) },
		RequestID: func() string { return "req-1" },
	}
}

// function answers every invocation with response and keeps the last payload.
type function struct {
	response string
	payload  []byte
	calls    int
}

func (f *function) invoke(_ context.Context, payload []byte) ([]byte, string, error) {
	f.calls++
	f.payload = payload
	return []byte(f.response), "", nil
}

func newGateway(t *testing.T, invoke gateway.Invoke, opts gateway.Options) *gateway.Gateway {
	t.Helper()
	g, err := gateway.New(invoke, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// request is one that the authorizer lets pass.
func request(t *testing.T, method, target string, body io.Reader) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, body)
	r.RemoteAddr = "127.0.0.1:50000"
	r.Header.Set("Authorization", "Bearer dev:acme:ann")
	return r
}

func answer(g http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

func wantMessage(t *testing.T, w *httptest.ResponseRecorder, status int, message string) {
	t.Helper()
	if w.Code != status || w.Body.String() != `{"message":"`+message+`"}` {
		t.Errorf("answer is %d %s, want %d %q", w.Code, w.Body, status, message)
	}
}

func TestRequestsBecomeTheEventsInTestdata(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/events/*.http")
	if err != nil || len(files) == 0 {
		t.Fatalf("no requests in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".http"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
			if err != nil {
				t.Fatal(err)
			}
			r.RemoteAddr = "127.0.0.1:50000"
			f := &function{response: `{"statusCode":204}`}
			if w := answer(newGateway(t, f.invoke, options()), r); w.Code != http.StatusNoContent {
				t.Fatalf("answer is %d %s", w.Code, w.Body)
			}
			var got bytes.Buffer
			if err := json.Indent(&got, f.payload, "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			golden := strings.TrimSuffix(file, ".http") + ".json"
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("event (-want +got); -update rewrites:\n%s", diff)
			}
		})
	}
}

func TestEncodedKeyPassesAServerAndItsMux(t *testing.T) {
	t.Parallel()
	f := &function{response: `{"statusCode":200}`}
	mux := http.NewServeMux()
	mux.Handle(gateway.PathPrefix, newGateway(t, f.invoke, options()))
	server := httptest.NewServer(mux)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/tool-executions/acme%2Frun-7Q%3A%7Et3-1/resolve", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer dev:acme:ann")
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var event events.APIGatewayV2HTTPRequest
	if err := json.Unmarshal(f.payload, &event); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("answer is %s, event: %v", resp.Status, err)
	}
	if want := "/v1/tool-executions/acme/run-7Q:~t3-1/resolve"; event.RawPath != want || event.RequestContext.HTTP.Path != want {
		t.Errorf("rawPath %q, path %q, want %q", event.RawPath, event.RequestContext.HTTP.Path, want)
	}
}

func TestAuthorizationHeaderNeverReachesTheFunction(t *testing.T) {
	t.Parallel()
	f := &function{response: `{"statusCode":200}`}
	r := request(t, http.MethodGet, "/v1/runs", nil)
	r.Header.Set("Authorization", "Bearer dev:acme:canary-actor:canary-scope")
	answer(newGateway(t, f.invoke, options()), r)
	if bytes.Contains(f.payload, []byte("dev:acme")) || bytes.Contains(bytes.ToLower(f.payload), []byte("authorization")) {
		t.Errorf("the event carries the token: %s", f.payload)
	}
	var event events.APIGatewayV2HTTPRequest
	if err := json.Unmarshal(f.payload, &event); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{gateway.ClaimTenant: "acme", gateway.ClaimSubject: "canary-actor", gateway.ClaimScopes: "canary-scope"}
	if diff := cmp.Diff(want, event.RequestContext.Authorizer.JWT.Claims); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

func TestUnauthorizedBeforeTheFunctionIsAsked(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"none":                 nil,
		"empty":                {""},
		"two":                  {"Bearer dev:acme:ann", "Bearer dev:acme:ann"},
		"another scheme":       {"Basic dev:acme:ann"},
		"no scheme":            {"dev:acme:ann"},
		"another token":        {"Bearer eyJhbGciOiJub25lIn0.e30."},
		"no actor":             {"Bearer dev:acme"},
		"empty actor":          {"Bearer dev:acme:"},
		"actor with space":     {"Bearer dev:acme:ann smith"},
		"actor with quote":     {`Bearer dev:acme:a"b`},
		"tenant with slash":    {"Bearer dev:a/b:ann"},
		"tenant too long":      {"Bearer dev:" + strings.Repeat("a", 41) + ":ann"},
		"actor too long":       {"Bearer dev:acme:" + strings.Repeat("a", 129)},
		"empty scope":          {"Bearer dev:acme:ann:a,,b"},
		"scope with backslash": {`Bearer dev:acme:ann:a\b`},
	}
	for name, headers := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &function{}
			r := request(t, http.MethodGet, "/v1/runs", nil)
			r.Header["Authorization"] = headers
			w := answer(newGateway(t, f.invoke, options()), r)
			var body struct{ Message, Detail string }
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != http.StatusUnauthorized || body.Message != "Unauthorized" {
				t.Errorf("answer is %d %s, %v", w.Code, w.Body, err)
			}
			if !strings.HasPrefix(body.Detail, "nothing was changed: ") || !strings.Contains(body.Detail, "dev:TENANT:NAME:SCOPE,SCOPE") || strings.Contains(body.Detail, "ann") {
				t.Errorf("detail is %q", body.Detail)
			}
			if w.Header().Get("Www-Authenticate") == "" || f.calls != 0 {
				t.Errorf("challenge %q, function asked %d times", w.Header().Get("Www-Authenticate"), f.calls)
			}
		})
	}
}

func TestOnlyThisMachineIsServed(t *testing.T) {
	t.Parallel()
	f := &function{response: `{"statusCode":200}`}
	g := newGateway(t, f.invoke, options())
	for remote, want := range map[string]int{
		"127.0.0.1:5": 200, "127.8.8.8:5": 200, "[::1]:5": 200, "[::ffff:127.0.0.1]:5": 200,
		"10.0.0.1:5": 403, "[2001:db8::1]:5": 403, "localhost": 403, "": 403, "@": 403,
	} {
		r := request(t, http.MethodGet, "/v1/runs", nil)
		r.RemoteAddr = remote
		if w := answer(g, r); w.Code != want {
			t.Errorf("from %q: %d, want %d", remote, w.Code, want)
		}
	}
}

func TestOtherPathsAreNotFound(t *testing.T) {
	t.Parallel()
	f := &function{}
	g := newGateway(t, f.invoke, options())
	for _, path := range []string{"/", "/v1", "/v2/runs", "/V1/runs"} {
		wantMessage(t, answer(g, request(t, http.MethodGet, path, nil)), http.StatusNotFound, "Not Found")
	}
	if f.calls != 0 {
		t.Errorf("the function was asked %d times", f.calls)
	}
}

func TestOversizedRequestsAreRefused(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"body": gateway.MaxBodyBytes + 1, "event": gateway.MaxPayloadBytes} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &function{}
			r := request(t, http.MethodPost, "/v1/runs", bytes.NewReader(make([]byte, size)))
			wantMessage(t, answer(newGateway(t, f.invoke, options()), r), http.StatusRequestEntityTooLarge, "Request Entity Too Large")
			if f.calls != 0 {
				t.Error("the function was asked")
			}
		})
	}
}

func TestFailuresOfTheFunctionAreInternalServerErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]gateway.Invoke{
		"function error": func(context.Context, []byte) ([]byte, string, error) {
			return []byte(`{"errorMessage":"canary","errorType":"E"}`), "Unhandled", nil
		},
		"no answer of Lambda": func(context.Context, []byte) ([]byte, string, error) {
			return nil, "", errors.New("canary")
		},
		"malformed response": func(context.Context, []byte) ([]byte, string, error) {
			return []byte(`{"statusCode":200,"body":"canary","isBase64Encoded":true}`), "", nil
		},
	}
	for name, invoke := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := answer(newGateway(t, invoke, options()), request(t, http.MethodGet, "/v1/runs", nil))
			wantMessage(t, w, http.StatusInternalServerError, "Internal Server Error")
		})
	}
}

func TestPatienceEndsAfterThirtySecondsAndTheInvocationGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		finished := make(chan error, 1)
		slow := func(ctx context.Context, _ []byte) ([]byte, string, error) {
			select {
			case <-time.After(45 * time.Second):
			case <-ctx.Done():
			}
			finished <- ctx.Err()
			return []byte(`{"statusCode":200}`), "", nil
		}
		g, err := gateway.New(slow, gateway.Options{})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r := request(t, http.MethodGet, "/v1/runs", nil)
		w := answer(g, r)
		wantMessage(t, w, http.StatusServiceUnavailable, "Service Unavailable")
		if took := time.Since(start); took != gateway.Timeout {
			t.Errorf("answered after %v, want %v", took, gateway.Timeout)
		}
		if err := <-finished; err != nil {
			t.Errorf("the invocation was cut: %v", err)
		}
		g.Close()
	})
}

func TestClientThatGoesAwayDoesNotCutTheInvocation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var seen error
		g, err := gateway.New(func(inner context.Context, _ []byte) ([]byte, string, error) {
			cancel()
			synctest.Wait()
			seen = inner.Err()
			return []byte(`{"statusCode":200}`), "", nil
		}, gateway.Options{})
		if err != nil {
			t.Fatal(err)
		}
		answer(g, request(t, http.MethodGet, "/v1/runs", nil).WithContext(ctx))
		g.Close()
		if seen != nil {
			t.Errorf("the invocation's context ended: %v", seen)
		}
	})
}

func TestCloseEndsInvocationsThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, err := gateway.New(func(ctx context.Context, _ []byte) ([]byte, string, error) {
			<-ctx.Done()
			return nil, "", ctx.Err()
		}, gateway.Options{Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		answer(g, request(t, http.MethodGet, "/v1/runs", nil))
		g.Close() // returns only once the invocation has ended
		g.Close()
	})
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	ok := (&function{}).invoke
	tests := map[string]func() (*gateway.Gateway, error){
		"no function":       func() (*gateway.Gateway, error) { return gateway.New(nil, gateway.Options{}) },
		"too patient":       func() (*gateway.Gateway, error) { return gateway.New(ok, gateway.Options{Timeout: time.Minute}) },
		"negative patience": func() (*gateway.Gateway, error) { return gateway.New(ok, gateway.Options{Timeout: -1}) },
		"scope with comma":  func() (*gateway.Gateway, error) { return gateway.New(ok, gateway.Options{Scopes: []string{"a,b"}}) },
	}
	for name, build := range tests {
		if _, err := build(); err == nil || !strings.HasPrefix(err.Error(), "gateway: ") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
