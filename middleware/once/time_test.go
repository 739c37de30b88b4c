package once_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

func TestTooLittleTimeIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, left := range []time.Duration{0, -time.Second, 11900 * time.Millisecond} {
			store, b := newStore(t), &bank{}
			ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(left))
			out := bind(t, newGuard(t, store), b.tool()).Do(ctx, call1, five)
			cancel()
			want(t, out.Report, once.Refused, ledger.NoEffect, ledger.Again, "too_little_time")
			if out.RetryAfter == 0 || b.runs.Load() != 0 || record(t, store, call1.Key()).Exists() {
				t.Errorf("%v left: %+v", left, out.Report)
			}
		}
		b := &bank{}
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		want(t, bind(t, newGuard(t, newStore(t)), b.tool()).Do(ctx, call1, five).Report, once.Completed, ledger.Happened, ledger.Done, "")
	})
}

func TestSettledCallIsAnsweredHoweverLittleTimeIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bank{}
		bound := bind(t, newGuard(t, newStore(t)), b.tool())
		bound.Do(t.Context(), call1, five)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want(t, bound.Do(ctx, call1, five).Report, once.Completed, ledger.Happened, ledger.Done, "")

		b.after = func(context.Context) error { return errors.New("x") }
		other := call1
		other.CallID = "c2"
		bound.Do(t.Context(), other, five)
		want(t, bound.Do(ctx, other, five).Report, once.Refused, ledger.Unknown, ledger.Inspect, "too_little_time")
	})
}

// Proves: R62
func TestTimeoutOfAWriteIsUnknownAndItsDeadlineIsStoredBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := newStore(t), &bank{}
		began := time.Now()
		var deadline time.Time
		b.after = func(ctx context.Context) error {
			stored := record(t, store, call1.Key()).Attempt
			deadline, _ = ctx.Deadline()
			if !stored.Deadline.Equal(deadline) || !once.CallFrom(ctx).Deadline.Equal(deadline) || !stored.QuietAfter.Equal(deadline.Add(time.Minute)) {
				t.Errorf("stored %v, quiet %v, context %v", stored.Deadline, stored.QuietAfter, deadline)
			}
			<-ctx.Done()
			return ctx.Err()
		}
		out := bind(t, newGuard(t, store), b.tool()).Do(t.Context(), call1, five)
		want(t, out.Report, once.Indeterminate, ledger.Unknown, ledger.Park, "timeout")
		if !deadline.Equal(began.Add(10 * time.Second)) {
			t.Errorf("deadline %v after the start", deadline.Sub(began))
		}
	})
}

// Proves: R62, R109
func TestHandlerThatIgnoresItsContextIsAnsweredForAndSettlesLate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		want ledger.Status
	}{
		{"with its effect", nil, ledger.Completed},
		{"with a refusal", once.Rejected(errors.New("no")), ledger.Failed},
		{"knowing nothing", errors.New("x"), ledger.Indeterminate},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, b := newStore(t), &bank{}
				free := make(chan struct{})
				b.after = func(context.Context) error { <-free; return c.err }
				began := time.Now()
				out := bind(t, newGuard(t, store), b.tool()).Do(t.Context(), call1, five)
				want(t, out.Report, once.Indeterminate, ledger.Unknown, ledger.Park, "timeout")
				if took := time.Since(began); took > 11*time.Second {
					t.Errorf("answered after %v", took)
				}
				close(free)
				synctest.Wait()
				if rec := record(t, store, call1.Key()); rec.Status != c.want {
					t.Errorf("late: %s, want %s", rec.State(), c.want)
				}
			})
		})
	}
}

// Proves: R109, R110
func TestLateOutcomeCannotOverwriteAPersonsWord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := newStore(t), &bank{}
		free := make(chan struct{})
		b.after = func(context.Context) error { <-free; return nil }
		bound := bind(t, newGuard(t, store), b.tool())
		bound.Do(t.Context(), call1, five)
		rec := record(t, store, call1.Key())
		move, err := rec.Resolve(ledger.Stamp{At: time.Now(), WriteID: "w"}, ledger.Decision{ID: "d", Actor: "ann", Reason: "looked", Version: rec.Version}, ledger.Settlement{Effect: ledger.NoEffect})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = store.Apply(t.Context(), move); err != nil {
			t.Fatal(err)
		}
		close(free)
		synctest.Wait()
		rec = record(t, store, call1.Key())
		if rec.Status != ledger.Failed || !rec.Flags.Has(ledger.Contradicted) || len(rec.Evidence) != 1 {
			t.Errorf("got %s with %+v", rec.State(), rec.Evidence)
		}
		out := bound.Do(t.Context(), call1, five)
		if out.Status != once.Indeterminate || out.Effect != ledger.Unknown || out.Code != "contradicted" {
			t.Errorf("a repeat hears %+v", out.Report)
		}
	})
}

func TestProcessThatSleptPastTheDeadlineDoesNotRun(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	var mu sync.Mutex
	var slept time.Duration
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Add(slept)
	}
	store.OnMoment(func(m memledger.Moment) {
		if m.When == "after" && m.Step.Event == ledger.Start {
			mu.Lock()
			slept = time.Hour
			mu.Unlock()
		}
	})
	out := bind(t, newGuard(t, store, func(o *once.Options) { o.Clock = clock }), b.tool()).Do(t.Context(), call1, five)
	want(t, out.Report, once.Failed, ledger.NoEffect, ledger.Done, "never_ran")
	if b.runs.Load() != 0 {
		t.Error("it ran")
	}
}

func TestCancelledCallerLeavesAnUnknownCallThatSettlesLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := newStore(t), &bank{}
		ctx, cancel := context.WithCancel(t.Context())
		free := make(chan struct{})
		b.after = func(context.Context) error { cancel(); <-free; return nil }
		out := bind(t, newGuard(t, store), b.tool()).Do(ctx, call1, five)
		want(t, out.Report, once.Indeterminate, ledger.Unknown, ledger.Park, "interrupted")
		close(free)
		synctest.Wait()
		if rec := record(t, store, call1.Key()); rec.Status != ledger.Completed {
			t.Errorf("late: %s", rec.State())
		}
	})
}

// Proves: R62
func TestPanicIsRecordedAsUnknownAndItsTextIsKeptFromTheAnswer(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(context.Context) error{
		"panic":      func(context.Context) error { panic("canary") },
		"nil panic":  func(context.Context) error { panic(nil) },
		"the end of": func(context.Context) error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, b := newStore(t), &bank{after: f}
			var cause error
			g := newGuard(t, store, func(o *once.Options) {
				o.Observers = []once.Observer{func(ctx context.Context, _ once.Call) (context.Context, func(once.Report, error)) {
					return ctx, func(_ once.Report, err error) { cause = err }
				}}
			})
			out := bind(t, g, b.tool()).Do(t.Context(), call1, five)
			want(t, out.Report, once.Indeterminate, ledger.Unknown, ledger.Park, "panic")
			if out.Message != "the tool panicked" || record(t, store, call1.Key()).Outcome.Message != "the tool panicked" {
				t.Errorf("message %q", out.Message)
			}
			if cause == nil {
				t.Error("observers were not told")
			}
		})
	}
}
