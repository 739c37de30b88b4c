package sweeper_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/executions/memexecutions"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

// inWorld runs a test in a world of its own, and a time of its own.
func inWorld(t *testing.T, name string, do func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { do(newWorld(t)) })
	})
}

func (w *world) wantTidy() {
	w.t.Helper()
	if diff := cmp.Diff(tidy(), w.outcome()); diff != "" {
		w.t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

var quiet = slog.New(slog.DiscardHandler)

// Proves: R29, R96, R119
func TestSweepsDoWhatNobodyIsLeftToDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log bytes.Buffer
		s := w.sweeper(slog.New(slog.NewJSONHandler(&log, nil)))
		report, err := w.sweep(s)
		if err != nil || !report.Complete || report.Calls.Failed+report.Runs.Failed != 0 {
			t.Fatalf("%v; %+v\n%s", err, report, log.String())
		}
		// Untold, awaited, contradicts, and overdue, which is looked up next.
		c := report.Calls
		if c.Orphaned != 1 || c.Expired != 1 || c.UndoInvoked != 1 || c.UndoClosed != 2 || c.InFlight != 1 || c.NeedSomebody < 3 || report.Runs.Started != 1 || report.Runs.WithoutDriver != 1 {
			t.Errorf("%+v", report)
		}
		w.settle()
		w.wantTidy()
		before := len(durable(w.store.Log()))
		if report, err = w.sweep(s); err != nil || !report.Complete {
			t.Fatalf("%v; %+v", err, report)
		}
		if wrote := durable(w.store.Log())[before:]; len(wrote) != 0 {
			t.Errorf("a sweep with nothing to do writes: %v", wrote)
		}
		if strings.Contains(log.String(), canary) {
			t.Errorf("a secret is told:\n%s", log.String())
		}
	})
}

// step names a kind of durable write.
type step struct {
	Op    memledger.Op
	Event ledger.Event
}

func durable(log []memledger.Step) (steps []step) {
	for _, s := range log {
		if s.Op.Durable() {
			steps = append(steps, step{s.Op, s.Event})
		}
	}
	return steps
}

// calm counts what sweeps write when nothing fails, by its kind, and what else
// they ask for.
func calm(t *testing.T) (writes map[step]int, rings int, requests map[memexecutions.Op]int) {
	t.Helper()
	writes, requests = make(map[step]int), make(map[memexecutions.Op]int)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		before, asked := len(durable(w.store.Log())), len(w.machine.Requests())
		w.settle()
		w.wantTidy()
		for _, s := range durable(w.store.Log())[before:] {
			writes[s]++
		}
		for _, op := range w.machine.Requests()[asked:] {
			requests[op]++
		}
		rings = w.rings
	})
	return writes, rings, requests
}

// Each write that sweeps and the tools they ask make is stored or not, and
// answered or not; the next sweeps leave everything as it would have been.
// Proves: R29, R116
func TestFailureOfAnyWriteLeavesNothingForAPerson(t *testing.T) {
	t.Parallel()
	writes, _, _ := calm(t)
	for _, must := range []step{
		{memledger.Apply, ledger.Orphan},
		{memledger.Apply, ledger.Expire},
		{memledger.Apply, ledger.Find},
		{memledger.Apply, ledger.Start},
		{memledger.Apply, ledger.UndoComplete},
		{memledger.ConfirmWait, ""},
	} {
		if writes[must] == 0 {
			t.Errorf("nothing is written by %v; there is %v", must, writes)
		}
	}
	for s, n := range writes {
		for nth := 1; nth <= n; nth++ {
			for what, fault := range map[string]memledger.Fault{
				"stored, no answer":     {Persist: true},
				"not stored, no answer": {},
				"refused":               {Answer: true},
				"stored twice":          {Persist: true, Retry: true},
			} {
				fault.Op, fault.Event, fault.Nth = s.Op, s.Event, nth
				inWorld(t, fmt.Sprintf("%s %s %d: %s", s.Op, s.Event, nth, what), func(w *world) {
					w.store.Arm(fault)
					w.settle()
					w.settle()
					if w.store.Armed() != 0 {
						w.t.Error("the fault did not strike")
					}
					w.wantTidy()
				})
			}
		}
	}
}

func TestLossOfAnyBellOrStartLeavesNobodyAsleep(t *testing.T) {
	t.Parallel()
	_, rings, requests := calm(t)
	if rings < 5 || requests[memexecutions.Start] != 1 || requests[memexecutions.State] < 3 {
		t.Fatalf("%d rings, %v", rings, requests)
	}
	for _, late := range []bool{false, true} {
		for nth := 1; nth <= rings; nth++ {
			inWorld(t, fmt.Sprintf("ring %d, taken %t", nth, late), func(w *world) {
				w.loseRing, w.lateRing = nth, late
				w.settle()
				w.wantTidy()
			})
		}
		for op, n := range requests {
			for nth := 1; nth <= n; nth++ {
				inWorld(t, fmt.Sprintf("%s %d, done %t", op, nth, late), func(w *world) {
					w.machine.Lose(op, nth, late)
					w.settle()
					w.wantTidy()
				})
			}
		}
	}
}

// A whole sweep lies before or after each request of another one.
func TestSweepWithinASweepDoesNoHarm(t *testing.T) {
	t.Parallel()
	moments := 0
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.store.OnMoment(func(memledger.Moment) { w.count(&moments) })
		w.settle()
	})
	if moments < 100 {
		t.Fatalf("%d moments", moments)
	}
	for nth := 1; nth <= moments; nth++ {
		inWorld(t, fmt.Sprint("moment ", nth), func(w *world) {
			other, n := w.sweeper(quiet), 0
			w.store.OnMoment(func(memledger.Moment) {
				if w.count(&n) == nth {
					if _, err := w.sweep(other); err != nil {
						w.t.Error(err)
					}
				}
			})
			w.settle()
			if n < nth {
				w.t.Errorf("there were %d moments", n)
			}
			w.wantTidy()
		})
	}
}

func (w *world) count(n *int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	*n++
	return *n
}

func TestManySweepersAtOnceDoNoHarm(t *testing.T) {
	t.Parallel()
	for seed := range 20 {
		inWorld(t, fmt.Sprint("round ", seed), func(w *world) {
			var group sync.WaitGroup
			for range 4 {
				s := w.sweeper(quiet)
				group.Go(func() {
					if report, err := w.sweep(s); err != nil || !report.Complete {
						w.t.Errorf("%v; %+v", err, report)
					}
				})
			}
			group.Wait()
			w.settle()
			w.wantTidy()
		})
	}
}
