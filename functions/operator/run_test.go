package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// run stores a run whose second turn waits for approval of its call.
func (p *plane) run(t *testing.T) {
	t.Helper()
	run := runs.Run{
		Tenant: "acme", ID: "run-7Q", Agent: "billing-assistant", Subject: canary, StartedAt: time.Now(), Status: runs.Running, Generation: 1,
		Driver: "run-7Q-g1", Machine: canary, Turn: 2, Version: 1, LastWrite: canary, Input: json.RawMessage(`"` + canary + `"`),
	}
	if _, err := p.runs.Save(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	for n, id := range []string{"toolu_00", "toolu_01"} {
		turn := runs.Turn{Number: n + 1, Says: "a credit", At: time.Now(), Calls: []runs.Call{{ID: id, Tool: "issue_credit", Arguments: `{"to":"` + canary + `"}`}}}
		if _, err := p.runs.PutTurn(t.Context(), run.Key(), turn); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.runs.Hear(t.Context(), run.Key(), 1, []runs.Heard{{CallID: "toolu_00", Status: "completed", Says: canary}}); err != nil {
		t.Fatal(err)
	}
	ask, err := ledger.Record{}.AskApproval(ledger.Stamp{At: time.Now(), WriteID: canary + "1"},
		ledger.Call{Key: run.Key().Call("toolu_01"), Tool: "issue_credit", Class: "destructive", Turn: 2, Permission: canary}, time.Hour, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.store.Apply(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
}

// Proves: R103
func TestAnEventShowsARunToItsTenantOnly(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.run(t)
	e := event(t, "run.json")
	show := func() operator.Run {
		t.Helper()
		out := p.send(t, e)
		var got operator.Run
		if err := json.Unmarshal([]byte(out.Body), &got); err != nil || out.StatusCode != 200 || out.Headers["content-type"] != "application/json" {
			t.Fatalf("%d %v %s: %v", out.StatusCode, out.Headers, out.Body, err)
		}
		if got.ID != "run-7Q" || got.Status != operator.RunAwaitingApproval || got.Driver != "run-7Q-g1" || len(got.WaitingOn) != 1 || got.WaitingOn[0].Key != "acme/run-7Q:toolu_01" {
			t.Errorf("%s", out.Body)
		}
		return got
	}
	newest := show()
	if len(newest.Turns) != 1 || newest.Turns[0].Number != 2 || newest.NextCursor == "" {
		t.Fatalf("%+v", newest)
	}
	e.RawQueryString = "limit=1&cursor=" + newest.NextCursor
	if oldest := show(); len(oldest.Turns) != 1 || oldest.Turns[0].Number != 1 || oldest.Turns[0].Calls[0].Heard != "completed" || oldest.NextCursor != "" {
		t.Errorf("%+v", oldest)
	}

	e = event(t, "run.json")
	claims := e.RequestContext.Authorizer.JWT.Claims
	claims["custom:tenant"] = "evil"
	if out := p.send(t, e); out.StatusCode != 404 || read(t, out).Code != string(operator.RunNotFound) {
		t.Errorf("another tenant: %d %s", out.StatusCode, out.Body)
	}
	claims["custom:tenant"], claims["scope"] = "acme", "calls:decide"
	if out := p.send(t, e); out.StatusCode != 403 || read(t, out).Code != string(operator.MissingScope) {
		t.Errorf("without the scope: %d %s", out.StatusCode, out.Body)
	}
}
