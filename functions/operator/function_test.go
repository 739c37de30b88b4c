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
	"github.com/onceward/onceward/internal/operator"
)

// Not parallel: it sets the environment.
func TestATableThatHangsEndsInAProblemBeforeTheFunctionIsStopped(t *testing.T) {
	released := make(chan struct{})
	table := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
	t.Cleanup(table.Close)
	t.Cleanup(func() { close(released) })
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_DYNAMODB": table.URL, "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
	} {
		t.Setenv(name, value)
	}
	settings := map[string]string{names.EnvTable: "table", names.EnvTools: `{"issue_credit":{"function":"billing-tools","class":"external"}}`, names.EnvMachine: "arn"}
	handle, err := newFunction(t.Context(), func(name string) string { return settings[name] }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"list.json", "event.json"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // as Lambda's
		out, err := handle(ctx, event(t, file))
		if over := ctx.Err(); err != nil || over != nil || out.StatusCode != http.StatusServiceUnavailable || read(t, out).Code != string(operator.Unavailable) {
			t.Errorf("%s: %d %s, %v, %v", file, out.StatusCode, out.Body, err, over)
		}
		cancel()
	}
}

func TestFunctionNamesEverySettingThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := newFunction(t.Context(), func(string) string { return "" }, io.Discard)
	for _, name := range []string{names.EnvTable, names.EnvTools, names.EnvMachine} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
}
