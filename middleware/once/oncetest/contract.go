package oncetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// AssertContract makes one call of the tool that build makes, with example as
// its input, under every fault of a [Receiver] but [Hang], twice each, and fails
// t if the tool breaks what the guard relies on: it can't be bound, which
// covers a write-like tool with more than one attempt; it sends a write without
// the call's key, or with one that changes with the clock; it sends the same
// write twice in one attempt, as a client that retries does; its look-up, or a
// repeat, writes; it is a Read and writes; or it sends nothing that could be
// checked. Put it in an ordinary test, so that CI runs it.
func AssertContract[In, Out any](t testing.TB, build func(*Receiver) once.Tool[In, Out], example In) {
	t.Helper()
	tool := build(NewReceiver(t))
	if _, err := once.Bind(NewGuard(t), tool); err != nil {
		t.Errorf("the tool can't be guarded: %v", err)
		return
	}
	sent := 0
	for _, fault := range []Fault{0, LoseAnswer, DropRequest, Refuse, FailAfter} {
		sent += tryContract(t, build, example, fault)
	}
	switch {
	case tool.Class == once.Read && sent > 0:
		t.Errorf("%s: is a %s and sent %d writes", tool.Name, tool.Class, sent)
	case tool.Class != once.Read && sent == 0:
		t.Errorf("%s: no write reached the receiver, so nothing was checked; is the example refused?", tool.Name)
	case tool.Class != once.Read:
		assertSteadyKey(t, build, example)
	}
}

// tryContract calls twice under one fault and returns how many writes were sent.
func tryContract[In, Out any](t testing.TB, build func(*Receiver) once.Tool[In, Out], example In, fault Fault) int {
	t.Helper()
	r := NewReceiver(t)
	if fault != 0 {
		r.Next(fault)
	}
	tool := build(r)
	bound, err := once.Bind(NewGuard(t), tool)
	if err != nil {
		t.Errorf("%s: %v", fault, err)
		return 0
	}
	req := NewRequest(t)
	bound.Do(t.Context(), req, example)
	first := r.sent()
	if tool.Class != once.Read {
		assertWrites(t, tool.Name, fault, req, first)
	}
	bound.Do(t.Context(), req, example)
	if all := r.sent(); tool.Class != once.Read && len(all) > len(first) {
		t.Errorf("%s: %s: a repeat, or the look-up that it asks, sent %d more writes", tool.Name, fault, len(all)-len(first))
	}
	return len(first)
}

// assertWrites checks what one attempt sent.
func assertWrites(t testing.TB, name string, fault Fault, req once.Request, writes []seenWrite) {
	t.Helper()
	times := map[string]int{}
	for _, w := range writes {
		times[w.what]++
		if times[w.what] == 2 {
			t.Errorf("%s: %s: one attempt sent the same write more than once; is a client retrying?", name, fault)
		}
		if !strings.Contains(w.all, req.Key().String()) && !strings.Contains(w.all, req.Key().Short()) {
			t.Errorf("%s: %s: a write was sent without the call's key; use once.Transport, or once.CallFrom", name, fault)
		}
	}
}

// assertSteadyKey makes the same call on two ledgers a year apart and compares
// the keys that the receiver saw.
func assertSteadyKey[In, Out any](t testing.TB, build func(*Receiver) once.Tool[In, Out], example In) {
	t.Helper()
	var seen [][]string
	for _, later := range []time.Duration{0, 365 * 24 * time.Hour} {
		store, err := memledger.New()
		if err != nil {
			t.Errorf("oncetest: %v", err)
			return
		}
		clock := func() time.Time { return time.Now().Add(later) }
		guard, err := once.New(store, &once.Options{Clock: clock})
		if err != nil {
			t.Errorf("oncetest: %v", err)
			return
		}
		r := NewReceiver(t)
		tool := build(r)
		bound, err := once.Bind(guard, tool)
		if err != nil {
			t.Errorf("%s: %v", tool.Name, err)
			return
		}
		bound.Do(t.Context(), NewRequest(t), example)
		seen = append(seen, r.Keys())
	}
	if !slices.Equal(seen[0], seen[1]) {
		t.Errorf("the same call sent the keys %q and, a year later, %q; a key must not depend on the clock or on chance", seen[0], seen[1])
	}
}

func (r *Receiver) sent() []seenWrite {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.writes)
}
