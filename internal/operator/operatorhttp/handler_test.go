package operatorhttp_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/executions/memexecutions"
	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/operator/operatorhttp"
	"github.com/onceward/onceward/internal/runs/launch"
	"github.com/onceward/onceward/internal/runs/memruns"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

const canary = "CANARY"

type silentBell struct{}

func (silentBell) Ring(context.Context, ledger.Secret) error { return nil }

// Invoke plays the tools' functions.
func (d *desk) Invoke(_ context.Context, _ string, payload []byte) ([]byte, error) {
	if d.answer == nil {
		return nil, errors.New("dial tcp: " + canary)
	}
	return d.answer(payload)
}

type desk struct {
	store   *memledger.Store
	runs    *memruns.Store
	machine *memexecutions.Machine
	answer  func(payload []byte) ([]byte, error) // of a tool's function; nil: none
	handler http.Handler
	id      operator.Identity
	log     bytes.Buffer
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	store, err := memledger.New()
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{store: store, runs: memruns.New(), machine: memexecutions.New(), id: operator.Identity{Tenant: "acme", Actor: "ada", Scopes: []string{"calls:read", "calls:decide"}}}
	launcher := launch.Launcher{Runs: d.runs, Machine: d.machine, StateMachine: canary, Now: time.Now, NewID: rand.Text, Log: slog.New(slog.NewJSONHandler(&d.log, nil))}
	service, err := operator.New(operator.Config{Store: store, Waits: store, History: store, Runs: d.runs, Bell: silentBell{}, Tools: d, Launcher: launcher, Machine: d.machine})
	if err != nil {
		t.Fatal(err)
	}
	d.handler, err = operatorhttp.New(service, slog.New(slog.NewJSONHandler(&d.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// unknown makes an unknown call at version 2.
func (d *desk) unknown(t *testing.T, id string) {
	t.Helper()
	key := ledger.Key{Tenant: "acme", RunID: "run-1", CallID: id}
	start, err := ledger.Record{}.Start(ledger.Stamp{At: time.Now(), WriteID: canary + id}, ledger.Call{Key: key, Tool: "issue_credit", Class: "external"},
		ledger.Executor{Token: ledger.AttemptToken(canary + id), Attempt: 1, Deadline: time.Now().Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.store.Apply(t.Context(), start)
	if err != nil {
		t.Fatal(err)
	}
	lose, err := r.Settle(ledger.Stamp{At: time.Now(), WriteID: canary + id + "2"}, r.Attempt.Token, ledger.Settlement{Effect: ledger.Unknown})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.store.Apply(t.Context(), lose); err != nil {
		t.Fatal(err)
	}
}

func (d *desk) send(t *testing.T, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(operatorhttp.WithIdentity(t.Context(), d.id), method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	if strings.Contains(w.Body.String(), canary) {
		t.Errorf("the answer holds a canary: %s", w.Body)
	}
	return w
}

func problemOf(t *testing.T, w *httptest.ResponseRecorder) operator.Problem {
	t.Helper()
	var p operator.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	if ct := w.Header().Get("Content-Type"); ct != "application/problem+json" || p.Status != w.Code || p.Type != "urn:onceward:problem:"+string(p.Code) {
		t.Errorf("content type %q, status %d of a %d, type %q", ct, p.Status, w.Code, p.Type)
	}
	return p
}

const (
	callPath = "/v1/tool-executions/run-1:c1"
	good     = `{"outcome":"failed","reason":"no such credit","expected_version":2}`
)

func TestKeysArriveInEveryFormAPathCanTake(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"run-1:c1", "run-1%3Ac1", "acme%2Frun-1:c1", "acme%2frun-1%3ac1", "acme/run-1:c1", "acme/run-1%3Ac1"} {
		d := newDesk(t)
		d.unknown(t, "c1")
		if w := d.send(t, http.MethodGet, "/v1/tool-executions/"+path, ""); w.Code != http.StatusOK {
			t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
		if w := d.send(t, http.MethodPost, "/v1/tool-executions/"+path+"/resolve", good); w.Code != http.StatusOK {
			t.Errorf("POST %s: %d %s", path, w.Code, w.Body)
		}
	}
	d := newDesk(t)
	d.unknown(t, "~t3-0")
	if w := d.send(t, http.MethodGet, "/v1/tool-executions/run-1:~t3-0", ""); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for path, want := range map[string]operator.Code{
		"/v1/tool-executions/evil/run-1:c1":     operator.NotFound,
		"/v1/tool-executions/run-1":             operator.NotFound,
		"/v1/tool-executions/run-1:c1/resolve":  operator.MethodNotAllowed,
		"/v1/tool-executions/run-1:c1/explode":  operator.NoRoute,
		"/v1/tool-executions/acme/run-1:c1/a/b": operator.NoRoute,
		"/v2/tool-executions":                   operator.NoRoute,
		"/":                                     operator.NoRoute,
	} {
		if p := problemOf(t, d.send(t, http.MethodGet, path, "")); p.Code != want {
			t.Errorf("GET %s: %s, want %s", path, p.Code, want)
		}
	}
	if w := d.send(t, http.MethodDelete, callPath, ""); w.Header().Get("Allow") != http.MethodGet || problemOf(t, w).Code != operator.MethodNotAllowed {
		t.Errorf("DELETE: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

// Proves: R105
func TestBodiesAreReadStrictlyAndEveryWrongFieldIsNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body  string
		code  operator.Code
		where []string
	}{
		"empty object":        {`{}`, operator.InvalidRequest, []string{"body.outcome", "body.reason", "body.expected_version"}},
		"no reason":           {`{"outcome":"failed","expected_version":2}`, operator.InvalidRequest, []string{"body.reason"}},
		"blank reason":        {`{"outcome":"failed","reason":"  ","expected_version":2}`, operator.InvalidRequest, []string{"body.reason"}},
		"no outcome":          {`{"reason":"r","expected_version":2}`, operator.InvalidRequest, []string{"body.outcome"}},
		"unknown outcome":     {`{"outcome":"maybe","reason":"r","expected_version":2}`, operator.InvalidRequest, []string{"body.outcome"}},
		"unknown field":       {`{"outcome":"failed","reason":"r","expected_version":2,"actor":"` + canary + `"}`, operator.InvalidRequest, []string{"body.actor"}},
		"field in other case": {`{"Outcome":"failed","reason":"r","expected_version":2}`, operator.InvalidRequest, nil},
		"fraction":            {`{"outcome":"failed","reason":"r","expected_version":2.5}`, operator.InvalidRequest, []string{"body.expected_version"}},
		"version as text":     {`{"outcome":"failed","reason":"r","expected_version":"2"}`, operator.InvalidRequest, []string{"body.expected_version"}},
		"version zero":        {`{"outcome":"failed","reason":"r","expected_version":0}`, operator.InvalidRequest, []string{"body.expected_version"}},
		"result of a failed":  {`{"outcome":"failed","reason":"r","expected_version":2,"result":{"secret":"` + canary + `"}}`, operator.InvalidRequest, []string{"body.result"}},
		"name given twice":    {`{"outcome":"failed","outcome":"completed","reason":"` + canary + `","expected_version":2}`, operator.InvalidBody, []string{"body"}},
		"a secret twice":      {`{"` + canary + `":1,"` + canary + `":2}`, operator.InvalidBody, []string{"body"}},
		"twice inside":        {`{"outcome":"completed","reason":"r","expected_version":2,"result":{"a":1,"a":"` + canary + `"}}`, operator.InvalidBody, []string{"body"}},
		"two values":          {good + good, operator.InvalidBody, []string{"body"}},
		"not JSON":            {canary, operator.InvalidBody, []string{"body"}},
		"array":               {`[]`, operator.InvalidRequest, []string{"body"}},
		"null":                {`null`, operator.InvalidRequest, []string{"body"}},
		"nothing":             {``, operator.InvalidBody, nil},
		"too large":           {`{"outcome":"completed","reason":"r","expected_version":2,"result":"` + strings.Repeat("x", operatorhttp.MaxBodyBytes) + `"}`, operator.BodyTooLarge, nil},
		"invalid UTF-8":       {"{\"outcome\":\"failed\",\"reason\":\"\xff\",\"expected_version\":2}", operator.InvalidBody, []string{"body"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.unknown(t, "c1")
			p := problemOf(t, d.send(t, http.MethodPost, callPath+"/resolve", tt.body))
			if p.Code != tt.code {
				t.Fatalf("code %s, want %s: %+v", p.Code, tt.code, p)
			}
			for _, where := range tt.where {
				if !slices.ContainsFunc(p.Errors, func(f operator.FieldError) bool { return f.Location == where }) {
					t.Errorf("%s is not named: %+v", where, p.Errors)
				}
			}
			r, err := d.store.Load(t.Context(), ledger.Key{Tenant: "acme", RunID: "run-1", CallID: "c1"})
			if err != nil || r.Version != 2 {
				t.Errorf("version %d, %v", r.Version, err)
			}
			if strings.Contains(d.log.String(), canary) {
				t.Errorf("the log holds a canary: %s", &d.log)
			}
		})
	}
}

func TestABodyOfExactlyTheLimitIsRead(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.unknown(t, "c1")
	head, tail := `{"outcome":"completed","reason":"r","expected_version":2,"result":"`, `"}`
	body := head + strings.Repeat("x", operatorhttp.MaxBodyBytes-len(head)-len(tail)) + tail
	if w := d.send(t, http.MethodPost, callPath+"/resolve", body); w.Code != http.StatusOK {
		t.Errorf("%d bytes: %d %s", len(body), w.Code, w.Body)
	}
}

func TestNumbersInAResultArriveUnchanged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.unknown(t, "c1")
	w := d.send(t, http.MethodPost, callPath+"/resolve", `{"outcome":"completed","reason":"r","expected_version":2,"result":{"id":9007199254740993,"n":1.10,"t":"<&>"}}`)
	if w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
	w = d.send(t, http.MethodGet, callPath, "")
	if !strings.Contains(w.Body.String(), `"result":{"id":9007199254740993,"n":1.10,"t":"<&>"}`) {
		t.Errorf("answer: %s", w.Body)
	}
}

func TestQueriesAreReadStrictly(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for query, want := range map[string]int{
		"": 200, "?limit=1": 200, "?status=started&tool=issue_credit": 200,
		"?limit=0": 422, "?limit=201": 422, "?limit=x": 422, "?status=follows": 422, "?colour=red": 422, "?cursor=garbled": 422,
	} {
		if w := d.send(t, http.MethodGet, "/v1/tool-executions"+query, ""); w.Code != want {
			t.Errorf("%s: %d %s, want %d", query, w.Code, w.Body, want)
		}
	}
	if w := d.send(t, http.MethodGet, "/v1/tool-executions", ""); strings.TrimSpace(w.Body.String()) != `{"items":[]}` {
		t.Errorf("empty list: %s", w.Body)
	}
}

func TestScopesAreCheckedBeforeAnythingIsRead(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.unknown(t, "c1")
	verbs := []string{"resolve", "approve", "deny", "withdraw", "acknowledge", "reconcile"}
	for _, tt := range []struct {
		id           operator.Identity
		read, decide operator.Code
	}{
		{operator.Identity{}, operator.MissingIdentity, operator.MissingIdentity},
		{operator.Identity{Tenant: "acme", Scopes: []string{"calls:read", "calls:decide"}}, operator.MissingIdentity, operator.MissingIdentity},
		{operator.Identity{Tenant: "acme", Actor: "ada", Scopes: []string{"calls:decide"}}, operator.MissingScope, ""},
		{operator.Identity{Tenant: "acme", Actor: "ada", Scopes: []string{"calls:read"}}, "", operator.MissingScope},
	} {
		d.id = tt.id
		for _, path := range []string{"/v1/tool-executions", callPath} {
			w := d.send(t, http.MethodGet, path, "")
			if tt.read != "" && problemOf(t, w).Code != tt.read || tt.read == "" && w.Code != http.StatusOK {
				t.Errorf("%+v: GET %s: %d %s", tt.id, path, w.Code, w.Body)
			}
		}
		for _, verb := range verbs {
			w := d.send(t, http.MethodPost, callPath+"/"+verb, "not JSON")
			if tt.decide != "" && problemOf(t, w).Code != tt.decide || tt.decide == "" && w.Code != http.StatusBadRequest {
				t.Errorf("%+v: POST %s: %d %s", tt.id, verb, w.Code, w.Body)
			}
		}
	}
}

func TestAnEmptyBodyAndABlankReasonAreExplained(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.unknown(t, "c1")
	const say = "is required and must not be blank: say why"
	for body, want := range map[string]operator.FieldError{
		``: {Location: "body", Message: "is empty; send a JSON object"},
		`{"outcome":"failed","reason":"","expected_version":2}`:     {Location: "body.reason", Message: say},
		`{"outcome":"failed","reason":" \t ","expected_version":2}`: {Location: "body.reason", Message: say},
	} {
		p := problemOf(t, d.send(t, http.MethodPost, callPath+"/resolve", body))
		if !slices.Equal(p.Errors, []operator.FieldError{want}) || !strings.Contains(p.Detail, "Nothing was changed") {
			t.Errorf("%q: %+v", body, p)
		}
	}
}

// Proves: R107
func TestTheLoserIsToldTheWinnerAndARepeatTheSame(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.unknown(t, "c1")
	first := d.send(t, http.MethodPost, callPath+"/resolve", good, "Idempotency-Key", "k1")
	again := d.send(t, http.MethodPost, callPath+"/resolve", good, "Idempotency-Key", "k1")
	if first.Code != http.StatusOK || first.Body.String() != again.Body.String() || again.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("first %d %s\nagain %d %s", first.Code, first.Body, again.Code, again.Body)
	}
	reused := d.send(t, http.MethodPost, callPath+"/resolve", strings.Replace(good, "no such", "another", 1), "Idempotency-Key", "k1")
	if p := problemOf(t, reused); p.Code != operator.KeyReused || p.Status != 422 {
		t.Errorf("another body: %+v", p)
	}
	d.id.Actor = "bob"
	if p := problemOf(t, d.send(t, http.MethodPost, callPath+"/resolve", good)); p.Code != operator.AlreadyDecided || p.DecidedBy.Actor != "ada" || p.Record.Status != "failed" {
		t.Errorf("the loser: %+v", p)
	}
}

func TestReconcileNeedsNoBodyAndItsFailureTellsNothingInternal(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.unknown(t, "c1")
	for _, body := range []string{"", "{}", `{"reason":"r","expected_version":2}`} {
		if p := problemOf(t, d.send(t, http.MethodPost, callPath+"/reconcile", body)); p.Code != operator.LookUpFailed {
			t.Errorf("%q: %+v", body, p)
		}
	}
	if p := problemOf(t, d.send(t, http.MethodPost, callPath+"/reconcile", `{"expected_version":1}`)); p.Code != operator.StaleVersion || p.Record.Version != 2 {
		t.Errorf("stale: %+v", p)
	}
}

func TestAnUnreachableLedgerIsAProblemWithoutItsCause(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.store.Arm(memledger.Fault{Op: memledger.Load})
	w := d.send(t, http.MethodGet, callPath, "")
	p := problemOf(t, w)
	if p.Code != operator.Unavailable || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "memledger") {
		t.Errorf("%+v, headers %v", p, w.Header())
	}
	if !strings.Contains(d.log.String(), "memledger") || !strings.Contains(d.log.String(), "show-tool-execution") {
		t.Errorf("the log does not say why: %s", &d.log)
	}
}
