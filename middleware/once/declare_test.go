package once_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

type line struct {
	SKU   string  `json:"sku" jsonschema:"the article's number"`
	Count *int    `json:"count"`
	Price float64 `json:"price,omitzero"`
}

type orderIn struct {
	Lines  []line          `json:"lines"`
	Photo  []byte          `json:"photo,omitzero"`
	Extra  json.RawMessage `json:"extra,omitzero"`
	Amount json.Number     `json:"amount,omitzero"`
}

func orderTool(change ...func(*once.Tool[orderIn, orderIn])) once.Tool[orderIn, orderIn] {
	t := once.Tool[orderIn, orderIn]{Name: "issue_credit", Class: once.Write, Run: func(_ context.Context, in orderIn) (orderIn, error) { return in, nil }}
	for _, f := range change {
		f(&t)
	}
	return t
}

func TestArgumentsOfManyTypesArriveAndMissingOnesAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ arguments, message, result string }{
		{
			`{"lines":[{"sku":"a","count":2,"price":1.50},{"sku":"b","count":null}],"photo":"aGk=","extra":{"b":1,"a":[true]},"amount":12.5}`, "",
			`{"lines":[{"sku":"a","count":2,"price":1.5},{"sku":"b","count":null}],"photo":"aGk=","extra":{"a":[true],"b":1},"amount":12.5}`,
		},
		{`{"lines":null}`, "", `{"lines":null}`},
		{`{}`, "lines: is missing", ""},
		{`{"lines":[{"sku":"a","count":1},{"count":1}]}`, "lines.1.sku: is missing", ""},
		{`{"lines":[{"sku":null,"count":1}]}`, "lines.0.sku: is missing", ""},
		{`{"lines":[{"sku":"a","count":1,"colour":"red"}]}`, "lines.0.colour: is unknown", ""},
		{`{"lines":[{"sku":"a","count":"two"}]}`, "lines.0.count: has the wrong type or form", ""},
		{`{"lines":[],"amount":"many"}`, "amount: has the wrong type or form", ""},
		{`{"lines":[],"photo":"?"}`, "photo: has the wrong type or form", ""},
	} {
		a := ask(t.Context(), t, handlerOf(t, newGuard(t, newStore(t)), orderTool()), envelope("invoke", `{"account":"A1","cents":5}`, c.arguments))
		if a.Error.Message != c.message || string(a.Result) != c.result {
			t.Errorf("%s: got %+v", c.arguments, a)
		}
	}
}

func TestSchemaOfArgumentsCanBeDeclared(t *testing.T) {
	t.Parallel()
	declared := orderTool(func(t *once.Tool[orderIn, orderIn]) {
		t.Schema = json.RawMessage(`{"type":"object","properties":{"amount":{"type":"number","description":"in cents"}},"required":["amount"]}`)
	})
	h := handlerOf(t, newGuard(t, newStore(t)), declared)
	out, err := h.Invoke(t.Context(), []byte(`{"onceward":1,"mode":"describe"}`))
	if err != nil || !strings.Contains(string(out), "in cents") {
		t.Errorf("%s, %v", out, err)
	}
	a := ask(t.Context(), t, h, envelope("invoke", `{"account":"A1","cents":5}`, `{"lines":[]}`))
	if a.Error.Message != "amount: is missing" {
		t.Errorf("got %+v", a)
	}
	for _, bad := range []string{`{"type":`, `{"type":"array"}`, `{"properties":{"order":{"type":"object","properties":{"Idempotency-Key":{}}}}}`, `{"type":"object","properties":{"lines":{"type":"array","items":{"properties":{"idempotency_token":{}}}}}}`} {
		if _, err := newGuard(t, newStore(t)).Handler(orderTool(func(t *once.Tool[orderIn, orderIn]) { t.Schema = json.RawMessage(bad) })); err == nil {
			t.Errorf("took %s", bad)
		}
	}
	if _, err := once.Bind(newGuard(t, newStore(t)), once.Tool[func(), int]{Name: "t", Class: once.Write, Run: func(context.Context, func()) (int, error) { return 0, nil }}); err == nil {
		t.Error("took a function as arguments")
	}
}

// Proves: R79
func TestSummaryIsBoundedAndHoldsNoValuesUnlessTheToolSaysSo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		summary func(creditIn) string
		want    string
	}{
		"by default": {nil, "account, cents"},
		"declared":   {func(in creditIn) string { return "credit for " + in.Account }, "credit for A1"},
		"too long":   {func(creditIn) string { return strings.Repeat("x", 500) }, strings.Repeat("x", ledger.MaxSummary-3) + "…"},
		"panics":     {func(creditIn) string { panic("canary") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, b := newStore(t), &bank{}
			bound := bind(t, newGuard(t, store), b.tool(func(t *once.Tool[creditIn, credit]) { t.Summary = c.summary }))
			bound.Do(t.Context(), call1, five)
			if got := record(t, store, call1.Key()).Summary; got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestLambdasRequestIsRecordedForTracing(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "req-1"})
	bind(t, newGuard(t, store), b.tool()).Do(ctx, call1, five)
	if got := record(t, store, call1.Key()).Attempt.RequestID; got != "req-1" {
		t.Errorf("got %q", got)
	}
}

func TestHandlerSeesItsCall(t *testing.T) {
	t.Parallel()
	var seen once.Call
	b := &bank{before: func(ctx context.Context) error { seen = once.CallFrom(ctx); return nil }}
	h := handlerOf(t, newGuard(t, newStore(t)), b.tool())
	ask(t.Context(), t, h, envelope("invoke", `"id":"r1"`, `"id":"r1","started_at":"2126-11-29T10:00:00Z","agent":"a","parent":"p"`, `"reply"`, `"from":{"execution":"e1"},"principal":{"subject":"u","permissions":["x"]},"policy":{"on_indeterminate":"tell"},"reply"`))
	if seen.Tool != "issue_credit" || seen.Class != once.External || seen.Key.String() != "acme/r1:c1" || seen.Turn != 3 || seen.Attempt != 1 ||
		seen.Agent != "a" || seen.ParentRunID != "p" || seen.Subject != "u" || seen.Permissions[0] != "x" || seen.Policy != ledger.Tell || seen.Execution != "e1" || seen.RunStartedAt.IsZero() {
		t.Errorf("seen %+v", seen)
	}
}

func TestLateOutcomeThatAgreesIsKeptAsEvidence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		kind ledger.Event
	}{
		"it happened":            {nil, ledger.Complete},
		"it says it was nothing": {once.Rejected(errors.New("no")), ledger.Reject},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, b := newStore(t), &bank{}
				free := make(chan struct{})
				b.after = func(context.Context) error { <-free; return c.err }
				bound := bind(t, newGuard(t, store), b.tool(b.withLookUp))
				bound.Do(t.Context(), call1, five)
				want(t, bound.Do(t.Context(), call1, five).Report, once.Completed, ledger.Happened, ledger.Done, "")
				close(free)
				synctest.Wait()
				rec := record(t, store, call1.Key())
				if rec.Status != ledger.Completed || rec.Outcome.By.Kind != ledger.ByHook || len(rec.Evidence) != 1 || rec.Evidence[0].Kind != c.kind {
					t.Errorf("%s by %s, evidence %+v", rec.State(), rec.Outcome.By.Kind, rec.Evidence)
				}
			})
		})
	}
}

func TestLookUpWithoutTimeIsLeftToTheNextOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bank{after: func(context.Context) error { return errors.New("lost") }}
		bound := bind(t, newGuard(t, newStore(t)), b.tool(b.withLookUp))
		bound.Do(t.Context(), call1, five)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want(t, bound.Reconcile(ctx, call1, five).Report, once.Indeterminate, ledger.Unknown, ledger.Look, "outcome_unknown")
		if b.looks.Load() != 0 {
			t.Error("looked without time for it")
		}
	})
}

func TestFollowerIsAnsweredAsUnknownAndNeverRuns(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	move, err := ledger.Record{}.Follow(ledger.Stamp{At: time.Now(), WriteID: "w"}, ledger.Call{Key: call1.Key(), Tool: "issue_credit", Turn: 3}, ledger.Key{RunID: "r0", CallID: "c0"})
	if err == nil {
		_, err = store.Apply(t.Context(), move)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := bind(t, newGuard(t, store), b.tool()).Reconcile(t.Context(), call1, five)
	if out.Status == once.Failed || out.Effect != ledger.Unknown || b.runs.Load() != 0 {
		t.Errorf("got %+v", out.Report)
	}
}
