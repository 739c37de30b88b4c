package memledger_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

var (
	noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	key  = ledger.Key{RunID: "run-1", CallID: "call-1"}
)

func stamp() ledger.Stamp { return ledger.Stamp{At: noon, WriteID: rand.Text()} }

func must(t *testing.T, m ledger.Move, err error) ledger.Move {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func start(t *testing.T) ledger.Move {
	t.Helper()
	x := ledger.Executor{Token: ledger.AttemptToken(rand.Text()), Attempt: 1, Deadline: noon.Add(time.Minute), QuietAfter: noon.Add(2 * time.Minute)}
	m, err := ledger.Record{}.Start(stamp(), ledger.Call{Key: key, Tool: "issue_credit"}, x)
	return must(t, m, err)
}

func complete(t *testing.T, r ledger.Record, result []byte) ledger.Move {
	t.Helper()
	m, err := r.Settle(stamp(), r.Attempt.Token, ledger.Settlement{Effect: ledger.Happened, Result: result})
	return must(t, m, err)
}

func apply(t *testing.T, s ledger.Store, m ledger.Move) ledger.Record {
	t.Helper()
	r, err := s.Apply(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each durable step of a call fails in each way, and the store holds what the
// fault says and answers what it says.
//
// Proves: R150
func TestFaultIsTwoSided(t *testing.T) {
	t.Parallel()
	for _, event := range []ledger.Event{ledger.Start, ledger.Complete} {
		for _, persist := range []bool{true, false} {
			for _, answer := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s persisted %t answered %t", event, persist, answer), func(t *testing.T) {
					t.Parallel()
					s := newStore(t)
					before, m := ledger.Record{}, start(t)
					if event == ledger.Complete {
						before = apply(t, s, m)
						m = complete(t, before, nil)
					}
					s.Arm(memledger.Fault{Op: memledger.Apply, Event: event, Persist: persist, Answer: answer})
					_, err := s.Apply(t.Context(), m)
					if want := faultError(persist, answer); !errors.Is(err, want) {
						t.Errorf("got error %v, want %v", err, want)
					}
					after, err := s.Load(t.Context(), key)
					if err != nil {
						t.Fatal(err)
					}
					if stored := after.Version > before.Version; stored != persist {
						t.Errorf("stored %t, want %t", stored, persist)
					}
					if s.Armed() != 0 {
						t.Error("the fault is still armed")
					}
				})
			}
		}
	}
}

func faultError(persist, answer bool) error {
	switch {
	case !answer:
		return memledger.ErrAnswerLost
	case !persist:
		return memledger.ErrRefused
	}
	return nil
}

func TestRetryAfterALostAnswerMeetsItsOwnWrite(t *testing.T) {
	t.Parallel()
	for _, persist := range []bool{true, false} {
		s := newStore(t)
		s.Arm(memledger.Fault{Op: memledger.Apply, Persist: persist, Retry: true})
		r := apply(t, s, start(t))
		if r.Status != ledger.Started || r.Version != 1 {
			t.Errorf("persisted %t: it is %s at version %d", persist, r.State(), r.Version)
		}
		if log := s.Log(); len(log) != 2 || log[0].Answered || !log[1].Answered {
			t.Errorf("persisted %t: the log holds %+v, want a lost try and a heard one", persist, log)
		}
	}
}

// Between a start's two tries somebody orphans and settles the call: the second
// try meets its own write and must not take it for a right to run.
//
// Proves: R109
func TestStartSettledBetweenItsTriesIsRefused(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.Arm(memledger.Fault{Op: memledger.Apply, Event: ledger.Start, Persist: true, Retry: true})
	s.OnMoment(func(m memledger.Moment) {
		if m.When != "between" {
			return
		}
		r, err := s.Load(context.WithoutCancel(t.Context()), key)
		if err != nil {
			t.Error(err)
			return
		}
		late := ledger.Stamp{At: noon.Add(time.Hour), WriteID: "orphan"}
		orphan, err := r.Orphan(late)
		r = apply(t, s, must(t, orphan, err))
		resolve, err := r.Resolve(ledger.Stamp{At: late.At, WriteID: "resolve"}, ledger.Decision{ID: "d-1", Actor: "ann", Reason: "looked", Version: r.Version}, ledger.Settlement{Effect: ledger.NoEffect})
		apply(t, s, must(t, resolve, err))
	})
	r, err := s.Apply(t.Context(), start(t))
	if !errors.Is(err, ledger.ErrStale) || r.Status != ledger.Failed {
		t.Errorf("got %s, %v, want the failed record and ErrStale", r.State(), err)
	}
}

func TestFaultHitsTheNthRequestOfItsKind(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	if _, err := s.Load(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	s.Arm(memledger.Fault{Op: memledger.Load, Nth: 2}, memledger.Fault{Op: memledger.Load, Nth: 4, Answer: true})
	for i, want := range []error{nil, memledger.ErrAnswerLost, nil, memledger.ErrRefused, nil} {
		if _, err := s.Load(t.Context(), key); !errors.Is(err, want) {
			t.Errorf("load %d: got %v, want %v", i+1, err, want)
		}
	}
}

func TestResultThatCantBeStoredLeavesTheCallCompleted(t *testing.T) {
	t.Parallel()
	for _, f := range []memledger.Fault{{}, {Persist: true}, {Answer: true}} {
		s := newStore(t)
		r := apply(t, s, start(t))
		f.Op = memledger.KeepResult
		s.Arm(f)
		r = apply(t, s, complete(t, r, make([]byte, 1000)))
		if r.Status != ledger.Completed || !r.Outcome.Ref.NotKept {
			t.Errorf("%+v: it is %s, outcome %+v", f, r.State(), r.Outcome.Ref)
		}
		if _, err := s.Result(t.Context(), r); !errors.Is(err, ledger.ErrNotKept) {
			t.Errorf("%+v: result: %v, want ErrNotKept", f, err)
		}
	}
}

func TestHookSeesEachRequestBeforeAndAfterItsWrite(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var seen []string
	s.OnMoment(func(m memledger.Moment) {
		if m.Step.Op != memledger.Apply {
			return
		}
		r, err := s.Load(t.Context(), m.Step.Key)
		if err != nil {
			t.Error(err)
		}
		seen = append(seen, fmt.Sprintf("%s %s: %s", m.When, m.Step.Event, r.Status))
	})
	r := apply(t, s, start(t))
	apply(t, s, complete(t, r, nil))
	want := "[before start: none after start: started before complete: started after complete: completed]"
	if got := fmt.Sprint(seen); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCancelledRequestIsNotSent(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Apply(ctx, start(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if r, err := s.Load(t.Context(), key); err != nil || r.Exists() {
		t.Errorf("something was stored: %v, %v", r.State(), err)
	}
}

func TestChangingWhatTheStoreReturnedChangesNothingStored(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r := apply(t, s, complete(t, apply(t, s, start(t)), []byte(`"kept"`)))
	r.Outcome.Result[1] = 'X'
	got, err := s.Load(t.Context(), key)
	if err != nil || string(got.Outcome.Result) != `"kept"` {
		t.Errorf("stored result is %s, %v", got.Outcome.Result, err)
	}
}
