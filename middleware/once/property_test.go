package once_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// history is one call's life under random requests, faults, look-ups, deaths and
// people. The tool and the people tell the truth; everything else may fail.
type history struct {
	store   *memledger.Store
	bound   *once.Bound[creditIn, credit]
	final   bool // somebody was told that it did nothing, for good
	n       int
	effects atomic.Int64
	runs    atomic.Int64
	how     atomic.Value // how the tool behaves next
	hook    atomic.Value

	mu   sync.Mutex
	free []chan struct{} // of handlers that hang
}

// Proves: R23, R29, R34, R44, R45, R53, R94, R107
func TestWhateverHappensOneCallTakesEffectAtMostOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(rt *rapid.T) {
			h := &history{store: newStore(t)}
			h.bound = bind(t, newGuard(t, h.store), h.tool(rapid.Bool().Draw(rt, "absence is proof")))
			defer h.end()
			rt.Repeat(map[string]func(*rapid.T){
				"invoke":    h.invoke,
				"close":     func(rt *rapid.T) { h.hear(rt, h.bound.Close(context.Background(), call1)) },
				"reconcile": h.reconcile,
				"fault":     h.fault,
				"person":    h.person,
				"sweeper":   h.sweep,
				"time":      func(rt *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 90).Draw(rt, "seconds")) * time.Second) },
				"late":      func(*rapid.T) { h.end() },
				"":          h.check,
			})
		})
	})
}

// inBubble hides the test's deadline, which is real time, from rapid.
type inBubble struct{ testing.TB }

func (h *history) tool(absence bool) once.Tool[creditIn, credit] {
	return once.Tool[creditIn, credit]{
		Name: "issue_credit", Class: once.External, Downstream: once.Downstream{AbsenceIsProof: absence},
		Run: h.run,
		Reconcile: func(context.Context, ledger.Record, creditIn) (credit, bool, error) {
			switch h.hook.Load() {
			case "can't tell":
				return credit{}, false, errors.New("down")
			case "panics":
				panic("hook")
			}
			return credit{ID: "one"}, h.effects.Load() > 0, nil
		},
	}
}

func (h *history) run(ctx context.Context, _ creditIn) (credit, error) {
	h.runs.Add(1)
	how := h.how.Load()
	switch how {
	case "not sent":
		return credit{}, once.NotAttempted(errors.New("expired"))
	case "refused":
		return credit{}, once.Rejected(errors.New("no"))
	case "request lost":
		return credit{}, errors.New("reset")
	}
	h.effects.Add(1)
	switch how {
	case "answer lost":
		return credit{}, errors.New("reset")
	case "panics":
		panic("run")
	case "landed":
		return credit{}, once.Landed("one", errors.New("odd answer"))
	case "hangs", "hangs and loses":
		free := make(chan struct{})
		h.mu.Lock()
		h.free = append(h.free, free)
		h.mu.Unlock()
		<-free
		if how == "hangs and loses" {
			return credit{}, errors.New("reset")
		}
	case "slow":
		<-ctx.Done()
		return credit{}, ctx.Err()
	}
	return credit{ID: "one"}, nil
}

func (h *history) end() {
	h.mu.Lock()
	for _, free := range h.free {
		close(free)
	}
	h.free = nil
	h.mu.Unlock()
	time.Sleep(10 * time.Second) // in the bubble's time: a late settle may have to try again
	synctest.Wait()
}

func (h *history) invoke(rt *rapid.T) {
	h.how.Store(rapid.SampledFrom([]string{"works", "not sent", "refused", "request lost", "answer lost", "panics", "landed", "hangs", "hangs and loses", "slow"}).Draw(rt, "tool"))
	h.hook.Store(rapid.SampledFrom([]string{"tells", "can't tell", "panics"}).Draw(rt, "hook"))
	req := call1
	req.Attempt = rapid.IntRange(1, 3).Draw(rt, "attempt")
	granted := h.peek().Flags.Has(ledger.Granted)
	before := h.runs.Load()
	out := h.bound.Do(context.Background(), req, five)
	if h.runs.Load() > before+1 {
		rt.Fatalf("one request ran it %d times", h.runs.Load()-before)
	}
	if h.runs.Load() > before && h.final && !granted {
		rt.Fatalf("ran after somebody was told that it did nothing, for good")
	}
	if h.runs.Load() > before {
		h.final = false
	}
	h.hear(rt, out)
}

func (h *history) reconcile(rt *rapid.T) {
	h.hook.Store(rapid.SampledFrom([]string{"tells", "can't tell", "panics"}).Draw(rt, "hook"))
	before := h.runs.Load()
	h.hear(rt, h.bound.Reconcile(context.Background(), call1, five))
	if h.runs.Load() != before {
		rt.Fatalf("a look-up ran the tool")
	}
}

// hear checks an answer against what really happened.
func (h *history) hear(rt *rapid.T, out once.Outcome[credit]) {
	switch {
	case out.Effect == ledger.NoEffect && h.effects.Load() > 0:
		rt.Fatalf("told %s, effect none, although it happened: %+v", out.Status, out.Report)
	case out.Status == once.Failed && out.Effect != ledger.NoEffect:
		rt.Fatalf("told failed of effect %s", out.Effect)
	case out.Effect == ledger.Happened && h.effects.Load() != 1, out.Status == once.Completed && h.effects.Load() != 1:
		rt.Fatalf("told %s, effect %s; there were %d", out.Status, out.Effect, h.effects.Load())
	}
	if c, err := out.Value(); err == nil && c.ID != "one" {
		rt.Fatalf("result %v", c)
	}
	rec := h.peek()
	if out.Status == once.Completed && rec.Status != ledger.Completed {
		rt.Fatalf("answered completed, stored %s", rec.State())
	}
	if out.Status == once.Failed && !rec.Flags.Has(ledger.Retryable) {
		h.final = true
	}
}

func (h *history) peek() ledger.Record {
	rec, _ := withoutFaults{h.store}.Load(context.Background(), call1.Key())
	return rec
}

func (h *history) fault(rt *rapid.T) {
	persist := rapid.Bool().Draw(rt, "persisted")
	h.store.Arm(memledger.Fault{
		Op:      rapid.SampledFrom([]memledger.Op{memledger.Apply, memledger.Apply, memledger.Load, memledger.KeepResult}).Draw(rt, "request"),
		Nth:     rapid.IntRange(1, 4).Draw(rt, "n-th"),
		Persist: persist,
		Answer:  !persist && rapid.Bool().Draw(rt, "answered"),
	})
}

// person settles an unknown call by what really happened, and may grant.
func (h *history) person(rt *rapid.T) {
	rec := h.peek()
	h.n++
	id := fmt.Sprintf("d%d", h.n)
	what := ledger.Settlement{Effect: ledger.NoEffect, Retryable: rapid.Bool().Draw(rt, "grants"), Code: "resolved_failed", Message: "looked"}
	if h.effects.Load() > 0 {
		what = ledger.Settlement{Effect: ledger.Happened, Result: []byte(`{"id":"one"}`)}
	}
	move, err := rec.Resolve(ledger.Stamp{At: time.Now(), WriteID: id}, ledger.Decision{ID: id, Actor: "ann", Reason: "looked", Version: rec.Version}, what)
	if err == nil {
		_, _ = h.store.Apply(context.Background(), move)
	}
}

func (h *history) sweep(*rapid.T) {
	h.n++
	if move, err := h.peek().Orphan(ledger.Stamp{At: time.Now(), WriteID: fmt.Sprintf("s%d", h.n)}); err == nil {
		_, _ = h.store.Apply(context.Background(), move)
	}
}

func (h *history) check(rt *rapid.T) {
	if h.effects.Load() > 1 {
		rt.Fatalf("effects = %d", h.effects.Load())
	}
	rec := h.peek()
	if rec.Effect() == ledger.Happened && h.effects.Load() == 0 || rec.Effect() == ledger.NoEffect && h.effects.Load() > 0 && rec.Exists() {
		rt.Fatalf("the ledger says %s (%s); there were %d", rec.Effect(), rec.State(), h.effects.Load())
	}
}
