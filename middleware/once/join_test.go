package once_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// Proves: R23, R30, R32, R47, R152
func TestOfManyConcurrentAttemptsOneRunsAndAllHearItsResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := newStore(t), &bank{}
		b.after = func(context.Context) error { time.Sleep(3 * time.Second); return nil } // in the bubble's time
		bound := bind(t, newGuard(t, store), b.tool())
		outs := make([]once.Outcome[credit], 64)
		var all sync.WaitGroup
		for i := range outs {
			all.Go(func() { outs[i] = bound.Do(t.Context(), call1, five) })
		}
		all.Wait()
		first, joined := 0, 0
		for _, out := range outs {
			c, err := out.Value()
			if err != nil || c.ID != "cr_A1" {
				t.Errorf("got %v, %v", c, err)
			}
			if !out.Replayed {
				first++
			}
			if out.Joined {
				joined++
			}
		}
		if first != 1 || joined != 63 || b.effects.Load() != 1 {
			t.Errorf("%d executors, %d joined, %d effects", first, joined, b.effects.Load())
		}
	})
}

// Proves: R30, R31
func TestJoinIsBoundedAndThenSaysInProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bank{}
		free := make(chan struct{})
		b.after = func(context.Context) error { <-free; return nil }
		bound := bind(t, newGuard(t, newStore(t)), b.tool())
		var executor once.Outcome[credit]
		var done sync.WaitGroup
		done.Go(func() { executor = bound.Do(t.Context(), call1, five) })
		synctest.Wait()
		began := time.Now()
		out := bound.Do(t.Context(), call1, five)
		want(t, out.Report, once.InProgress, ledger.Unknown, ledger.Again, "running")
		if took := time.Since(began); took < 4*time.Second || took > 6*time.Second || out.RetryAfter <= 0 {
			t.Errorf("joined for %v, retry after %v", took, out.RetryAfter)
		}
		if _, err := out.Value(); err == nil {
			t.Error("in progress was given out as a result")
		}
		close(free)
		done.Wait()
		want(t, executor.Report, once.Completed, ledger.Happened, ledger.Done, "")
	})
}

// Proves: R27, R64, R91, R92, R93
func TestCallOfADeadExecutorBecomesUnknownAndIsLookedUpNotRun(t *testing.T) {
	t.Parallel()
	for _, looks := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store, b := newStore(t), &bank{}
			abandon(t, store, b)
			tool := b.tool()
			if looks {
				b.withLookUp(&tool)
			}
			bound := bind(t, newGuard(t, store), tool)
			time.Sleep(8 * time.Second) // its deadline is in two more
			out := bound.Do(t.Context(), call1, five)
			if looks {
				want(t, out.Report, once.Completed, ledger.Happened, ledger.Done, "")
				if c, _ := out.Value(); c.ID != "cr_A1" {
					t.Errorf("result %v", c)
				}
			} else {
				want(t, out.Report, once.Indeterminate, ledger.Unknown, ledger.Park, "executor_lost")
			}
			if b.runs.Load() != 0 || b.effects.Load() != 1 {
				t.Errorf("runs %d, effects %d", b.runs.Load(), b.effects.Load())
			}
		})
	}
}

// abandon leaves what a process leaves that dies after its effect and before it
// could say so.
func abandon(t *testing.T, store ledger.Store, b *bank) {
	t.Helper()
	ghost := b.tool(func(tool *once.Tool[creditIn, credit]) {
		tool.Run = func(context.Context, creditIn) (credit, error) { return credit{}, nil }
	})
	bind(t, newGuard(t, deafStore{store}), ghost).Do(t.Context(), call1, five)
	b.effects.Add(1)
	if rec := record(t, store, call1.Key()); rec.Status != ledger.Started {
		t.Fatalf("left %s", rec.State())
	}
}

// deafStore takes reservations and nothing else.
type deafStore struct{ ledger.Store }

func (d deafStore) Apply(ctx context.Context, m ledger.Move) (ledger.Record, error) {
	if m.Event() != ledger.Start {
		return ledger.Record{}, context.DeadlineExceeded
	}
	return d.Store.Apply(ctx, m)
}

func TestManyGoroutinesWithOneGuardDoNotMixUpTheirCalls(t *testing.T) {
	t.Parallel()
	b := &bank{}
	bound := bind(t, newGuard(t, newStore(t)), b.tool())
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			req := call1
			req.CallID = "c" + string(rune('a'+i%26)) + string(rune('a'+i/26))
			c, err := bound.Do(t.Context(), req, creditIn{Account: req.CallID}).Value()
			if err != nil || c.ID != "cr_"+req.CallID {
				t.Errorf("%s got %v, %v", req.CallID, c, err)
			}
		})
	}
	all.Wait()
	if b.effects.Load() != 100 {
		t.Errorf("effects %d", b.effects.Load())
	}
}
