package faults_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/localstack/faults"
)

func control(t *testing.T, plan *faults.Plan, method, path, body string) (int, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	plan.Handler().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	var answer map[string]any
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, w.Body)
		}
	}
	return w.Code, answer
}

func TestRulesAreArmedListedAndTakenOutOverHTTP(t *testing.T) {
	t.Parallel()
	plan := faults.NewPlan(faults.Options{})
	status, answer := control(t, plan, "POST", "/_local/faults",
		`{"service":"dynamodb","operation":"PutItem","nth":2,"effect":"drop_answer"}`)
	if status != http.StatusCreated || answer["id"] != "fault-1" {
		t.Fatalf("%d %v", status, answer)
	}
	if status, answer = control(t, plan, "POST", "/_local/faults", `{"id":"mine","effect":"error","code":"Busy"}`); status != http.StatusCreated || answer["id"] != "mine" {
		t.Fatalf("%d %v", status, answer)
	}
	if status, _ = control(t, plan, "POST", "/_local/faults", `{"id":"mine","effect":"drop_request"}`); status != http.StatusConflict {
		t.Errorf("an id armed twice: %d, want 409", status)
	}
	_, answer = control(t, plan, "GET", "/_local/faults", "")
	want := map[string]any{"faults": []any{
		map[string]any{"id": "fault-1", "service": "dynamodb", "operation": "PutItem", "nth": 2.0, "times": 1.0, "effect": "drop_answer", "matches": 0.0, "hits": 0.0},
		map[string]any{"id": "mine", "nth": 1.0, "times": 1.0, "effect": "error", "status": 400.0, "code": "Busy", "matches": 0.0, "hits": 0.0},
	}}
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if status, _ = control(t, plan, "DELETE", "/_local/faults/other", ""); status != http.StatusNotFound {
		t.Errorf("an unknown id taken out: %d, want 404", status)
	}
	if status, _ = control(t, plan, "DELETE", "/_local/faults/mine", ""); status != http.StatusOK || len(plan.Rules()) != 1 {
		t.Errorf("%d, %d rules left", status, len(plan.Rules()))
	}
	if status, answer = control(t, plan, "DELETE", "/_local/faults", ""); status != http.StatusOK || answer["cleared"] != 1.0 || len(plan.Rules()) != 0 {
		t.Errorf("%d %v, %d rules left", status, answer, len(plan.Rules()))
	}
}

func TestEveryWrongFieldOfARuleIsNamed(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]string{
		``:                                     {"(body)"},
		`null`:                                 {"(body)"},
		`[]`:                                   {"(body)"},
		`{"effect":"drop_answer"} {}`:          {"(body)"},
		`{"effect":"drop_answer","effect":""}`: {"(body)"},
		`{}`:                                   {"effect"},
		`{"Effect":"drop_answer"}`:             {"Effect", "effect"},
		`{"effect":"explode","when":1,"nth":0,"times":-1}`:               {"nth", "when", "times", "effect"},
		`{"effect":"drop_answer","nth":"2","times":1.5,"caller":null}`:   {"caller", "nth", "times"},
		`{"effect":"drop_answer","status":500,"code":"X","message":"m"}`: {"status", "code", "message"},
		`{"effect":"error"}`:                                                   {"code"},
		`{"effect":"error","code":"X","status":200}`:                           {"status"},
		`{"effect":"drop_answer","service":"s3"}`:                              {"service"},
		`{"effect":"drop_answer","service":"dynamodb","function":"f"}`:         {"function"},
		`{"effect":"drop_answer","service":"dynamodb","operation":"UpdateIt"}`: {"operation"},
		`{"effect":"drop_answer","service":"lambda","operation":"PutItem"}`:    {"operation"},
		`{"effect":"drop_answer","function":"f","operation":"PutItem"}`:        {"operation"},
		`{"effect":"drop_answer","operation":"putitem"}`:                       {"operation"},
		`{"effect":"drop_answer","service":"s3","operation":"PutObject"}`:      {"service"},
		`{"effect":"drop_answer","milliseconds":5,"of":"answer"}`:              {"milliseconds", "of"},
		`{"effect":"delay"}`:                                                                   {"milliseconds"},
		`{"effect":"delay","milliseconds":0}`:                                                  {"milliseconds"},
		`{"effect":"delay","milliseconds":"5"}`:                                                {"milliseconds"},
		`{"effect":"delay","milliseconds":-1,"of":"both"}`:                                     {"milliseconds", "of"},
		`{"effect":"delay","milliseconds":3600001,"code":"X"}`:                                 {"code", "milliseconds"},
		`{"effect":"duplicate","milliseconds":5,"status":500}`:                                 {"status", "milliseconds"},
		`{"effect":"throttle","status":429,"code":"X","message":"m","of":"request"}`:           {"status", "code", "message", "of"},
		`{"effect":"outage","times":2,"of":"request","milliseconds":-5}`:                       {"times", "of", "milliseconds"},
		`{"effect":"drop_answer","id":"a/b"}`:                                                  {"id"},
		`{"id":7,"effect":"error","code":true,"service":"dynamodb","function":"f","status":1}`: {"code", "id", "function", "status"},
	} {
		plan := faults.NewPlan(faults.Options{})
		status, answer := control(t, plan, "POST", "/_local/faults", body)
		var got []string
		list, _ := answer["fields"].([]any)
		for _, f := range list {
			got = append(got, f.(map[string]any)["field"].(string))
		}
		if diff := cmp.Diff(want, got); status != http.StatusBadRequest || diff != "" {
			t.Errorf("%s: %d (-want +got):\n%s", body, status, diff)
		}
		if len(plan.Rules()) != 0 {
			t.Errorf("%s: armed", body)
		}
	}
}

func TestRequestsAreCountedPerServiceOperationAndCallerAndReset(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, key := range []string{"AKIAplanner", "AKIAtools", "AKIAplanner", ""} {
		if _, _, err := d.send(t, putItem, key, "{}"); err != nil {
			t.Fatal(err)
		}
	}
	_, answer := control(t, d.plan, "GET", "/_local/requests", "")
	want := map[string]any{"requests": []any{
		map[string]any{"service": "dynamodb", "operation": "PutItem", "requests": 1.0},
		map[string]any{"service": "dynamodb", "operation": "PutItem", "caller": "planner", "requests": 2.0},
		map[string]any{"service": "dynamodb", "operation": "PutItem", "caller": "tools", "requests": 1.0},
	}}
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if n := d.plan.Count(faults.Request{Service: faults.DynamoDB}); n != 4 {
		t.Errorf("%d requests in all, want 4", n)
	}
	if status, _ := control(t, d.plan, "DELETE", "/_local/requests", ""); status != http.StatusNoContent {
		t.Errorf("reset: %d", status)
	}
	if got := d.plan.Requests(); len(got) != 0 {
		t.Errorf("after the reset: %v", got)
	}
}

func TestPagesOfOtherOriginsCannotArmFaults(t *testing.T) {
	t.Parallel()
	plan := faults.NewPlan(faults.Options{})
	r := httptest.NewRequest("POST", "/_local/faults", strings.NewReader(`{"effect":"drop_answer"}`))
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	plan.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || len(plan.Rules()) != 0 {
		t.Errorf("%d, %d rules", w.Code, len(plan.Rules()))
	}
}
