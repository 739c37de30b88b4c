package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/onceward/onceward/internal/doorbell"
	"github.com/onceward/onceward/internal/doorbell/sfnbell"
	"github.com/onceward/onceward/internal/executions/memexecutions"
	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/operator/operatorhttp"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/launch"
	"github.com/onceward/onceward/internal/runs/memruns"
	"github.com/onceward/onceward/internal/toolcall/lambdatools"
	"github.com/onceward/onceward/localstack/gateway"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

const canary = "CANARY"

// stepFunctions plays the service's token rules: one answer only.
type stepFunctions struct {
	mu       sync.Mutex
	answered map[string]int
	err      error
}

func (s *stepFunctions) SendTaskSuccess(_ context.Context, in *sfn.SendTaskSuccessInput, _ ...func(*sfn.Options)) (*sfn.SendTaskSuccessOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	token := aws.ToString(in.TaskToken)
	if s.answered[token]++; s.answered[token] > 1 {
		return nil, &types.TaskTimedOut{}
	}
	return &sfn.SendTaskSuccessOutput{}, nil
}

type noFunctions struct{}

func (noFunctions) Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	return nil, errors.New("unreachable")
}

type plane struct {
	function function
	store    *memledger.Store
	runs     *memruns.Store
	machine  *memexecutions.Machine
	steps    *stepFunctions
	log      *bytes.Buffer
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	store, err := memledger.New()
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{store: store, runs: memruns.New(), machine: memexecutions.New(), steps: &stepFunctions{answered: map[string]int{}}, log: &bytes.Buffer{}}
	log := slog.New(slog.NewJSONHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	service, err := operator.New(operator.Config{
		Store: store, Waits: store, History: store, Runs: p.runs, Log: log,
		Bell: sfnbell.New(p.steps), Tools: lambdatools.New(noFunctions{}, runs.Tools{}), Machine: p.machine,
		Launcher: launch.Launcher{Runs: p.runs, Machine: p.machine, StateMachine: canary, Now: time.Now, NewID: rand.Text, Log: log},
	})
	if err != nil {
		t.Fatal(err)
	}
	api, err := operatorhttp.New(service, log)
	if err != nil {
		t.Fatal(err)
	}
	p.function = behindGateway(api, log)
	t.Cleanup(func() {
		if strings.Contains(p.log.String(), canary) {
			t.Errorf("the log holds a canary: %s", p.log)
		}
	})
	return p
}

// unknown makes an unknown call with a parked run.
func (p *plane) unknown(t *testing.T) ledger.Key {
	t.Helper()
	key := ledger.Key{Tenant: "acme", RunID: "run-7Q", CallID: "toolu_01"}
	start, err := ledger.Record{}.Start(ledger.Stamp{At: time.Now(), WriteID: canary + "1"}, ledger.Call{Key: key, Tool: "issue_credit", Class: "external"},
		ledger.Executor{Token: canary + "attempt", Attempt: 1, Deadline: time.Now().Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.store.Apply(t.Context(), start)
	if err != nil {
		t.Fatal(err)
	}
	lose, err := r.Settle(ledger.Stamp{At: time.Now(), WriteID: canary + "2"}, r.Attempt.Token, ledger.Settlement{Effect: ledger.Unknown})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.store.Apply(t.Context(), lose); err != nil {
		t.Fatal(err)
	}
	if err := p.store.SaveWait(t.Context(), ledger.Wait{Key: key, ID: "w1", Token: canary + "task", Execution: "x", ParkedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return key
}

func event(t *testing.T, file string) events.APIGatewayV2HTTPRequest {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var e events.APIGatewayV2HTTPRequest
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func (p *plane) send(t *testing.T, e events.APIGatewayV2HTTPRequest) events.APIGatewayV2HTTPResponse {
	t.Helper()
	out, err := p.function(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.Body, canary) {
		t.Errorf("the answer holds a canary: %s", out.Body)
	}
	return out
}

type body struct {
	Code       string
	RunWaiting string              `json:"run_waiting"`
	DecidedBy  *operator.DecidedBy `json:"decided_by"`
	Record     struct{ Status string }
	Decision   struct{ By string }
	Items      []operator.Item
}

func read(t *testing.T, out events.APIGatewayV2HTTPResponse) body {
	t.Helper()
	var b body
	if err := json.Unmarshal([]byte(out.Body), &b); err != nil {
		t.Fatalf("%d %s: %v", out.StatusCode, out.Body, err)
	}
	return b
}

// Proves: R101, R104, R119
func TestAnEventSettlesTheCallAndWakesItsRun(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.unknown(t)
	listed := p.send(t, event(t, "list.json"))
	if got := read(t, listed); listed.StatusCode != 200 || len(got.Items) != 1 || got.Items[0].Why != operator.WhyUnknown {
		t.Errorf("list: %d %s", listed.StatusCode, listed.Body)
	}
	out := p.send(t, event(t, "event.json"))
	got := read(t, out)
	if out.StatusCode != 200 || out.Headers["content-type"] != "application/json" || got.Record.Status != "failed" || got.RunWaiting != "woken" || got.Decision.By != "ada" {
		t.Fatalf("%d %v %s", out.StatusCode, out.Headers, out.Body)
	}
	if again := p.send(t, event(t, "event.json")); again.Body != out.Body || again.Headers["idempotency-replayed"] != "true" {
		t.Errorf("again: %d %v %s", again.StatusCode, again.Headers, again.Body)
	}
	if p.steps.answered[canary+"task"] != 1 {
		t.Errorf("%d bells", p.steps.answered[canary+"task"])
	}
	if !strings.Contains(p.log.String(), `"request_id":"req-1"`) || !strings.Contains(p.log.String(), `"status":200`) {
		t.Errorf("log: %s", p.log)
	}
}

// Proves: R107
func TestTwoOperatorsAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.unknown(t)
	answers := make([]events.APIGatewayV2HTTPResponse, 2)
	var both sync.WaitGroup
	for i, actor := range []string{"ada", "bob"} {
		e := event(t, "event.json")
		e.RequestContext.Authorizer.JWT.Claims["sub"] = actor
		both.Go(func() { answers[i], _ = p.function(t.Context(), e) })
	}
	both.Wait()
	won, lost := answers[0], answers[1]
	if won.StatusCode != 200 {
		won, lost = lost, won
	}
	if won.StatusCode != 200 || lost.StatusCode != 409 {
		t.Fatalf("%d and %d", won.StatusCode, lost.StatusCode)
	}
	if got := read(t, lost); got.Code != "already_decided" || got.DecidedBy.Actor != read(t, won).Decision.By || got.Record.Status != "failed" {
		t.Errorf("the loser: %s", lost.Body)
	}
}

func TestStepFunctionsWordsDecideNothing(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"TaskTimedOut": &types.TaskTimedOut{}, "TaskDoesNotExist": &types.TaskDoesNotExist{}, "InvalidToken": &types.InvalidToken{},
	} {
		p := newPlane(t)
		key := p.unknown(t)
		p.steps.err = err
		out := p.send(t, event(t, "event.json"))
		waits, waitsErr := p.store.Waits(t.Context(), key)
		if got := read(t, out); waitsErr != nil || out.StatusCode != 200 || got.RunWaiting != "no longer waiting" || got.Record.Status != "failed" || waits[0].How != want {
			t.Errorf("%s: %d %s, how %q", want, out.StatusCode, out.Body, waits[0].How)
		}
	}
	p := newPlane(t)
	p.steps.err = errors.New("throttled")
	if err := sfnbell.New(p.steps).Ring(t.Context(), canary); err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("got %v", err)
	}
	if _, gone := errors.AsType[*doorbell.GoneError](sfnbell.New(p.steps).Ring(t.Context(), canary)); gone {
		t.Error("throttling was taken for gone")
	}
}

// Proves: R103
func TestIdentityComesFromTheAuthorizerOnly(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.unknown(t)
	claims := func(change func(*events.APIGatewayV2HTTPRequest)) events.APIGatewayV2HTTPResponse {
		e := event(t, "event.json")
		e.Headers["authorization"] = "Bearer forged"
		e.Headers["x-tenant"], e.Headers["x-actor"] = "acme", "ada"
		change(&e)
		return p.send(t, e)
	}
	for name, tt := range map[string]struct {
		change func(*events.APIGatewayV2HTTPRequest)
		want   int
	}{
		"no authorizer": {func(e *events.APIGatewayV2HTTPRequest) { e.RequestContext.Authorizer = nil }, 401},
		"no JWT":        {func(e *events.APIGatewayV2HTTPRequest) { e.RequestContext.Authorizer.JWT = nil }, 401},
		"no subject":    {func(e *events.APIGatewayV2HTTPRequest) { delete(e.RequestContext.Authorizer.JWT.Claims, "sub") }, 401},
		"no scope":      {func(e *events.APIGatewayV2HTTPRequest) { delete(e.RequestContext.Authorizer.JWT.Claims, "scope") }, 403},
		"scope in scopes": {func(e *events.APIGatewayV2HTTPRequest) {
			delete(e.RequestContext.Authorizer.JWT.Claims, "scope")
			e.RequestContext.Authorizer.JWT.Scopes = []string{"calls:decide"}
		}, 403},
		"other tenant": {func(e *events.APIGatewayV2HTTPRequest) {
			e.RequestContext.Authorizer.JWT.Claims["custom:tenant"] = "evil"
		}, 404},
		"a store's name for no tenant": {func(e *events.APIGatewayV2HTTPRequest) {
			e.RequestContext.Authorizer.JWT.Claims["custom:tenant"] = "."
		}, 403},
		"no tenant": {func(e *events.APIGatewayV2HTTPRequest) {
			delete(e.RequestContext.Authorizer.JWT.Claims, "custom:tenant")
		}, 404},
		"actor in the body": {func(e *events.APIGatewayV2HTTPRequest) { e.Body = `{"actor":"eve",` + e.Body[1:] }, 422},
	} {
		if out := claims(tt.change); out.StatusCode != tt.want {
			t.Errorf("%s: %d %s", name, out.StatusCode, out.Body)
		}
	}
}

func TestPathsArriveAsEveryFrontSendsThem(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ path, stage string }{
		"decoded":                   {"/v1/tool-executions/acme/run-7Q:toolu_01/resolve", "$default"},
		"without tenant":            {"/v1/tool-executions/run-7Q:toolu_01/resolve", "$default"},
		"encoded":                   {"/v1/tool-executions/acme%2Frun-7Q%3Atoolu_01/resolve", "$default"},
		"behind a named stage":      {"/prod/v1/tool-executions/acme/run-7Q:toolu_01/resolve", "prod"},
		"a stage in another domain": {"/v1/tool-executions/acme%2Frun-7Q:toolu_01/resolve", "prod"},
	} {
		p := newPlane(t)
		p.unknown(t)
		e := event(t, "event.json")
		e.RawPath, e.RequestContext.Stage = tt.path, tt.stage
		if out := p.send(t, e); out.StatusCode != 200 {
			t.Errorf("%s: %d %s", name, out.StatusCode, out.Body)
		}
	}
	for _, path := range []string{"", "/", "//", "/v1/tool-executions/%zz", "/v1/tool-executions/a%00b:c", "/v1/../v1", "/v1/tool-executions/é:x", "/v1/tool-executions/a b:c"} {
		p := newPlane(t)
		e := event(t, "list.json")
		e.RawPath = path
		out := p.send(t, e)
		if out.StatusCode < 300 || out.StatusCode >= 500 {
			t.Errorf("%q: %d %s", path, out.StatusCode, out.Body)
		}
	}
}

func TestBodiesInBase64AreReadAndBrokenEventsAreRefused(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.unknown(t)
	e := event(t, "event.json")
	e.Body, e.IsBase64Encoded = "%%%", true
	if _, err := p.function(t.Context(), e); !errors.Is(err, errEvent) {
		t.Errorf("got %v", err)
	}
	e.Body = base64.StdEncoding.EncodeToString([]byte(event(t, "event.json").Body))
	if out := p.send(t, e); out.StatusCode != 200 {
		t.Errorf("%d %s", out.StatusCode, out.Body)
	}
	for _, broken := range []events.APIGatewayV2HTTPRequest{{}, {Version: "1.0"}, {Version: "2.0"}} {
		if _, err := p.function(t.Context(), broken); !errors.Is(err, errEvent) {
			t.Errorf("got %v", err)
		}
	}
}

// The same through the gateway that is played on one machine.
func TestRequestsThroughTheGateway(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.unknown(t)
	front, err := gateway.New(func(ctx context.Context, payload []byte) ([]byte, string, error) {
		var e events.APIGatewayV2HTTPRequest
		if err := json.Unmarshal(payload, &e); err != nil {
			return nil, "", err
		}
		out, err := p.function(ctx, e)
		if err != nil {
			return nil, "Unhandled", nil //nolint:nilerr // a function's error is Lambda's answer
		}
		response, err := json.Marshal(out)
		return response, "", err
	}, gateway.Options{Scopes: []string{"calls:read", "calls:decide"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(front.Close)
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	send := func(method, path, token, text string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := server.Client().Do(req)
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
	resolve := event(t, "event.json").Body
	for _, tt := range []struct {
		method, path, token, body string
		want                      int
	}{
		{http.MethodGet, "/v1/tool-executions?status=indeterminate", "dev:acme:ada", "", 200},
		{http.MethodGet, "/v1/tool-executions/acme%2Frun-7Q%3Atoolu_01", "dev:acme:ada", "", 200},
		{http.MethodGet, "/v1/tool-executions/acme%2Frun-7Q%3Atoolu_01", "dev:evil:eve", "", 404},
		{http.MethodGet, "/v1/tool-executions/run-7Q:toolu_01", "dev:acme:ada:calls:decide", "", 403},
		{http.MethodPost, "/v1/tool-executions/acme%2Frun-7Q:toolu_01/resolve", "dev:acme:ada", `{"outcome":"failed","expected_version":2}`, 422},
		{http.MethodPost, "/v1/tool-executions/acme%252Frun-7Q:toolu_01/resolve", "dev:acme:ada", resolve, 200},
		{http.MethodPost, "/v1/tool-executions/run-7Q:toolu_01/resolve", "dev:acme:bob", resolve, 409},
	} {
		if status, text := send(tt.method, tt.path, tt.token, tt.body); status != tt.want {
			t.Errorf("%s %s as %s: %d %s", tt.method, tt.path, tt.token, status, text)
		}
	}
}
