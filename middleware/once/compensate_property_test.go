package once_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// undoHistory is the life of one call that people undo, under faults, repeats,
// delayed answers and closings. Persons tell the truth, and ask when they like.
type undoHistory struct {
	store *memledger.Store
	bound *once.Bound[creditIn, credit]
	n     int

	mu     sync.Mutex
	how    string
	runs   int
	voids  map[int]int  // by the undo's number
	grants map[int]int  // by the undo's number
	final  map[int]bool // somebody was told that the undo did nothing, for good
	asked  int          // the highest number that the ledger has stored an ask for
	open   int          // the number that is open; 0: none
	free   []chan struct{}
	wrong  []string
}

// Proves: R111, R113, R116
func TestWhateverHappensAnUndoVoidsAtMostOnceAndNoneIsUnasked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(rt *rapid.T) {
			h := &undoHistory{store: newStore(t), voids: map[int]int{}, grants: map[int]int{}, final: map[int]bool{}}
			h.bound = bind(t, newGuard(t, h.store), h.tool(rapid.Bool().Draw(rt, "by key")))
			h.store.OnMoment(h.watch)
			defer h.end()
			rt.Repeat(map[string]func(*rapid.T){
				"invoke":     h.invoke,
				"compensate": h.compensate,
				"both":       h.both,
				"ask":        h.ask,
				"close key":  h.closeKey,
				"end undo":   h.endUndo,
				"person":     h.person,
				"reconcile":  h.reconcile,
				"sweeper":    h.sweep,
				"fault":      h.fault,
				"time":       func(rt *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 90).Draw(rt, "seconds")) * time.Second) },
				"late":       func(*rapid.T) { h.end() },
				"":           h.check,
			})
		})
	})
}

func (h *undoHistory) tool(byKey bool) once.Tool[creditIn, credit] {
	return once.Tool[creditIn, credit]{
		Name: "issue_credit", Class: once.External, CompensateByKey: byKey, Downstream: once.Downstream{AbsenceIsProof: true},
		Run: func(context.Context, creditIn) (credit, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.runs++
			if h.how == "answer lost" {
				return credit{}, errors.New("reset")
			}
			return credit{ID: "one"}, nil
		},
		Reconcile: func(_ context.Context, rec ledger.Record, _ creditIn) (credit, bool, error) {
			if rec.Key != call1.Key() {
				h.blame("the look-up was asked about %s", rec.Key)
			}
			return credit{ID: "one"}, true, nil
		},
		Compensate: h.void,
	}
}

// watch follows what the ledger has stored of asks, as nobody else knows it
// while answers get lost.
func (h *undoHistory) watch(m memledger.Moment) {
	if m.When != "after" || m.Step.Op != memledger.Apply {
		return
	}
	h.see()
}

func (h *undoHistory) see() {
	page, err := h.store.Unsettled(context.Background(), ledger.Query{Tenant: call1.Tenant}) // which no fault strikes
	if err != nil {
		h.blame("the list can't be read: %v", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = 0
	for _, rec := range page.Records {
		if rec.Key == call1.Key() && rec.Flags.Has(ledger.UndoOpen) {
			h.open = rec.Undo.N
		}
	}
	h.asked = max(h.asked, h.open)
}

func (h *undoHistory) void(ctx context.Context, rec ledger.Record, _ creditIn) error {
	_, n, _ := once.CallFrom(ctx).Key.UndoOf()
	h.see()
	h.mu.Lock()
	how := h.how
	switch {
	case n > h.asked:
		h.wrong = append(h.wrong, fmt.Sprintf("undo %d ran; %d were asked for", n, h.asked))
	case n != h.open:
		h.wrong = append(h.wrong, fmt.Sprintf("undo %d ran; open is %d", n, h.open))
	case h.final[n]:
		h.wrong = append(h.wrong, fmt.Sprintf("undo %d ran after somebody was told that it did nothing", n))
	case rec.Key != call1.Key() || rec.Undo.N != n:
		h.wrong = append(h.wrong, fmt.Sprintf("undo %d was given %s, undo %d", n, rec.Key, rec.Undo.N))
	}
	switch how {
	case "not sent", "refused", "request lost":
	default:
		h.voids[n]++
	}
	h.mu.Unlock()
	switch how {
	case "not sent":
		return once.NotAttempted(errors.New("expired"))
	case "refused":
		return once.Rejected(errors.New("no"))
	case "request lost", "answer lost":
		return errors.New("reset")
	case "panics":
		panic("void")
	case "landed":
		return once.Landed("vo", errors.New("odd answer"))
	case "slow":
		<-ctx.Done()
		return ctx.Err()
	case "hangs":
		free := make(chan struct{})
		h.mu.Lock()
		h.free = append(h.free, free)
		h.mu.Unlock()
		<-free
	}
	return nil
}

func (h *undoHistory) blame(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

func (h *undoHistory) end() {
	h.mu.Lock()
	for _, free := range h.free {
		close(free)
	}
	h.free = nil
	h.mu.Unlock()
	time.Sleep(10 * time.Second) // in the bubble's time: a late settle may have to try again
	synctest.Wait()
}

func (h *undoHistory) behave(rt *rapid.T) {
	how := rapid.SampledFrom([]string{"works", "works", "not sent", "refused", "request lost", "answer lost", "panics", "landed", "slow", "hangs"}).Draw(rt, "receiver")
	h.mu.Lock()
	h.how = how
	h.mu.Unlock()
}

func (h *undoHistory) invoke(rt *rapid.T) {
	h.behave(rt)
	h.bound.Do(context.Background(), call1, five)
}

// which draws an undo's number: most often the last one that was asked for.
func (h *undoHistory) which(rt *rapid.T) int {
	h.mu.Lock()
	asked := h.asked
	h.mu.Unlock()
	return max(1, asked+rapid.SampledFrom([]int{0, 0, 0, -1, 1}).Draw(rt, "which"))
}

func (h *undoHistory) request(rt *rapid.T) once.Request {
	req := undoOf(call1, h.which(rt))
	req.Attempt = rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(rt, "attempt")
	return req
}

func (h *undoHistory) compensate(rt *rapid.T) {
	h.behave(rt)
	req := h.request(rt)
	h.send(rt, req)
}

// send makes one request for an undo and checks its answer.
func (h *undoHistory) send(rt *rapid.T, req once.Request) {
	_, n, _ := req.Key().UndoOf()
	h.hear(rt, n, h.bound.Compensate(context.Background(), req, five))
}

func (h *undoHistory) reconcile(rt *rapid.T) {
	req := h.request(rt)
	_, n, _ := req.Key().UndoOf()
	h.hear(rt, n, h.bound.Reconcile(context.Background(), req, five).Report)
}

// both lets two requests for one undo race, and somebody who closes its key.
func (h *undoHistory) both(rt *rapid.T) {
	h.behave(rt)
	req := h.request(rt)
	closes := rapid.Bool().Draw(rt, "and a closing")
	_, n, _ := req.Key().UndoOf()
	var all sync.WaitGroup
	reports := make([]once.Report, 3)
	for i := range 2 {
		all.Go(func() { reports[i] = h.bound.Compensate(context.Background(), req, five) })
	}
	if closes {
		all.Go(func() { reports[2] = h.bound.Close(context.Background(), req).Report })
	}
	all.Wait()
	for _, r := range reports {
		granted := r.Status == once.Failed && r.Next == ledger.Again // true when it was read; then the other one used the grant
		if r.Status != "" && !granted {
			h.hear(rt, n, r)
		}
	}
}

func (h *undoHistory) ask(*rapid.T) {
	rec := h.peek(call1.Key())
	h.n++
	d := ledger.Decision{ID: fmt.Sprintf("a%d", h.n), Actor: "ann", Reason: "a mistake", Version: rec.Version}
	if move, err := rec.AskUndo(ledger.Stamp{At: time.Now(), WriteID: d.ID}, d, ledger.UndoAsk{KnowsUnknown: true}); err == nil {
		_, _ = h.store.Apply(context.Background(), move)
	}
}

func (h *undoHistory) closeKey(rt *rapid.T) {
	n := h.which(rt)
	h.hear(rt, n, h.bound.Close(context.Background(), undoOf(call1, n)).Report)
}

// endUndo closes the open undo by its record, as whoever carries undos on does: a
// record that may still start is closed first.
func (h *undoHistory) endUndo(rt *rapid.T) {
	owner := h.peek(call1.Key())
	if !owner.Flags.Has(ledger.UndoOpen) {
		return
	}
	n := owner.Undo.N
	rec := h.peek(call1.Key().Undo(n))
	if rec.Flags.Has(ledger.Granted) {
		return
	}
	if !rec.Exists() || rec.Flags.Has(ledger.Retryable) {
		h.hear(rt, n, h.bound.Close(context.Background(), undoOf(call1, n)).Report)
		if rec = h.peek(call1.Key().Undo(n)); !rec.Exists() || rec.Flags.Has(ledger.Retryable) {
			return // the closing got lost
		}
	}
	h.n++
	if move, err := owner.CloseUndo(ledger.Stamp{At: time.Now(), WriteID: fmt.Sprintf("o%d", h.n)}, n, rec.Effect()); err == nil {
		_, _ = h.store.Apply(context.Background(), move)
	}
}

// person settles an unknown undo, or call, by what really happened, and may grant.
func (h *undoHistory) person(rt *rapid.T) {
	n := h.which(rt)
	key := call1.Key().Undo(n)
	h.mu.Lock()
	happened := h.voids[n] > 0
	h.mu.Unlock()
	rec := h.peek(key)
	h.n++
	id := fmt.Sprintf("d%d", h.n)
	what := ledger.Settlement{Effect: ledger.NoEffect, Retryable: rapid.Bool().Draw(rt, "grants"), Code: "resolved_failed", Message: "looked"}
	if happened {
		what = ledger.Settlement{Effect: ledger.Happened}
	}
	move, err := rec.Resolve(ledger.Stamp{At: time.Now(), WriteID: id}, ledger.Decision{ID: id, Actor: "ann", Reason: "looked", Version: rec.Version}, what)
	if err != nil {
		return
	}
	_, _ = h.store.Apply(context.Background(), move)
	if what.Retryable && h.peek(key).HasDecision(id) {
		h.mu.Lock()
		h.grants[n]++
		h.final[n] = false
		h.mu.Unlock()
	}
}

func (h *undoHistory) sweep(rt *rapid.T) {
	h.n++
	for _, key := range []ledger.Key{call1.Key(), call1.Key().Undo(h.which(rt))} {
		if move, err := h.peek(key).Orphan(ledger.Stamp{At: time.Now(), WriteID: fmt.Sprintf("s%d%s", h.n, key.CallID)}); err == nil {
			_, _ = h.store.Apply(context.Background(), move)
		}
	}
}

func (h *undoHistory) fault(rt *rapid.T) {
	persist := rapid.Bool().Draw(rt, "persisted")
	h.store.Arm(memledger.Fault{
		Op:      rapid.SampledFrom([]memledger.Op{memledger.Apply, memledger.Apply, memledger.Load, memledger.Result}).Draw(rt, "request"),
		Nth:     rapid.IntRange(1, 4).Draw(rt, "n-th"),
		Persist: persist,
		Answer:  !persist && rapid.Bool().Draw(rt, "answered"),
	})
}

// peek reads the store past its faults.
func (h *undoHistory) peek(key ledger.Key) ledger.Record {
	rec, _ := withoutFaults{h.store}.Load(context.Background(), key)
	return rec
}

// hear checks an answer about undo n against what really happened.
func (h *undoHistory) hear(rt *rapid.T, n int, r once.Report) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch voids := h.voids[n]; {
	case r.Effect == ledger.NoEffect && voids > 0:
		rt.Fatalf("undo %d: told %s, effect none, although it happened: %+v", n, r.Status, r)
	case r.Effect == ledger.Happened && voids == 0:
		rt.Fatalf("undo %d: told %s, effect happened, although it did not: %+v", n, r.Status, r)
	case r.Status == once.Failed && r.Effect != ledger.NoEffect:
		rt.Fatalf("undo %d: told failed of effect %s", n, r.Effect)
	case r.Key != call1.Key().Undo(n):
		rt.Fatalf("undo %d: answered for %s", n, r.Key)
	}
	if rec := h.peekLocked(call1.Key().Undo(n)); r.Status == once.Failed && !rec.Flags.Has(ledger.Retryable) {
		h.final[n] = true
	}
}

func (h *undoHistory) peekLocked(key ledger.Key) ledger.Record {
	h.mu.Unlock()
	defer h.mu.Lock()
	return h.peek(key)
}

func (h *undoHistory) check(rt *rapid.T) {
	owner := h.peek(call1.Key())
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.wrong) > 0 {
		rt.Fatalf("%v", h.wrong)
	}
	for n, voids := range h.voids {
		if voids > 1 || n > owner.Undo.N && owner.Exists() {
			rt.Fatalf("undo %d voided %d times; %d were asked for", n, voids, owner.Undo.N)
		}
		rec := h.peekLocked(call1.Key().Undo(n))
		if rec.Effect() == ledger.NoEffect && rec.Exists() || !rec.Exists() {
			rt.Fatalf("undo %d happened, and the ledger says %s", n, rec.State())
		}
	}
	if h.runs > 1 {
		rt.Fatalf("the call ran %d times", h.runs)
	}
	if owner.Status == ledger.Compensated && len(h.voids) == 0 {
		rt.Fatalf("compensated, and nothing was voided")
	}
}
