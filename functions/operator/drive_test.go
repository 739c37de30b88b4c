package main

import (
	"encoding/json"
	"testing"

	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/operator"
)

func TestEventsStartListAndResumeARunOfTheirTenant(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	e := event(t, "start-run.json")
	drive := func(want int) operator.RunLine {
		t.Helper()
		out := p.send(t, e)
		var got operator.Driven
		if err := json.Unmarshal([]byte(out.Body), &got); err != nil || out.StatusCode != want || out.Headers["location"] != "/v1/runs/run-9" {
			t.Fatalf("%d %v %s: %v", out.StatusCode, out.Headers, out.Body, err)
		}
		return got.Run
	}
	first := drive(201)
	drive(200)
	p.machine.End(first.Driver, executions.Failed)
	e.RawPath, e.Body, e.RawQueryString, e.RequestContext.HTTP.Method = "/v1/runs", "", "driver=missing", "GET"
	out := p.send(t, e)
	var list operator.RunList
	if err := json.Unmarshal([]byte(out.Body), &list); err != nil || out.StatusCode != 200 || len(list.Items) != 1 || list.Items[0].DriverState != "failed" {
		t.Fatalf("%d %s: %v", out.StatusCode, out.Body, err)
	}
	e.RawPath, e.RawQueryString, e.RequestContext.HTTP.Method = "/v1/runs/run-9/resume", "", "POST"
	claims := e.RequestContext.Authorizer.JWT.Claims
	claims["custom:tenant"] = "evil"
	if out := p.send(t, e); out.StatusCode != 404 || read(t, out).Code != string(operator.RunNotFound) {
		t.Errorf("another tenant: %d %s", out.StatusCode, out.Body)
	}
	claims["custom:tenant"], claims["scope"] = "acme", "calls:read calls:decide"
	if out := p.send(t, e); out.StatusCode != 403 {
		t.Errorf("without the scope: %d %s", out.StatusCode, out.Body)
	}
	claims["scope"] = "runs:drive"
	if second := drive(200); second.Generation != 2 || second.DriverState != "running" {
		t.Errorf("%+v", second)
	}
}

func TestAnEventAsksForAnUndo(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	key := p.unknown(t)
	e := event(t, "event.json")
	e.RawPath = "/v1/tool-executions/acme/run-7Q:toolu_01/compensate"
	e.Body = `{"reason":"twice","expected_version":2}`
	if out := p.send(t, e); out.StatusCode != 422 {
		t.Errorf("an unknown call: %d %s", out.StatusCode, out.Body)
	}
	e.Body = `{"reason":"twice","expected_version":2,"knows_unknown":true}`
	if out := p.send(t, e); out.StatusCode != 409 || read(t, out).Code != string(operator.ToolNotConfigured) {
		t.Errorf("its tool is not there: %d %s", out.StatusCode, out.Body)
	}
	if r, err := p.store.Load(t.Context(), key); err != nil || r.Version != 2 {
		t.Errorf("%s at %d, %v", r.State(), r.Version, err)
	}
}
