package once_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

type creditIn struct {
	Account string `json:"account"`
	Cents   int64  `json:"cents,omitzero"`
	Note    string `json:"note,omitzero"`
}

type credit struct {
	ID string `json:"id"`
}

// bank is a receiver in memory: it counts effects, and may lose its answer.
type bank struct {
	effects atomic.Int64
	runs    atomic.Int64
	looks   atomic.Int64
	after   func(context.Context) error // what Run returns once the effect happened; nil: the credit
	before  func(context.Context) error // why Run does nothing
}

func (b *bank) run(ctx context.Context, in creditIn) (credit, error) {
	b.runs.Add(1)
	if b.before != nil {
		if err := b.before(ctx); err != nil {
			return credit{}, err
		}
	}
	b.effects.Add(1)
	if b.after != nil {
		if err := b.after(ctx); err != nil {
			return credit{}, err
		}
	}
	return credit{ID: "cr_" + in.Account}, nil
}

func (b *bank) find(_ context.Context, _ ledger.Record, in creditIn) (credit, bool, error) {
	b.looks.Add(1)
	if b.effects.Load() == 0 {
		return credit{}, false, nil
	}
	return credit{ID: "cr_" + in.Account}, true, nil
}

// tool is the bank's one tool, without a look-up unless change adds it.
func (b *bank) tool(change ...func(*once.Tool[creditIn, credit])) once.Tool[creditIn, credit] {
	t := once.Tool[creditIn, credit]{
		Name: "issue_credit", Description: "Credit an account.", Class: once.External,
		Run:        b.run,
		ExternalID: func(c credit) string { return c.ID },
	}
	for _, f := range change {
		f(&t)
	}
	return t
}

func (b *bank) withLookUp(t *once.Tool[creditIn, credit]) { t.Reconcile = b.find }

func newStore(tb testing.TB) *memledger.Store {
	tb.Helper()
	store, err := memledger.New()
	if err != nil {
		tb.Fatal(err)
	}
	return store
}

func newGuard(tb testing.TB, store ledger.Store, opts ...func(*once.Options)) *once.Guard {
	tb.Helper()
	var o once.Options
	for _, f := range opts {
		f(&o)
	}
	g, err := once.New(store, &o)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func bind[In, Out any](tb testing.TB, g *once.Guard, tool once.Tool[In, Out]) *once.Bound[In, Out] {
	tb.Helper()
	b, err := once.Bind(g, tool)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func handlerOf(tb testing.TB, g *once.Guard, tools ...once.AnyTool) lambda.Handler {
	tb.Helper()
	h, err := g.Handler(tools...)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// ask sends an envelope and returns its answer, which must be well formed.
func ask(ctx context.Context, tb testing.TB, h lambda.Handler, payload string) once.Answer {
	tb.Helper()
	out, err := h.Invoke(ctx, []byte(payload))
	if err != nil {
		tb.Fatalf("an outcome became a Lambda error: %v", err)
	}
	var a once.Answer
	if err := json.Unmarshal(out, &a); err != nil {
		tb.Fatalf("answer %s: %v", out, err)
	}
	var always map[string]any
	if err := json.Unmarshal(out, &always); err != nil {
		tb.Fatal(err)
	}
	for _, field := range []string{"onceward", "status", "effect", "next", "error", "retry_after_seconds"} {
		if _, ok := always[field]; !ok {
			tb.Errorf("answer without %s: %s", field, out)
		}
	}
	if len(out) > once.MaxAnswer {
		tb.Errorf("answer of %d bytes", len(out))
	}
	return a
}

// envelope writes an envelope of mode for call c1 of run r1, with changes to its
// text: "old", "new" and so on.
func envelope(mode string, changes ...string) string {
	return strings.NewReplacer(changes...).Replace(fmt.Sprintf(`{"onceward":1,"mode":%q,"tenant":"acme","run":{"id":"r1"},"call":{"id":"c1","tool":"issue_credit","turn":3,"attempt":1,"arguments":{"account":"A1","cents":5}},"reply":"full"}`, mode))
}

var (
	call1 = once.Request{Tenant: "acme", RunID: "r1", CallID: "c1", Turn: 3}
	five  = creditIn{Account: "A1", Cents: 5}
)

func record(tb testing.TB, store ledger.Store, key ledger.Key) ledger.Record {
	tb.Helper()
	rec, err := store.Load(context.Background(), key)
	if err != nil {
		tb.Fatal(err)
	}
	return rec
}

// apply makes a move that somebody else makes on the ledger.
func apply(tb testing.TB, store ledger.Store, move ledger.Move, err error) {
	tb.Helper()
	if err == nil {
		_, err = store.Apply(context.Background(), move)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// want compares the parts of a report that an orchestrator acts on.
func want(tb testing.TB, r once.Report, status once.Status, effect ledger.Effect, next ledger.Next, code string) {
	tb.Helper()
	if r.Status != status || r.Effect != effect || r.Next != next || r.Code != code {
		tb.Errorf("got %s, effect %s, next %s, code %q (%s); want %s, %s, %s, %q", r.Status, r.Effect, r.Next, r.Code, r.Message, status, effect, next, code)
	}
}
