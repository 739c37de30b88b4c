package operatorhttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// saveRun stores run-1 with n turns; the last is open and asks for the call c.
func (d *desk) saveRun(t *testing.T, n int) runs.Run {
	t.Helper()
	run := runs.Run{
		Tenant: "acme", ID: "run-1", Agent: "billing-assistant", Subject: canary, StartedAt: time.Now(), Status: runs.Running, Policy: ledger.Tell,
		Generation: 1, Driver: "run-1-g1", Previous: canary, Machine: canary, Turn: n, Version: 1, LastWrite: canary,
		Input: json.RawMessage(`{"run_id":"run-1","principal":{"subject":"` + canary + `","permissions":["` + canary + `"]}}`),
	}
	if _, err := d.runs.Save(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		turn := runs.Turn{Number: i + 1, At: time.Now(), Says: "<next>"}
		id := fmt.Sprintf("c%d", i+1)
		if i == n-1 {
			id = "c"
		}
		turn.Calls = []runs.Call{{ID: id, ProviderID: canary, Tool: "issue_credit", Arguments: `{"account_id":"` + canary + `"}`}}
		if _, err := d.runs.PutTurn(t.Context(), run.Key(), turn); err != nil {
			t.Fatal(err)
		}
		if i == n-1 {
			continue
		}
		if _, err := d.runs.Hear(t.Context(), run.Key(), i+1, []runs.Heard{{CallID: id, Status: "completed", Says: canary}}); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

// run stores run-1 with n turns; the last is open and waits for approval of its
// call c.
func (d *desk) run(t *testing.T, n int) {
	t.Helper()
	run := d.saveRun(t, n)
	move, err := ledger.Record{}.AskApproval(ledger.Stamp{At: time.Now(), WriteID: canary},
		ledger.Call{Key: run.Key().Call("c"), Tool: "issue_credit", Class: "external", Turn: n, Permission: canary, Summary: canary}, time.Hour, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.store.Apply(t.Context(), move); err != nil {
		t.Fatal(err)
	}
}

func TestARunIsReadPageByPage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.id.Scopes = []string{"calls:read"}
	d.run(t, 25)
	var turns []int
	path, pages := "/v1/runs/run-1", 0
	for query := ""; ; pages++ {
		w := d.send(t, http.MethodGet, path+query, "")
		var got operator.Run
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		if got.Status != operator.RunAwaitingApproval || got.Policy != "tell" || got.OpenTurn != 25 || len(got.WaitingOn) != 1 || got.WaitingOn[0].Key != "acme/run-1:c" || got.WaitingOn[0].Why != operator.WhyApproval {
			t.Errorf("%s", w.Body)
		}
		var page []int
		for _, turn := range got.Turns {
			page = append(page, turn.Number)
			if turn.Says != "<next>" || len(turn.Calls) != 1 {
				t.Errorf("%+v", turn)
			}
		}
		turns = append(page, turns...)
		if got.NextCursor == "" {
			break
		}
		query = "?limit=3&cursor=" + url.QueryEscape(got.NextCursor)
	}
	if pages != 2 || len(turns) != 25 || !slices.IsSorted(turns) || turns[0] != 1 {
		t.Errorf("%d more pages, turns %v", pages, turns)
	}
}

func TestWhatIsNoRunOfTheTenantIsA404AndAWrongQueryA422(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.run(t, 2)
	for path, want := range map[string]operator.Code{
		"/v1/runs/run-2":                           operator.RunNotFound,
		"/v1/runs/run-1:c":                         operator.RunNotFound,
		"/v1/runs/" + strings.Repeat("r", 300):     operator.RunNotFound,
		"/v1/runs/%20":                             operator.RunNotFound,
		"/v1/runs/acme%2Frun-1":                    operator.RunNotFound,
		"/v1/runs/acme/run-1":                      operator.NoRoute,
		"/v1/runs/":                                operator.NoRoute,
		"/v1/runs/run-1?limit=0":                   operator.InvalidRequest,
		"/v1/runs/run-1?limit=51":                  operator.InvalidRequest,
		"/v1/runs/run-1?limit=x":                   operator.InvalidRequest,
		"/v1/runs/run-1?turn=1":                    operator.InvalidRequest,
		"/v1/runs/run-1?cursor=" + canary:          operator.InvalidCursor,
		"/v1/runs/run-1?cursor=eyJ2IjoxLCJvZiI6Ij": operator.InvalidCursor,
	} {
		if p := problemOf(t, d.send(t, http.MethodGet, path, "")); p.Code != want {
			t.Errorf("GET %s: %s, want %s", path, p.Code, want)
		}
	}
	if p := problemOf(t, d.send(t, http.MethodPost, "/v1/runs/run-1", "{}")); p.Code != operator.MethodNotAllowed {
		t.Errorf("POST: %s", p.Code)
	}
	for _, tt := range []struct {
		id   operator.Identity
		want operator.Code
	}{
		{operator.Identity{Tenant: "evil", Actor: "eve", Scopes: []string{"calls:read"}}, operator.RunNotFound},
		{operator.Identity{Tenant: "acme", Actor: "ada", Scopes: []string{"calls:decide"}}, operator.MissingScope},
		{operator.Identity{}, operator.MissingIdentity},
	} {
		d.id = tt.id
		if p := problemOf(t, d.send(t, http.MethodGet, "/v1/runs/run-1", "")); p.Code != tt.want {
			t.Errorf("%+v: %s, want %s", tt.id, p.Code, tt.want)
		}
	}
}
