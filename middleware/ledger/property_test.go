package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A world is one call, everybody who may touch it, and a receiver that counts.
// Every write is a request that may land at once, late or never. Executors send
// nothing after their deadline; persons say what they like.
type world struct {
	now       time.Time
	record    Record
	inFlight  []Move
	executors []*executor
	writes    int
	effects   int
	starts    int
	grants    int
	told      bool // somebody was told that it certainly did nothing
	grantsAt  int  // grants when that was told
	persons   bool // a person has said failed
}

type executor struct {
	token    AttemptToken
	attempt  int
	deadline time.Time
	base     Record
	running  bool
	sent     bool
}

func (w *world) stamp() Stamp {
	w.writes++
	return Stamp{At: w.now, WriteID: fmt.Sprintf("w%d", w.writes)}
}

// write lets a move land, or keeps it on its way. It reports whether its sender
// knows that it was stored.
func (w *world) write(t *rapid.T, m Move) bool {
	switch rapid.SampledFrom([]string{"answered", "answered", "answer lost", "delayed"}).Draw(t, "write") {
	case "answered":
		return w.land(t, m)
	case "answer lost":
		w.land(t, m)
	case "delayed":
		w.inFlight = append(w.inFlight, m)
	}
	return false
}

func (w *world) land(t *rapid.T, m Move) bool {
	before := w.record
	after, err := m.On(before)
	if err != nil {
		return m.StoredIn(before)
	}
	w.record = after
	w.check(t, before, after, m)
	return true
}

func (w *world) check(t *rapid.T, before, after Record, m Move) {
	if after.Status == Started && before.Status != Started {
		w.starts++
		if before.Status == Indeterminate {
			t.Fatalf("I3: an unknown call was started again by %s", m.Event())
		}
		if w.told && w.grants == w.grantsAt {
			t.Fatalf("I11: started after somebody was told that it did nothing")
		}
	}
	if m.Event() == ResolveRetry || m.Event() == Approve {
		w.grants++
	}
	settled := func(s Status) bool { return s == Completed || s == Failed || s == Compensated }
	if settled(before.Status) && before.Status != after.Status && after.Status != Compensated && (!before.Flags.Has(Retryable) || after.Status != Started) {
		t.Fatalf("I2: %s became %s", before.State(), after.State())
	}
	if wantVersion := before.Version + 1; !m.NotesOnly() && after.Version != wantVersion && before.Exists() {
		t.Fatalf("version %d after %d", after.Version, before.Version)
	}
}

func (w *world) invoke(t *rapid.T) {
	x := &executor{token: AttemptToken(fmt.Sprintf("t%d", len(w.executors))), attempt: rapid.IntRange(1, 3).Draw(t, "attempt"), deadline: w.now.Add(10 * time.Second)}
	s := w.stamp()
	m, err := w.record.Start(s, Call{Key: storyKey, Tool: "t", Fingerprint: "f"}, Executor{Token: x.token, Attempt: x.attempt, Deadline: x.deadline, QuietAfter: x.deadline.Add(5 * time.Second), RequestID: "r"})
	if err != nil {
		return
	}
	if w.write(t, m) && w.record.LastWrite == s.WriteID {
		x.base, x.running = w.record, true
		w.executors = append(w.executors, x)
	}
}

func (w *world) send(t *rapid.T) {
	if x := w.pick(t, func(x *executor) bool { return x.running && !x.sent && !w.now.After(x.deadline) }); x != nil {
		x.sent = true
		w.effects++
		if w.effects > w.starts {
			t.Fatalf("I1: %d effects from %d starts", w.effects, w.starts)
		}
	}
}

func (w *world) settle(t *rapid.T) {
	x := w.pick(t, func(x *executor) bool { return x.running })
	if x == nil {
		return
	}
	what := Settlement{Effect: Unknown}
	switch {
	case x.sent && rapid.Bool().Draw(t, "knows"):
		what.Effect = Happened
	case !x.sent:
		what = Settlement{Effect: NoEffect, Retryable: rapid.Bool().Draw(t, "retryable")}
		x.running = false // nothing will be sent
	}
	for _, r := range []Record{x.base, w.record} {
		if m, err := r.Settle(w.stamp(), x.token, what); err == nil && w.write(t, m) {
			x.running = what.Effect == Unknown
			return
		}
	}
}

func (w *world) pick(t *rapid.T, want func(*executor) bool) *executor {
	all := slices.DeleteFunc(slices.Clone(w.executors), func(x *executor) bool { return !want(x) })
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(t, "executor")
}

func (w *world) person(t *rapid.T) {
	d := Decision{ID: w.stamp().WriteID, Actor: "ada", Reason: "looked", Version: w.record.Version}
	what := rapid.SampledFrom([]Settlement{{Effect: Happened}, {Effect: NoEffect}, {Effect: NoEffect, Retryable: true}}).Draw(t, "word")
	m, err := w.record.Resolve(w.stamp(), d, what)
	if rapid.IntRange(0, 3).Draw(t, "verb") == 0 {
		m, err = w.record.Withdraw(w.stamp(), d)
	}
	if err == nil {
		w.persons = w.persons || what.Effect == NoEffect
		w.write(t, m)
	}
}

// tell does what a planner does before a model hears that nothing happened.
func (w *world) tell(t *rapid.T) {
	if m, err := w.record.Close(w.stamp(), storyKey, Settler{Kind: ByPlanner}); err == nil && !w.write(t, m) {
		return
	}
	if w.record.Status != Failed || w.record.Flags.Has(Retryable) || w.record.Effect() != NoEffect {
		return
	}
	if w.effects > 0 && !w.persons {
		t.Fatalf("told that nothing happened, and %d effects stand", w.effects)
	}
	w.told, w.grantsAt = true, w.grants
}

func (w *world) look(t *rapid.T) {
	began := w.now
	what := Settlement{Effect: NoEffect}
	if w.effects > 0 {
		what.Effect = Happened
	}
	if m, err := w.record.Look(w.stamp(), began, true, what); err == nil {
		w.write(t, m)
	}
}

// Proves: R23, R29, R44, R107
func TestNothingRunsTwiceWhateverLandsLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{now: storyBegan}
		t.Repeat(map[string]func(*rapid.T){
			"invoke": w.invoke,
			"send":   w.send,
			"settle": w.settle,
			"person": w.person,
			"tell":   w.tell,
			"look":   w.look,
			"orphan": func(t *rapid.T) {
				if m, err := w.record.Orphan(w.stamp()); err == nil {
					w.write(t, m)
				}
			},
			"time": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 12).Draw(t, "seconds")) * time.Second)
			},
			"land": func(t *rapid.T) {
				if n := len(w.inFlight); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "which")
					m := w.inFlight[i]
					w.inFlight = slices.Delete(w.inFlight, i, i+1)
					w.land(t, m)
				}
			},
		})
	})
}
