package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/names"
)

func TestFunctionNamesEverySettingThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := newFunction(t.Context(), func(name string) string {
		return map[string]string{names.EnvTools: `{"find_order": {"function": "f"}}`}[name]
	}, io.Discard)
	for _, want := range []string{names.EnvTable + " is not set", names.EnvTools, "find_order.class", names.EnvMachine + " is not set"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want it to name %s", err, want)
		}
	}
}

// settings are enough to start with.
func settings(name string) string {
	return map[string]string{
		names.EnvTable: "table", names.EnvMachine: "arn:aws:states:eu-central-1:000000000000:stateMachine:onceward-dev-agent-run",
		names.EnvTools: `{"issue_credit":{"function":"billing-tools","class":"external"}}`,
	}[name]
}

// serve makes server the one that every client asks. The test can't be parallel:
// it sets the environment.
func serve(t *testing.T, handler http.Handler) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
	} {
		t.Setenv(name, value)
	}
}

func TestFunctionSweepsAnEmptyTable(t *testing.T) {
	serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if target := r.Header.Get("X-Amz-Target"); target != "DynamoDB_20120810.Scan" {
			t.Errorf("it asks for %s", target)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = io.WriteString(w, `{"Items":[],"Count":0,"ScannedCount":0}`)
	}))
	f, err := newFunction(t.Context(), settings, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	report, err := f(t.Context(), stored(t, "event.json"))
	if err != nil || !report.Complete {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestTableThatHangsEndsInAReportBeforeTheFunctionIsStopped(t *testing.T) {
	released := make(chan struct{})
	serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
	t.Cleanup(func() { close(released) })
	f, err := newFunction(t.Context(), settings, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // as Lambda's
	defer cancel()
	report, err := f(ctx, stored(t, "event.json"))
	if over := ctx.Err(); err != nil || over != nil || report.Complete {
		t.Errorf("%+v, %v, %v", report, err, over)
	}
}
