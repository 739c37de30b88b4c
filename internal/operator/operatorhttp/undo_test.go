package operatorhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

type creditIn struct {
	AccountID string `json:"account_id"`
}

type credit struct {
	CreditID string `json:"credit_id"`
}

// credited runs run-1's call c through a real guard and puts the guard behind the
// desk; voids counts the undos.
func (d *desk) credited(t *testing.T) (voids *int) {
	t.Helper()
	voids = new(int)
	guard, err := once.New(d.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := guard.Handler(once.Tool[creditIn, credit]{
		Name: "issue_credit", Class: once.External,
		Run:        func(context.Context, creditIn) (credit, error) { return credit{"cr_9"}, nil },
		Compensate: func(context.Context, ledger.Record, creditIn) error { *voids++; return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	d.answer = func(payload []byte) ([]byte, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return handler.Invoke(ctx, payload)
	}
	d.saveRun(t, 1)
	if _, err := d.answer([]byte(`{"onceward":1,"mode":"invoke","tenant":"acme","run":{"id":"run-1"},"call":{"id":"c","tool":"issue_credit","turn":1,"arguments":{"account_id":"` + canary + `"}}}`)); err != nil {
		t.Fatal(err)
	}
	return voids
}

const undoIt = `{"reason":"the wrong customer","expected_version":2}`

// Proves: R112
func TestAnUndoIsAskedForOverHTTP(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	voids := d.credited(t)
	const path = "/v1/tool-executions/run-1:c/compensate"
	for body, field := range map[string]string{
		`{"expected_version":2}`:                                              "body.reason",
		`{"reason":" ","expected_version":2}`:                                 "body.reason",
		`{"reason":"r"}`:                                                      "body.expected_version",
		`{"reason":"r","expected_version":2,"knows_unknown":"yes"}`:           "body.knows_unknown",
		`{"reason":"r","expected_version":2,"outcome":"completed"}`:           "body.outcome",
		`{"reason":"` + strings.Repeat("x", 1001) + `","expected_version":2}`: "body.reason",
	} {
		p := problemOf(t, d.send(t, http.MethodPost, path, body))
		if p.Code != operator.InvalidRequest || !slices.ContainsFunc(p.Errors, func(e operator.FieldError) bool { return e.Location == field }) {
			t.Errorf("%.60s: %s %+v", body, p.Code, p.Errors)
		}
	}
	for n := range 2 {
		w := d.send(t, http.MethodPost, path, undoIt, "Idempotency-Key", "ticket-1")
		var got operator.Decided
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		if got.Undo == nil || got.Undo.Key != "acme/run-1:c~undo1" || got.Undo.Open || got.Record.Status != "compensated" || (w.Header().Get("Idempotency-Replayed") == "true") != (n == 1) {
			t.Errorf("request %d: %s", n, w.Body)
		}
	}
	d.id.Actor = "bob"
	if p := problemOf(t, d.send(t, http.MethodPost, path, undoIt)); p.Code != operator.AlreadyDecided || p.DecidedBy.Actor != "ada" || p.Record.Status != "compensated" {
		t.Errorf("%+v", p)
	}
	for _, key := range []string{"run-1:c~undo1", "acme%2Frun-1%3Ac~undo1", "acme/run-1:c%7Eundo1"} {
		if w := d.send(t, http.MethodGet, "/v1/tool-executions/"+key, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"undoes":"acme/run-1:c"`) {
			t.Errorf("%s: %d %s", key, w.Code, w.Body)
		}
	}
	if *voids != 1 {
		t.Errorf("%d voids", *voids)
	}
	d.id.Scopes = []string{"calls:read", "runs:drive"}
	if p := problemOf(t, d.send(t, http.MethodPost, path, undoIt)); p.Code != operator.MissingScope {
		t.Errorf("%s", p.Code)
	}
}

func TestTheLongestUndosKeyIsAKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.id.Tenant = strings.Repeat("t", ledger.MaxTenant)
	key := ledger.Key{Tenant: d.id.Tenant, RunID: strings.Repeat("r", ledger.MaxRunID), CallID: strings.Repeat("c", ledger.MaxCallID)}.Undo(999_999_999)
	move, err := ledger.Record{}.Start(ledger.Stamp{At: time.Now(), WriteID: "w"}, ledger.Call{Key: key, Tool: "issue_credit"}, ledger.Executor{Token: "t", Attempt: 1, Deadline: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.store.Apply(t.Context(), move); err != nil {
		t.Fatal(err)
	}
	if w := d.send(t, http.MethodGet, "/v1/tool-executions/"+key.String(), ""); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestWhatIsKnownBeforeIsAProblemOfItsOwn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.credited(t)
	for manifest, want := range map[string]operator.Code{
		"": operator.ToolUnreachable,
		`{"onceward":1,"tools":[{"name":"issue_credit","undo":false}]}`: operator.NoCompensation,
		`{"onceward":1,"tools":[]}`:                                     operator.ToolNotConfigured,
	} {
		d.answer = func([]byte) ([]byte, error) {
			if manifest == "" {
				return nil, errors.New(canary)
			}
			return []byte(manifest), nil
		}
		if p := problemOf(t, d.send(t, http.MethodPost, "/v1/tool-executions/run-1:c/compensate", undoIt)); p.Code != want {
			t.Errorf("%s, want %s", p.Code, want)
		}
	}
}
