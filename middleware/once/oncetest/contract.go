package oncetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// mostPlaces bounds at how many of a call's writes the faults are tried.
const mostPlaces = 5

// AssertContract makes one call of the tool that build makes, with example as
// its input, under every fault of a [Receiver] but [Hang], at each of its writes,
// with and without a repeat, and closes it. It fails t if the tool breaks what
// the guard relies on. That is so if the tool can't be bound, which covers a
// write-like tool with more than one attempt; if it, or its look-up, says that
// nothing took effect where an effect stands, or that it took effect where none
// does; if it sends a write without the call's key, or with one that changes with
// the clock; if it sends the same write twice in one attempt, as a client that
// retries does; if its look-up, or a repeat, writes; if it is a Read and writes;
// or if it sends nothing that could be checked. What is safe but unhelpful, such
// as a definite refusal that stays unknown, is only logged.
//
// Of a tool that can undo, the same is asked of Compensate: it undoes a call that
// completed and one that nobody knows of, under each fault at each of its writes,
// with repeats, and must send the undo's own key. It must not undo what a person
// who settled the call has typed as its external id.
//
// The caller has the tool's Permission, and no approval is asked for. Put it in
// an ordinary test, so that CI runs it.
func AssertContract[In, Out any](t testing.TB, build func(*Receiver) once.Tool[In, Out], example In) {
	t.Helper()
	tool := build(NewReceiver(t))
	if _, err := once.Bind(NewGuard(t), tool); err != nil {
		t.Errorf("the tool can't be guarded: %v", err)
		return
	}
	c := contract[In, Out]{build: build, example: example, verdict: &verdict{tool: tool.Name, said: map[string]bool{}}}
	clean, ok := c.play(t, 0, 1, false)
	switch {
	case !ok:
	case tool.Class == once.Read && clean.writes > 0:
		t.Errorf("%s: is a %s and sent %d writes", tool.Name, tool.Class, clean.writes)
	case tool.Class == once.Read:
	case clean.writes == 0:
		t.Errorf("%s: no write reached the receiver, so nothing was checked; is the example refused? The call was %s", tool.Name, clean.why())
	default:
		c.playFaults(t, min(clean.writes, mostPlaces))
		c.steadyKey(t)
		if tool.Compensate != nil {
			c.playUndos(t)
		}
	}
}

// contract is one tool and what it is called with.
type contract[In, Out any] struct {
	build   func(*Receiver) once.Tool[In, Out]
	example In
	*verdict
}

func (c contract[In, Out]) playFaults(t testing.TB, places int) {
	t.Helper()
	c.play(t, 0, 1, true)
	for _, fault := range triedFaults {
		for place := range places {
			for _, repeat := range []bool{false, true} {
				c.play(t, fault, place+1, repeat)
			}
		}
	}
}

// triedFaults are what a contract is checked under; a test must not wait for [Hang].
var triedFaults = []Fault{LoseAnswer, DropRequest, Refuse, FailAfter}

// played is how a call went, for who wants to know why nothing was sent.
type played struct {
	writes int
	report once.Report
	cause  error
}

func (p played) why() string {
	words := string(p.report.Status)
	if p.report.Code != "" {
		words += ", " + p.report.Code + ": " + p.report.Message
	}
	if p.cause != nil {
		words += "; the tool's own error: " + p.cause.Error()
	}
	return words
}

// play makes the call under one fault at one of its writes, repeats it if asked
// to, now and once its settle delay is over, closes it, and judges every answer
// by what the receiver counts. ok is false if it could not be made.
func (c contract[In, Out]) play(t testing.TB, fault Fault, place int, repeat bool) (p played, ok bool) {
	t.Helper()
	s, ok := stageOf(t, c.build, 0)
	if !ok {
		return played{}, false
	}
	name := s.strike(fault, place)
	out := s.bound.Do(t.Context(), s.req, c.example)
	sent := s.receiver.sent()
	p = played{writes: len(sent), report: out.Report, cause: s.cause}
	if s.tool.Class == once.Read || len(sent) == 0 {
		return p, true
	}
	c.writes(t, name, s.req.Key(), "call", sent)
	c.judge(t, name, fault, out.Report, s.receiver.Effects(), byRun)
	by := byRun
	if repeat {
		by = c.repeat(t, name, fault, out.Report, s)
	}
	c.judge(t, name, fault, s.bound.Close(t.Context(), s.req).Report, s.receiver.Effects(), by)
	if more := len(s.receiver.sent()) - len(sent); more > 0 {
		c.fail(t, "%s: a repeat, or the look-up that it asks, sent %d more writes: a look-up must only read", name, more)
	}
	return p, true
}

// repeat asks again, at once and when a look-up that finds nothing can be proof,
// and returns whose word stands then.
func (c contract[In, Out]) repeat(t testing.TB, name string, fault Fault, before once.Report, s *stage[In, Out]) speaker {
	t.Helper()
	by := byRun // what it said before is answered again
	for _, later := range []bool{false, true} {
		if later {
			s.clock.pass(s.quiet())
		}
		s.cause = nil
		out := s.bound.Do(t.Context(), s.req, c.example)
		if before.Status == once.Indeterminate {
			by = byReconcile
		}
		if s.cause != nil && strings.Contains(s.cause.Error(), "a look-up must not write") {
			c.fail(t, "%s: Reconcile tries to write, which once.Transport refused: a look-up must only read", name)
		}
		c.judge(t, name, fault, out.Report, s.receiver.Effects(), by)
		before = out.Report
	}
	if s.tool.Reconcile != nil && before.Status == once.Indeterminate && s.receiver.Effects() > 0 {
		c.note(t, "%s: an effect stands and the look-up does not find it, so a person has to", name)
	}
	return by
}

// writes checks what one attempt sent: whose says what key belongs to.
func (c contract[In, Out]) writes(t testing.TB, name string, key ledger.Key, whose string, writes []seenWrite) {
	t.Helper()
	times := map[string]int{}
	for _, w := range writes {
		times[w.what]++
		if times[w.what] == 2 {
			c.fail(t, "%s: one attempt sent the same write more than once; is a client retrying?", name)
		}
		if !strings.Contains(w.all, key.String()) && !strings.Contains(w.all, key.Short()) {
			c.fail(t, "%s: a write was sent without the %s's key; use once.Transport, or once.CallFrom", name, whose)
		}
	}
}

// steadyKey makes the same call on two ledgers a year apart and compares the
// keys that the receiver saw.
func (c contract[In, Out]) steadyKey(t testing.TB) {
	t.Helper()
	var seen [][]string
	for _, later := range []int{0, 365} {
		s, ok := stageOf(t, c.build, later)
		if !ok {
			return
		}
		s.bound.Do(t.Context(), s.req, c.example)
		seen = append(seen, s.receiver.Keys())
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
