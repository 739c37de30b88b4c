package lambda_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/localstack/lambda"
)

// serveFunctions runs a supervisor's API and returns an SDK client that makes
// one attempt.
func serveFunctions(t *testing.T, options lambda.Options, functions ...lambda.Function) (*sdk.Client, *lambda.Supervisor, string) {
	t.Helper()
	s := start(t, options, functions...)
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return sdk.New(sdk.Options{
		Region: lambda.Region, BaseEndpoint: aws.String(server.URL), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("AKIALOCAL", "secret", ""),
		HTTPClient:  &http.Client{Transport: transport},
	}), s, server.URL
}

func TestSDKReadsAnswersFailuresAndLogs(t *testing.T) {
	t.Parallel()
	f := function(t, "f")
	f.Aliases = []string{"live"}
	client, _, _ := serveFunctions(t, lambda.Options{}, f)
	for _, name := range []string{
		"f", "f:live", "f:$LATEST", "000000000000:function:f", "function:f", "arn:aws:lambda:us-east-1:000000000000:function:f",
		"arn:aws:lambda:us-east-1:000000000000:function:f:live",
	} {
		out, err := client.Invoke(t.Context(), &sdk.InvokeInput{
			FunctionName: &name, Payload: []byte(`{"do":"print","text":"hello\n"}`), LogType: types.LogTypeTail,
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)

			continue
		}
		log, err := base64.StdEncoding.DecodeString(aws.ToString(out.LogResult))
		if err != nil || !bytes.Contains(log, []byte("\nhello\nEND RequestId: ")) {
			t.Errorf("%s: log %q %v", name, log, err)
		}
		if string(out.Payload) != `"done"` || out.FunctionError != nil || aws.ToString(out.ExecutedVersion) != "$LATEST" || out.StatusCode != 200 {
			t.Errorf("%s: %+v", name, out)
		}
	}
	out, err := client.Invoke(t.Context(), &sdk.InvokeInput{FunctionName: aws.String("f"), Qualifier: aws.String("live"), Payload: []byte(`{"do":"exit 7"}`)})
	if err != nil || aws.ToString(out.FunctionError) != "Unhandled" || !bytes.Contains(out.Payload, []byte(`"errorType":"Runtime.ExitError"`)) || out.LogResult != nil {
		t.Errorf("%+v %v", out, err)
	}
	dry, err := client.Invoke(t.Context(), &sdk.InvokeInput{FunctionName: aws.String("f"), InvocationType: types.InvocationTypeDryRun})
	if err != nil || dry.StatusCode != 204 || len(dry.Payload) != 0 {
		t.Errorf("%+v %v", dry, err)
	}
}

func TestSDKReadsRefusals(t *testing.T) {
	t.Parallel()
	client, s, _ := serveFunctions(t, lambda.Options{})
	for name, c := range map[string]struct {
		in   sdk.InvokeInput
		code string
		text string
	}{
		"unknown function": {
			sdk.InvokeInput{FunctionName: aws.String("g")},
			"ResourceNotFoundException",
			"Function not found: arn:aws:lambda:us-east-1:000000000000:function:g",
		},
		"unknown qualifier": {
			sdk.InvokeInput{FunctionName: aws.String("f"), Qualifier: aws.String("live")},
			"ResourceNotFoundException",
			"Function not found: arn:aws:lambda:us-east-1:000000000000:function:f:live",
		},
		"two qualifiers": {
			sdk.InvokeInput{FunctionName: aws.String("f:$LATEST"), Qualifier: aws.String("live")},
			"InvalidParameterValueException",
			"The derived qualifier from the function name does not match the specified qualifier.",
		},
		"other account": {
			sdk.InvokeInput{FunctionName: aws.String("arn:aws:lambda:us-east-1:111111111111:function:f")},
			"ResourceNotFoundException",
			"Function not found: arn:aws:lambda:us-east-1:111111111111:function:f",
		},
		"not JSON": {
			sdk.InvokeInput{FunctionName: aws.String("f"), Payload: []byte("{not json")},
			"InvalidRequestContentException",
			"Could not parse request body into json: Could not parse payload into json: invalid character 'n' looking for beginning of object key string",
		},
		"dry run of an unknown function": {
			sdk.InvokeInput{FunctionName: aws.String("g"), InvocationType: types.InvocationTypeDryRun},
			"ResourceNotFoundException",
			"Function not found: arn:aws:lambda:us-east-1:000000000000:function:g",
		},
		"too large": {
			sdk.InvokeInput{FunctionName: aws.String("f"), Payload: bytes.Repeat([]byte("1"), lambda.MaxRequest+1)},
			"RequestEntityTooLargeException", "Request must be smaller than 6291456 bytes for the InvokeFunction operation",
		},
		"asynchronous": {
			sdk.InvokeInput{FunctionName: aws.String("f"), InvocationType: types.InvocationTypeEvent},
			"InvalidParameterValueException",
			"Asynchronous invocation (Event) is not served here: invoke with RequestResponse.",
		},
	} {
		_, err := client.Invoke(t.Context(), &c.in)
		refused, ok := errors.AsType[smithy.APIError](err)
		if !ok || refused.ErrorCode() != c.code || refused.ErrorMessage() != c.text {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := client.Invoke(t.Context(), &sdk.InvokeInput{FunctionName: aws.String("g")})
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); !ok {
		t.Errorf("not the SDK's own type: %v", err)
	}
	_, err = client.Invoke(t.Context(), &sdk.InvokeInput{FunctionName: aws.String("f"), Payload: []byte("x")})
	if _, ok := errors.AsType[*types.InvalidRequestContentException](err); !ok {
		t.Errorf("not the SDK's own type: %v", err)
	}
	if lines := s.Logs("f"); len(lines) != 0 {
		t.Errorf("a refused request entered the function: %v", lines)
	}
}

func TestFunctionsAreListedAndDescribed(t *testing.T) {
	t.Parallel()
	f := function(t, "f")
	f.Env["TOKEN"] = "canary"
	client, _, url := serveFunctions(t, lambda.Options{}, function(t, "g"), f)
	list, err := client.ListFunctions(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range list.Functions {
		names = append(names, aws.ToString(c.FunctionName))
	}
	if diff := cmp.Diff([]string{"f", "g"}, names); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	got, err := client.GetFunction(t.Context(), &sdk.GetFunctionInput{FunctionName: aws.String("f")})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.GetFunctionConfiguration(t.Context(), &sdk.GetFunctionConfigurationInput{FunctionName: aws.String("arn:aws:lambda:us-east-1:000000000000:function:f")})
	if err != nil {
		t.Fatal(err)
	}
	if aws.ToString(c.FunctionArn) != "arn:aws:lambda:us-east-1:000000000000:function:f" || aws.ToInt32(c.Timeout) != 60 || aws.ToInt32(c.MemorySize) != 128 ||
		c.Runtime != types.RuntimeProvidedal2023 || c.State != types.StateActive || c.CodeSize == 0 ||
		aws.ToString(c.CodeSha256) != aws.ToString(got.Configuration.CodeSha256) {
		t.Errorf("configuration %+v", c)
	}
	_, err = client.GetFunction(t.Context(), &sdk.GetFunctionInput{FunctionName: aws.String("h")})
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); !ok {
		t.Errorf("got %v", err)
	}
	_, err = client.DeleteFunction(t.Context(), &sdk.DeleteFunctionInput{FunctionName: aws.String("f")})
	if refused, ok := errors.AsType[smithy.APIError](err); !ok || refused.ErrorCode() != "UnknownOperationException" {
		t.Errorf("got %v", err)
	}
	for _, path := range []string{"/2015-03-31/functions/", "/2015-03-31/functions/f"} {
		if _, body := request(t, http.MethodGet, url+path, ""); strings.Contains(body, "canary") {
			t.Errorf("%s shows the environment: %s", path, body)
		}
	}
}

func request(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

func TestClientThatHangsUpDoesNotStopTheSandbox(t *testing.T) {
	t.Parallel()
	ended := make(reports, 1)
	_, _, url := serveFunctions(t, lambda.Options{Logs: ended})
	bell := newDoorbell(t)
	payload, err := json.Marshal(bell.order())
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Transport{}
	defer client.CloseIdleConnections()
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/2015-03-31/functions/f/invocations", bytes.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() {
		resp, err := client.RoundTrip(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		gone <- err
	}()
	conn := bell.wait(t)
	hangUp()
	if err := <-gone; err == nil {
		t.Fatal("the client was answered")
	}
	if _, err := io.WriteString(conn, "go\n"); err != nil {
		t.Fatalf("the sandbox was stopped: %v", err)
	}
	if report := <-ended; strings.Contains(report, "Status") {
		t.Errorf("the invocation did not end well: %s", report)
	}
}

func TestKillIsServedAndEndsTheInvocationUnderWay(t *testing.T) {
	t.Parallel()
	client, s, _ := serveFunctions(t, lambda.Options{})
	control := httptest.NewServer(s.Control())
	t.Cleanup(control.Close)
	bell := newDoorbell(t)
	payload, err := json.Marshal(bell.order())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan *sdk.InvokeOutput, 1)
	go func() {
		out, err := client.Invoke(t.Context(), &sdk.InvokeInput{FunctionName: aws.String("f"), Payload: payload})
		if err != nil {
			t.Error(err)
		}
		done <- out
	}()
	bell.wait(t)
	if status, body := request(t, http.MethodPost, control.URL+"/_local/lambda/kill", `{"function":"f"}`); status != 200 || strings.TrimSpace(body) != `{"killed":1}` {
		t.Errorf("%d %s", status, body)
	}
	if out := <-done; out == nil || aws.ToString(out.FunctionError) != "Unhandled" || !bytes.Contains(out.Payload, []byte("Runtime exited with error: signal: killed")) {
		t.Errorf("%+v", out)
	}
	for body, want := range map[string]int{
		`{"function":"f"}`: 200, `{"function":"g"}`: 404, `{}`: 400, `{"function":"f","all":true}`: 400, `{"function":"f"} x`: 400, ``: 400,
	} {
		if status, answer := request(t, http.MethodPost, control.URL+"/_local/lambda/kill", body); status != want {
			t.Errorf("%s: %d %s, want %d", body, status, answer, want)
		}
	}
}

func TestAnswersCarryAWSHeaders(t *testing.T) {
	t.Parallel()
	_, s, _ := serveFunctions(t, lambda.Options{})
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/2015-03-31/functions/f/invocations", http.NoBody)
	r.Header.Set("X-Amzn-Trace-Id", "Root=1-5759e988-bd862e3fe1be46a994272793")
	s.Handler().ServeHTTP(w, r)
	if w.Code != 200 || w.Header().Get("X-Amzn-RequestId") == "" || w.Header().Get("X-Amz-Executed-Version") != "$LATEST" ||
		w.Header().Get("X-Amzn-Trace-Id") != "Root=1-5759e988-bd862e3fe1be46a994272793" || w.Header().Get("X-Amz-Function-Error") != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	w = httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/2015-03-31/functions/g/invocations", http.NoBody))
	if w.Code != 404 || w.Header().Get("X-Amzn-ErrorType") != "ResourceNotFoundException" || w.Header().Get("X-Amzn-RequestId") == "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	for header, value := range map[string]string{"X-Amz-Log-Type": "Head", "X-Amz-Invocation-Type": "Later", "X-Amz-Client-Context": "%"} {
		w = httptest.NewRecorder()
		r = httptest.NewRequest(http.MethodPost, "/2015-03-31/functions/f/invocations", http.NoBody)
		r.Header.Set(header, value)
		s.Handler().ServeHTTP(w, r)
		if w.Code != 400 {
			t.Errorf("%s: %s was accepted: %d", header, value, w.Code)
		}
	}
}
