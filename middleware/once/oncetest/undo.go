package oncetest

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// playUndos undoes a call that completed under every fault at each of the undo's
// writes, and calls that nobody knows of: one that took effect, one that did not;
// and these once more after a person has settled them wrongly.
func (c contract[In, Out]) playUndos(t testing.TB) {
	t.Helper()
	clean, ok := c.playUndo(t, 0, 0, 1)
	if !ok {
		return
	}
	if clean.writes == 0 {
		t.Errorf("%s: Compensate sent no write, so nothing was checked. The undo was %s", c.tool, clean.why())
		return
	}
	for _, fault := range triedFaults {
		for place := range min(clean.writes, mostPlaces) {
			c.playUndo(t, 0, fault, place+1)
		}
	}
	for _, before := range []Fault{LoseAnswer, DropRequest} {
		c.playUndo(t, before, 0, 1)
		c.playTyped(t, before)
	}
}

// typed is an external id that no receiver has given.
const typed = "typed-by-a-person"

// playTyped undoes a call that a person has settled by an id with a typing error
// in it: somebody else's effect may have that id, so no write may name it.
func (c contract[In, Out]) playTyped(t testing.TB, before Fault) {
	t.Helper()
	s, ok := stageOf(t, c.build, 0)
	if !ok {
		return
	}
	s.strike(before, 1)
	s.bound.Do(t.Context(), s.req, c.example)
	s.clock.pass(s.quiet())
	if !s.settleAs(t.Context(), typed) {
		return // it is known, and so its id is the tool's own word
	}
	undo, ok := s.askUndo(t.Context())
	if !ok {
		return
	}
	earlier := len(s.receiver.sent())
	s.bound.Compensate(t.Context(), undo, c.example)
	for _, w := range s.receiver.sent()[earlier:] {
		if strings.Contains(w.all, typed) {
			c.fail(t, "undo of a call that a person has settled: a write names the external id that the person typed, which may be somebody else's: Compensate has to look up by rec.Key what it undoes")
		}
	}
}

// playUndo makes the call under the fault before, undoes it under another one,
// repeats the undo, now and later, and closes it, and judges every answer by what
// the receiver counts. ok is false if there was nothing to undo.
func (c contract[In, Out]) playUndo(t testing.TB, before, fault Fault, place int) (p played, ok bool) {
	t.Helper()
	s, ok := stageOf(t, c.build, 0)
	if !ok {
		return played{}, false
	}
	s.strike(before, 1)
	s.bound.Do(t.Context(), s.req, c.example)
	s.clock.pass(s.quiet()) // no request of it travels any more
	undo, ok := s.askUndo(t.Context())
	if !ok {
		c.note(t, "%s: the call did not end so that it could be undone", before)
		return played{}, false
	}
	effects, earlier := s.receiver.Effects(), len(s.receiver.sent())
	name := "undo, " + s.strike(fault, place)
	if before != 0 {
		name = "undo of an unknown call, whose " + before.String()
	}
	s.cause = nil
	first := s.bound.Compensate(t.Context(), undo, c.example)
	sent := s.receiver.sent()[earlier:]
	c.writes(t, name, undo.Key(), "undo", sent)
	c.judgeUndo(t, name, fault, first, s.receiver.Effects()-effects)
	if before == 0 && fault == 0 && first.Status != once.Completed {
		c.note(t, "%s: the receiver answered and the undo is %s, %s", name, first.Status, first.Code)
	}
	if before == LoseAnswer && first.Effect == ledger.NoEffect {
		c.note(t, "%s: an effect stands and Compensate does not find it, so a person has to", name)
	}
	p = played{writes: len(sent), report: first, cause: s.cause}
	c.repeatUndo(t, name, s, undo, first)
	c.judgeUndo(t, name, fault, s.bound.Close(t.Context(), undo).Report, s.receiver.Effects()-effects)
	if more := len(s.receiver.sent()) - earlier - len(sent); more > 0 {
		c.fail(t, "%s: repeats of the undo sent %d more writes", name, more)
	}
	return p, true
}

// repeatUndo asks again, at once and later: the ledger answers, and the same.
func (c contract[In, Out]) repeatUndo(t testing.TB, name string, s *stage[In, Out], undo once.Request, first once.Report) {
	t.Helper()
	for range 2 {
		if r := s.bound.Compensate(t.Context(), undo, c.example); r.Status != first.Status || !r.Replayed {
			c.fail(t, "%s: the undo was %s, and a repeat of it %s", name, first.Status, r.Status)
		}
		s.clock.pass(s.quiet())
	}
}

// judgeUndo compares an undo's answer with the effects that came of it.
func (v *verdict) judgeUndo(t testing.TB, name string, fault Fault, r once.Report, effects int) {
	t.Helper()
	switch {
	case r.Effect == ledger.NoEffect && effects > 0:
		word := "NotAttempted although the request may have left"
		if r.Code == "rejected" {
			word = "Rejected although the receiver did not refuse all of it for good"
		}
		v.fail(t, "%s: the outcome says effect none, and the undo took effect: Compensate returns %s", name, word)
	case r.Effect == ledger.Happened && effects == 0:
		v.fail(t, "%s: the outcome says completed, and nothing was undone: Compensate returns nil or Landed; does it swallow an error, or call it done where there is nothing to undo?", name)
	case r.Effect == ledger.Unknown && fault == Refuse && effects == 0:
		v.note(t, "%s: a definite refusal (422) stays unknown, so a person has to look; return once.Rejected for what the receiver refuses for good", name)
	}
}
