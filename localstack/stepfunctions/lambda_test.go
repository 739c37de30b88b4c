package stepfunctions

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
)

// lambdaAt returns an invoker for a Lambda API played by handler, and counts its requests.
func lambdaAt(t *testing.T, handler http.HandlerFunc) (*LambdaInvoker, *atomic.Int64) {
	t.Helper()
	var count atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		handler(w, r)
	}))
	invoker, err := NewLambdaInvoker(server.URL, "us-east-1", credentials.NewStaticCredentialsProvider("k", "s", ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		invoker.Close()
		server.Close()
	})
	return invoker, &count
}

func refuse(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if kind != "" {
			w.Header().Set("X-Amzn-Errortype", kind)
		}
		w.Header().Set("X-Amzn-Requestid", "r-9")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func TestLambdaInvokerNamesErrorsAsStepFunctionsDoes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		handler http.HandlerFunc
		name    string
		cause   string
	}{
		"throttled": {
			refuse(429, "TooManyRequestsException", `{"message":"Rate Exceeded."}`), "Lambda.TooManyRequestsException",
			"Rate Exceeded. (Service: AWSLambda; Status Code: 429; Error Code: TooManyRequestsException; Request ID: r-9; Proxy: null)",
		},
		"not found": {
			refuse(404, "ResourceNotFoundException", `{"Message":"Function not found: f"}`), "Lambda.ResourceNotFoundException",
			"Function not found: f (Service: AWSLambda; Status Code: 404; Error Code: ResourceNotFoundException; Request ID: r-9; Proxy: null)",
		},
		"service": {refuse(500, "ServiceException", `{"Message":"x"}`), "Lambda.ServiceException", "x (Service"},
		"no code": {refuse(502, "", `<html>`), "Lambda.AWSLambdaException", ""},
		"dropped": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "Lambda.SdkClientException", "Unable to execute HTTP request: "},
		"cut off half way": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				_, _ = w.Write([]byte(`{"half":`))
				panic(http.ErrAbortHandler)
			}, "Lambda.SdkClientException", "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			invoker, count := lambdaAt(t, test.handler)
			_, err := invoker.Invoke(t.Context(), Invocation{Function: "f", Payload: []byte(`{}`)})
			got, ok := errors.AsType[*InvokeError](err)
			if !ok || got.Name != test.name || !strings.HasPrefix(got.Cause, test.cause) {
				t.Errorf("got %v, want %s: %s", err, test.name, test.cause)
			}
			if count.Load() != 1 {
				t.Errorf("%d requests were sent", count.Load())
			}
		})
	}
}

func TestLambdaInvokerReturnsAnswersAndFunctionErrors(t *testing.T) {
	t.Parallel()
	invoker, _ := lambdaAt(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Amz-Executed-Version", "7")
		w.Header().Set("X-Amzn-Requestid", "r-3")
		if strings.Contains(r.URL.Path, "bad") {
			w.Header().Set("X-Amz-Function-Error", "Unhandled")
		}
		_, _ = w.Write([]byte(r.Method + " " + r.URL.RequestURI()))
	})
	out, err := invoker.Invoke(t.Context(), Invocation{Function: "good", Qualifier: "live", Payload: []byte(`{}`)})
	if err != nil || string(out.Payload) != "POST /2015-03-31/functions/good/invocations?Qualifier=live" || out.ExecutedVersion != "7" ||
		out.StatusCode != 200 || out.RequestID != "r-3" || out.FunctionError != "" || out.Header.Get("X-Amz-Executed-Version") != "7" {
		t.Errorf("%+v %v", out, err)
	}
	if out, err = invoker.Invoke(t.Context(), Invocation{Function: "bad", Payload: []byte(`{}`)}); err != nil || out.FunctionError != "Unhandled" {
		t.Errorf("%+v %v", out, err)
	}
}

func TestLambdaInvokerNeedsAnEndpointARegionAndCredentials(t *testing.T) {
	t.Parallel()
	some := credentials.NewStaticCredentialsProvider("k", "s", "")
	for _, err := range []error{
		second(NewLambdaInvoker("", "r", some)), second(NewLambdaInvoker("http://x", "", some)), second(NewLambdaInvoker("http://x", "r", nil)),
	} {
		if !errors.Is(err, errEndpoint) {
			t.Errorf("got %v", err)
		}
	}
}

func second(_ *LambdaInvoker, err error) error { return err }

func TestLambdaInvokerEndsWithItsContext(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	invoker, _ := lambdaAt(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client left
		close(entered)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	_, err := invoker.Invoke(ctx, Invocation{Function: "f", Payload: []byte(`{}`)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestRunnerRefusesWrongOptions(t *testing.T) {
	t.Parallel()
	if _, err := New(nil, nil); !errors.Is(err, errNoInvoker) {
		t.Errorf("no invoker: %v", err)
	}
	for _, scale := range []float64{-1, 1.5} {
		if _, err := New(&scripted{}, &Options{WaitScale: scale}); !errors.Is(err, errWaitScale) {
			t.Errorf("scale %v: %v", scale, err)
		}
	}
	if _, err := New(&scripted{}, &Options{Account: "1"}); !errors.Is(err, errAccount) {
		t.Errorf("account: %v", err)
	}
}
