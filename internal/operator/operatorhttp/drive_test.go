package operatorhttp_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/operator"
)

func TestARunIsStartedListedAndResumedOverHTTP(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.id.Scopes = []string{"calls:read", "runs:drive"}
	drive := func(method, path, body string, want int) operator.Driven {
		t.Helper()
		w := d.send(t, method, path, body)
		var got operator.Driven
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != want {
			t.Fatalf("%s %s: %d %s: %v", method, path, w.Code, w.Body, err)
		}
		if where := w.Header().Get("Location"); where != "/v1/runs/run-9" {
			t.Errorf("Location %q", where)
		}
		return got
	}
	input := `{"run_id":"run-9","principal":{"subject":"` + canary + `","permissions":["` + canary + `"]},"tool_policy":{"on_indeterminate":"tell"},
		"limits":{"active_seconds":60},"script":{"turns":[{"calls":[{"id":"c1","tool":"issue_credit","arguments":{"account_id":"` + canary + `","n":12345678901234567890}}]}],"answer":"Done."}}`
	first := drive(http.MethodPost, "/v1/runs", input, http.StatusCreated)
	if again := drive(http.MethodPost, "/v1/runs", input, http.StatusOK); !first.Started || again.Started || again.Run.Driver != first.Run.Driver {
		t.Errorf("%+v, then %+v", first, again)
	}
	if given := string(d.machine.Executions()[0].Input); !strings.Contains(given, `"tenant":"acme"`) || !strings.Contains(given, "12345678901234567890") {
		t.Errorf("started with %s", given)
	}
	const resume = "/v1/runs/run-9/resume"
	if p := problemOf(t, d.send(t, http.MethodPost, resume, "")); p.Code != operator.RunDriven {
		t.Errorf("%s", p.Code)
	}
	d.machine.End(first.Run.Driver, executions.TimedOut)
	w := d.send(t, http.MethodGet, "/v1/runs?driver=missing&limit=5", "")
	var list operator.RunList
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Items) != 1 || list.Items[0].DriverState != "timed_out" || list.Items[0].WhatToDo == "" {
		t.Errorf("%d %s: %v", w.Code, w.Body, err)
	}
	if got := drive(http.MethodPost, resume, "", http.StatusOK); got.Run.Generation != 2 || !got.Started || got.Run.DriverState != "running" {
		t.Errorf("%+v", got)
	}
	if w := d.send(t, http.MethodGet, "/v1/runs?driver=missing", ""); !strings.Contains(w.Body.String(), `"items":[]`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestWhatIsNoRunIsRefusedBeforeAnythingIsStored(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.id.Scopes = []string{"calls:read", "runs:drive"}
	for body, want := range map[string]operator.Code{
		``:                                    operator.InvalidBody,
		`{`:                                   operator.InvalidBody,
		`{"run_id":"a","run_id":"b"}`:         operator.InvalidBody,
		`[]`:                                  operator.InvalidRequest,
		`{}`:                                  operator.InvalidRequest,
		`{"run_id":"a b"}`:                    operator.InvalidRequest,
		`{"run_id":"r","tenant":"evil"}`:      operator.InvalidRequest,
		`{"run_id":"r","nonsense":1}`:         operator.InvalidRequest,
		`{"run_id":"r","script":null}`:        operator.InvalidRequest,
		`{"run_id":"r","script":{"turns":1}}`: operator.InvalidRequest,
		`{"run_id":"r","tool_policy":{"on_indeterminate":"hope"}}`: operator.InvalidRequest,
		`{"run_id":"` + strings.Repeat("r", 257<<10) + `"}`:        operator.BodyTooLarge,
	} {
		if p := problemOf(t, d.send(t, http.MethodPost, "/v1/runs", body)); p.Code != want {
			t.Errorf("%.60s: %s, want %s: %+v", body, p.Code, want, p.Errors)
		}
	}
	for body, want := range map[string]operator.FieldError{
		`{"run_id":"r"}`:                      {Location: "body.script", Message: "is required"},
		`{"script":{"turns":[]}}`:             {Location: "body.run_id", Message: "is required"},
		`{"run_id":"r","script":{"turns":1}}`: {Location: "body.script.turns", Message: "want a list"},
	} {
		if p := problemOf(t, d.send(t, http.MethodPost, "/v1/runs", body)); !slices.Equal(p.Errors, []operator.FieldError{want}) {
			t.Errorf("%s: %+v", body, p.Errors)
		}
	}
	for path, want := range map[string]operator.Code{
		"/v1/runs?driver=none": operator.InvalidRequest, "/v1/runs?limit=0": operator.InvalidRequest, "/v1/runs?limit=51": operator.InvalidRequest, "/v1/runs?cursor=x": operator.InvalidCursor,
	} {
		if p := problemOf(t, d.send(t, http.MethodGet, path, "")); p.Code != want {
			t.Errorf("%s: %s", path, p.Code)
		}
	}
	if p := problemOf(t, d.send(t, http.MethodPost, "/v1/runs/run-8/resume", "")); p.Code != operator.RunNotFound {
		t.Errorf("%s", p.Code)
	}
	for _, scopes := range [][]string{{"calls:read"}, {"calls:decide"}, nil} {
		d.id.Scopes = scopes
		for _, path := range []string{"/v1/runs", "/v1/runs/run-9/resume"} {
			if p := problemOf(t, d.send(t, http.MethodPost, path, `{"run_id":"run-9"}`)); p.Code != operator.MissingScope {
				t.Errorf("%v %s: %s", scopes, path, p.Code)
			}
		}
	}
	if n := len(d.machine.Executions()); n != 0 {
		t.Errorf("%d executions", n)
	}
}
