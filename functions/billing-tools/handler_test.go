package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/localstack/billing"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
	"github.com/onceward/onceward/middleware/once/oncetest"
)

func answer(t *testing.T, invoke func(context.Context, []byte) ([]byte, error), file string, out any) []byte {
	t.Helper()
	event, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	raw, err := invoke(ctx, event)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return raw
}

// Proves: R22, R25, R82
func TestAnEventPaysOnceHoweverOftenItComes(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	b := on(t, r.url)
	handler, err := oncetest.NewGuard(t).Handler(b.findOrder(), b.issueCredit())
	if err != nil {
		t.Fatal(err)
	}
	type heard struct {
		Status, Effect, Key string
		Replayed            bool
		ExternalID          string `json:"external_id"`
		Result              credit
	}
	var id string
	for i := range 3 {
		var got heard
		raw := answer(t, handler.Invoke, "event.json", &got)
		if i == 0 {
			id = got.ExternalID
		}
		want := heard{Status: "completed", Effect: "happened", Key: "acme/run-7Q:toolu_01", Replayed: i > 0, ExternalID: id, Result: credit{CreditID: id, AccountID: "A1", AmountCents: 2500}}
		if diff := cmp.Diff(want, got); diff != "" || id == "" {
			t.Errorf("event %d (-want +got):\n%s\n%s", i, diff, raw)
		}
	}
	if n := r.effects(t, "A1"); n != 1 {
		t.Errorf("effects = %d", n)
	}
}

// Proves: R111, R112, R116
func TestAnEventVoidsOnceAndOnlyIfAPersonHasAskedForIt(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	store, guard := ledgerOf(t)
	handler, err := guard.Handler(on(t, r.url).issueCredit())
	if err != nil {
		t.Fatal(err)
	}
	type heard struct {
		Status, Effect, Key string
		Replayed            bool
		Error               struct{ Code string }
	}
	var paid, unasked heard
	answer(t, handler.Invoke, "event.json", &paid)
	raw := answer(t, handler.Invoke, "compensate.json", &unasked)
	if unasked.Status != "refused" || unasked.Error.Code != "undo_not_asked" || unasked.Effect != "none" {
		t.Errorf("unasked: %s", raw)
	}
	askUndo(t, store, ledger.Key{Tenant: "acme", RunID: "run-7Q", CallID: "toolu_01"})
	for i := range 3 {
		var got heard
		raw := answer(t, handler.Invoke, "compensate.json", &got)
		if diff := cmp.Diff(heard{Status: "completed", Effect: "happened", Key: "acme/run-7Q:toolu_01~undo1", Replayed: i > 0}, got); diff != "" {
			t.Errorf("event %d (-want +got):\n%s\n%s", i, diff, raw)
		}
	}
	effects, err := r.AccountEffects(t.Context(), "A1")
	want := billing.Effects{Credits: 1, Voids: 1, Sends: 2, Keys: []string{"acme/run-7Q:toolu_01", "acme/run-7Q:toolu_01~undo1"}}
	if diff := cmp.Diff(want, effects); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestAnEventClosesAnAccountOnce(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	handler, err := oncetest.NewGuard(t).Handler(on(t, r.url).issueCredit(), on(t, r.url).closeAccount())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		var got once.Answer
		raw := answer(t, handler.Invoke, "close_account.json", &got)
		if got.Status != once.Completed || got.Replayed != (i > 0) || got.ExternalID != "A1" || string(got.Result) != `{"account_id":"A1","closed":true}` {
			t.Errorf("event %d: %s", i, raw)
		}
	}
	var late once.Answer
	raw := answer(t, handler.Invoke, "event.json", &late)
	if late.Status != once.Failed || late.Error.Message != "billing refused it (account_closed)" {
		t.Errorf("a credit after it: %s", raw)
	}
	found, err := r.ClosuresByKey(t.Context(), "acme/run-7Q:toolu_02")
	if err != nil || len(found) != 1 || found[0].AccountID != "A1" {
		t.Errorf("closings %+v, %v", found, err)
	}
}

func TestTheManifestNamesTheToolsWithTheirClasses(t *testing.T) {
	t.Parallel()
	b := on(t, "http://127.0.0.1:1")
	handler, err := oncetest.NewGuard(t).Handler(b.findOrder(), b.issueCredit(), b.closeAccount())
	if err != nil {
		t.Fatal(err)
	}
	var got once.Manifest
	raw := answer(t, handler.Invoke, "describe.json", &got)
	classes := map[string]string{}
	for _, tool := range got.Tools {
		classes[tool.Name] = fmt.Sprintf("%s, undo %t", tool.Effect, tool.Undo)
	}
	if diff := cmp.Diff(map[string]string{"find_order": "read, undo false", "issue_credit": "external, undo true", "close_account": "destructive, undo false"}, classes); diff != "" {
		t.Errorf("classes (-want +got):\n%s\n%s", diff, raw)
	}
}
