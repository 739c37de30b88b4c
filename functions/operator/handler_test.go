package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
)

type oneFunction struct {
	in  *lambda.InvokeInput
	out *lambda.InvokeOutput
	err error
}

func (f *oneFunction) Invoke(_ context.Context, in *lambda.InvokeInput, _ ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	f.in = in
	return f.out, f.err
}

func TestToolsAreFoundByNameAndTheirFailuresTellNothing(t *testing.T) {
	t.Parallel()
	tools, err := runs.ParseTools(`{"issue_credit":{"function":"onceward-dev-billing-tools","class":"external"}}`)
	if err != nil {
		t.Fatal(err)
	}
	f := &oneFunction{out: &lambda.InvokeOutput{Payload: []byte(`{"onceward":1}`)}}
	invoke := func(tool string) ([]byte, error) {
		return toolFunctions{client: f, tools: tools}.Invoke(t.Context(), tool, []byte(`{}`))
	}
	if _, err := invoke("unknown_tool"); !errors.Is(err, operator.ErrNoTool) || f.in != nil {
		t.Errorf("got %v", err)
	}
	if got, err := invoke("issue_credit"); err != nil || string(got) != `{"onceward":1}` || aws.ToString(f.in.FunctionName) != "onceward-dev-billing-tools" {
		t.Errorf("got %s, %v", got, err)
	}
	f.out = &lambda.InvokeOutput{FunctionError: aws.String("Unhandled"), Payload: []byte(canary)}
	if _, err := invoke("issue_credit"); !errors.Is(err, errFunction) || strings.Contains(err.Error(), canary) {
		t.Errorf("got %v", err)
	}
	f.err = errors.New("timeout")
	if _, err := invoke("issue_credit"); !errors.Is(err, f.err) {
		t.Errorf("got %v", err)
	}
}

func TestTheToolClientMakesOneAttemptAndWaitsLongerThanAnyTool(t *testing.T) {
	t.Parallel()
	options := toolClient(aws.Config{Region: "eu-central-1", RetryMaxAttempts: 5}).Options()
	if n := options.Retryer.MaxAttempts(); n != 1 {
		t.Errorf("%d attempts", n)
	}
	client, ok := options.HTTPClient.(interface{ GetTimeout() time.Duration })
	if !ok || client.GetTimeout() <= 20*time.Second || client.GetTimeout() >= 29*time.Second {
		t.Errorf("its HTTP client is %T", options.HTTPClient)
	}
}

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
	settings := map[string]string{names.EnvTable: "table", names.EnvTools: `{"issue_credit":{"function":"billing-tools","class":"external"}}`}
	handle, err := newHandler(t.Context(), func(name string) string { return settings[name] }, io.Discard)
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

func TestSettingsAreCheckedTogether(t *testing.T) {
	t.Parallel()
	_, err := newHandler(t.Context(), func(string) string { return "" }, io.Discard)
	for _, name := range []string{names.EnvTable, names.EnvTools} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
}
