package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

func TestTheManifestNamesBothToolsWithTheirClasses(t *testing.T) {
	t.Parallel()
	b := on(t, "http://127.0.0.1:1")
	handler, err := oncetest.NewGuard(t).Handler(b.findOrder(), b.issueCredit())
	if err != nil {
		t.Fatal(err)
	}
	var got once.Manifest
	raw := answer(t, handler.Invoke, "describe.json", &got)
	classes := map[string]string{}
	for _, tool := range got.Tools {
		classes[tool.Name] = fmt.Sprint(tool.Effect)
	}
	if diff := cmp.Diff(map[string]string{"find_order": "read", "issue_credit": "external"}, classes); diff != "" {
		t.Errorf("classes (-want +got):\n%s\n%s", diff, raw)
	}
}
