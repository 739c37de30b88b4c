package once_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// till is a bank that takes a credit back when asked to. It counts voids by the
// key that they came under.
type till struct {
	bank
	mu     sync.Mutex
	voids  map[string]int
	undone ledger.Record               // what the last void was given
	void   func(context.Context) error // what it returns once the void happened
	noVoid func(context.Context) error // why it voids nothing
}

func (b *till) compensate(ctx context.Context, rec ledger.Record, _ creditIn) error {
	b.mu.Lock()
	b.undone = rec
	void, noVoid := b.void, b.noVoid
	b.mu.Unlock()
	if noVoid != nil {
		if err := noVoid(ctx); err != nil {
			return err
		}
	}
	b.mu.Lock()
	if b.voids == nil {
		b.voids = map[string]int{}
	}
	b.voids[once.CallFrom(ctx).Key.String()]++
	b.mu.Unlock()
	if void != nil {
		return void(ctx)
	}
	return nil
}

func (b *till) all() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.voids)
}

// tool is the bank's tool with a compensation.
func (b *till) tool(change ...func(*once.Tool[creditIn, credit])) once.Tool[creditIn, credit] {
	return b.bank.tool(append([]func(*once.Tool[creditIn, credit]){func(t *once.Tool[creditIn, credit]) { t.Compensate = b.compensate }}, change...)...)
}

// undo1 is the request for the first undo of call1.
var undo1 = undoOf(call1, 1)

func undoOf(req once.Request, n int) once.Request {
	req.CallID = req.Key().Undo(n).CallID
	return req
}

// askUndo lets ann ask for the next undo of a call, at now.
func askUndo(tb testing.TB, store ledger.Store, key ledger.Key, now time.Time) {
	tb.Helper()
	rec := record(tb, store, key)
	d := ledger.Decision{ID: fmt.Sprintf("ask%d", rec.Undo.N+1), Actor: "ann", Reason: "paid by mistake", Version: rec.Version}
	move, err := rec.AskUndo(ledger.Stamp{At: now, WriteID: d.ID}, d, ledger.UndoAsk{KnowsUnknown: true})
	apply(tb, store, move, err)
}

// closeUndo records on the call how its open undo ended.
func closeUndo(tb testing.TB, store ledger.Store, key ledger.Key, effect ledger.Effect) {
	tb.Helper()
	rec := record(tb, store, key)
	move, err := rec.CloseUndo(ledger.Stamp{At: time.Now(), WriteID: fmt.Sprintf("over%d", rec.Version)}, rec.Undo.N, effect)
	apply(tb, store, move, err)
}
