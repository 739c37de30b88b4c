package operator_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// undoHistory is one call that several people, its executors and whoever looks
// after it act on in any order.
type undoHistory struct {
	*vault
	rt     *rapid.T
	was    ledger.Record            // the call, as last seen
	told   map[string]string        // by Idempotency-Key, the decision that its sender was told of
	sent   map[string]func() error  // by Idempotency-Key, to send the same again
	tokens map[string]ledger.Record // by key, records whose executor may still come back
}

// Whoever asks, in whatever order, whatever is lost on the way: an undo runs only
// once it was asked for, once for each that was asked or granted, and nothing but
// an undo changes what a call has come to.
//
// Proves: R112, R116
func TestUndosRunOnlyAsOftenAsTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
			h := &undoHistory{vault: newVault(t), rt: rt, told: map[string]string{}, sent: map[string]func() error{}, tokens: map[string]ledger.Record{}}
			if rapid.Bool().Draw(rt, "its outcome is known") {
				h.was = h.called(t)
			} else {
				h.was = h.lostTrack(t)
			}
			h.park(t, h.was, "w1")
			for range rapid.IntRange(3, 25).Draw(rt, "steps") {
				h.step(t)
				h.check(t)
			}
			h.settle(t)
		})
	})
}

func (h *undoHistory) step(t *testing.T) {
	t.Helper()
	if rapid.IntRange(0, 2).Draw(h.rt, "fault") == 0 {
		h.store.Arm(memledger.Fault{
			Op:  rapid.SampledFrom([]memledger.Op{memledger.Apply, memledger.Load, memledger.ListWaits, memledger.ConfirmWait, memledger.History}).Draw(h.rt, "op"),
			Nth: rapid.IntRange(1, 4).Draw(h.rt, "nth"), Persist: rapid.Bool().Draw(h.rt, "stored"), Answer: rapid.Bool().Draw(h.rt, "answered"),
		})
	}
	h.bank.void, h.bank.voided = nil, nil
	switch rapid.IntRange(0, 4).Draw(h.rt, "bank") {
	case 0:
		h.bank.void = func() error { return once.Rejected(errors.New("no")) }
	case 1:
		h.bank.void = func() error { return once.NotAttempted(errors.New("no connection")) }
	case 2:
		h.bank.voided = func() error { return errors.New("no answer") }
	}
	before, after := rapid.IntRange(0, 4).Draw(h.rt, "lost before") == 0, rapid.IntRange(0, 4).Draw(h.rt, "lost after") == 0
	h.functions.lose = func(once.Mode) (bool, bool) { return before, after }
	h.act(t)
}

func (h *undoHistory) act(t *testing.T) {
	t.Helper()
	key := h.was.Key
	if n := h.was.Undo.N; n > 0 && rapid.Bool().Draw(h.rt, "of the undo") {
		key = key.Undo(rapid.IntRange(max(1, n-1), n).Draw(h.rt, "n"))
	}
	seen, err := h.store.Load(t.Context(), key)
	if err != nil {
		return
	}
	if seen.Status == ledger.Started || seen.Status == ledger.Indeterminate {
		h.tokens[key.String()] = seen
	}
	command := operator.Command{Key: key.String(), Reason: "r", ExpectedVersion: max(seen.Version-int64(rapid.IntRange(0, 5).Draw(h.rt, "stale")/5), 1)}
	if rapid.Bool().Draw(h.rt, "named") {
		command.IdempotencyKey = fmt.Sprint("k-", rapid.IntRange(0, 2).Draw(h.rt, "key"), "-", seen.Version)
	}
	id := rapid.SampledFrom([]operator.Identity{ops, other}).Draw(h.rt, "who")
	send := func(do func() (operator.Decided, error)) { h.send(id, command, do) }
	switch rapid.SampledFrom([]string{"compensate", "compensate", "compensate", "resolve", "acknowledge", "withdraw", "reconcile", "tend", "tend", "executor", "again", "later"}).Draw(h.rt, "what") {
	case "compensate":
		in := operator.Compensation{Command: command, KnowsUnknown: rapid.IntRange(0, 3).Draw(h.rt, "knows") > 0}
		send(func() (operator.Decided, error) { return h.service.Compensate(t.Context(), id, in) })
	case "resolve":
		in := operator.Resolution{Command: command, Outcome: rapid.SampledFrom([]string{operator.OutcomeCompleted, operator.OutcomeFailed}).Draw(h.rt, "outcome")}
		in.AllowRetry = in.Outcome == operator.OutcomeFailed && key != h.was.Key && rapid.Bool().Draw(h.rt, "retry")
		send(func() (operator.Decided, error) { return h.service.Resolve(t.Context(), id, in) })
	case "acknowledge":
		send(func() (operator.Decided, error) { return h.service.Acknowledge(t.Context(), id, command) })
	case "withdraw":
		send(func() (operator.Decided, error) { return h.service.Withdraw(t.Context(), id, command) })
	case "reconcile":
		_, _ = h.service.Reconcile(t.Context(), id, operator.Inquiry{Key: key.String()})
	case "tend":
		_, _ = h.service.Tend(t.Context(), key)
	case "executor":
		h.executor(t, key)
	case "again":
		for _, name := range sortedKeys(h.sent) {
			_ = h.sent[name]()
		}
	case "later":
		h.now = h.now.Add(rapid.SampledFrom([]time.Duration{time.Second, 30 * time.Second, time.Hour}).Draw(h.rt, "by"))
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var all []string
	for key := range m {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// send sends a person's decision, and keeps it so that it can be sent again.
func (h *undoHistory) send(id operator.Identity, c operator.Command, do func() (operator.Decided, error)) {
	name := id.Actor + "/" + c.Key + "/" + c.IdempotencyKey
	again := func() error {
		got, err := do()
		if err != nil {
			if p, ok := errors.AsType[*operator.Problem](err); !ok {
				h.rt.Fatalf("%v is no problem", err)
			} else if p.Status == 409 && c.IdempotencyKey != "" && h.told[name] != "" {
				h.rt.Fatalf("%s decided, and then lost: %v", id.Actor, p)
			}
			return err
		}
		if before := h.told[name]; c.IdempotencyKey != "" && before != "" && before != got.Decision.ID {
			h.rt.Fatalf("told %s, then %s", before, got.Decision.ID)
		}
		if c.IdempotencyKey != "" {
			h.told[name] = got.Decision.ID
		}
		return nil
	}
	if err := again(); err == nil && c.IdempotencyKey != "" {
		h.sent[name] = again
	}
}

// executor lets an executor that was given up on come back with what it knows.
func (h *undoHistory) executor(t *testing.T, key ledger.Key) {
	t.Helper()
	was, ok := h.tokens[key.String()]
	stored, err := h.store.Load(t.Context(), key)
	if !ok || err != nil || was.Attempt.Token == "" {
		return
	}
	happened := h.bank.voids[key.String()] > 0 || key == h.was.Key
	what := ledger.Settlement{Effect: ledger.NoEffect, Code: "rejected"}
	if happened {
		what = ledger.Settlement{Effect: ledger.Happened}
	}
	if move, err := stored.Settle(h.stamp(fmt.Sprint("late", stored.Version, key)), was.Attempt.Token, what); err == nil {
		_, _ = h.store.Apply(t.Context(), move)
	}
}

// load reads what stands, however many faults are armed.
func (h *undoHistory) load(t *testing.T, key ledger.Key) ledger.Record {
	t.Helper()
	for {
		if r, err := h.store.Load(t.Context(), key); err == nil {
			return r
		}
	}
}

func (h *undoHistory) history(t *testing.T, key ledger.Key) []ledger.Entry {
	t.Helper()
	for {
		if all, err := h.store.History(t.Context(), key); err == nil {
			return all
		}
	}
}

func countKind(entries []ledger.Entry, kind ledger.Event) (n int) {
	for _, e := range entries {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func (h *undoHistory) check(t *testing.T) {
	t.Helper()
	now := h.load(t, h.was.Key)
	if asks := countKind(h.history(t, now.Key), ledger.AskUndo); asks != now.Undo.N {
		h.rt.Fatalf("%d undos, asked for %d times", now.Undo.N, asks)
	}
	for key, voids := range h.bank.voids {
		parsed, err := ledger.ParseKey(key)
		if err != nil {
			h.rt.Fatal(err)
		}
		_, n, ok := parsed.UndoOf()
		grants := countKind(h.history(t, parsed), ledger.ResolveRetry)
		if !ok || n > now.Undo.N || voids > 1+grants {
			h.rt.Fatalf("%s ran %d times, of %d undos asked for and %d grants", key, voids, now.Undo.N, grants)
		}
	}
	if next := h.load(t, now.Key.Undo(now.Undo.N+1)); next.Exists() {
		h.rt.Fatalf("an undo that nobody asked for is %s", next.State())
	}
	h.ended(t, now)
	was, is := h.was, now
	allowed := was.Status == is.Status
	switch was.Status {
	case ledger.Completed:
		allowed = allowed || is.Status == ledger.Compensated && is.Undo.N > 0
	case ledger.Failed:
		allowed = allowed || is.Status == ledger.Compensated && is.Undo.N > 0 && was.Effect() != ledger.NoEffect
	case ledger.Indeterminate:
		allowed = is.Status != ledger.Compensated || is.Undo.N > 0
	case ledger.Compensated, ledger.None, ledger.Reserved, ledger.Started, ledger.Follower:
	}
	if !allowed {
		h.rt.Fatalf("the call was %s and is %s after %d undos", was.State(), is.State(), is.Undo.N)
	}
	h.was = now
}

// ended checks the records of the undos that have ended: nothing can run under
// them any more, and the call says of the last one what its own record says.
func (h *undoHistory) ended(t *testing.T, now ledger.Record) {
	t.Helper()
	for n := 1; n <= now.Undo.N; n++ {
		if n == now.Undo.N && now.Flags.Has(ledger.UndoOpen) {
			continue
		}
		own := h.load(t, now.Key.Undo(n))
		if final := own.Status == ledger.Completed || own.Status == ledger.Failed && !own.Flags.Has(ledger.Retryable); !final {
			h.rt.Fatalf("undo %d has ended, and its own record is %s", n, own.State())
		}
		denied := own.Flags.Has(ledger.Contradicted) || own.Flags.Has(ledger.Acknowledged)
		undone := now.Status == ledger.Compensated
		if n == now.Undo.N && !denied && undone != (own.Effect() == ledger.Happened) {
			h.rt.Fatalf("the call is %s, and its undo is %s", now.State(), own.State())
		}
	}
}

// settle lets whoever looks after the call do so undisturbed: an undo stays open
// only while somebody has to look at it, and no run sleeps on a settled call.
func (h *undoHistory) settle(t *testing.T) {
	t.Helper()
	h.bank.void, h.bank.voided, h.functions.lose = nil, nil, nil
	h.now = h.now.Add(time.Hour)
	for range 24 { // the rest of the faults are met here
		for n := range h.was.Undo.N + 1 {
			key := h.was.Key
			if n > 0 {
				key = key.Undo(n)
			}
			_, _ = h.service.Tend(t.Context(), key)
			_, _ = h.store.History(t.Context(), key)
		}
	}
	h.check(t)
	if _, err := h.service.Tend(t.Context(), h.was.Key); err != nil && h.store.Armed() == 0 {
		h.rt.Fatal(err)
	}
	h.check(t)
	if h.store.Armed() > 0 {
		return // a fault that nothing has met might have hidden anything
	}
	own := h.load(t, h.was.Key.Undo(max(h.was.Undo.N, 1)))
	if h.was.Flags.Has(ledger.UndoOpen) && own.Status != ledger.Indeterminate && !own.Flags.Has(ledger.Contradicted) {
		h.rt.Fatalf("the call is %s for ever: its undo is %s", h.was.State(), own.State())
	}
	if parked := h.was.Next(h.now, false, ledger.Pause) == ledger.Park; !parked && !h.waits(t, h.was)[0].Rung() {
		h.rt.Fatalf("a run sleeps on a call that is %s", h.was.State())
	}
	for name, id := range h.told {
		key, _ := ledger.ParseKey(name[len("ada/") : len(name)-len(name[lastSlash(name):])])
		if !slices.ContainsFunc(h.history(t, key), func(e ledger.Entry) bool { return e.ID == id }) {
			h.rt.Fatalf("%s was told of a decision that is not there", name)
		}
	}
}

func lastSlash(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '/' {
			return i
		}
	}
	return 0
}
