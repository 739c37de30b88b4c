// Package sweeper does on a schedule what nobody is left to do: it goes through
// every call and every run that has not ended, of all tenants, and lets each of
// them be tended, so that no executor, decider or driver that died keeps anybody
// waiting. It decides nothing by itself and remembers nothing between sweeps;
// any number may run at once. [Sweeper.Sweep] is one sweep, [Report] what it saw.
package sweeper

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/launch"
	"github.com/onceward/onceward/middleware/ledger"
)

// Calls does about one call what needs no person; an operator.Service does. It
// must be safe for concurrent use, and to run twice at once about one call.
type Calls interface {
	Tend(ctx context.Context, key ledger.Key) (operator.Tended, error)
}

// Drivers does about one run what needs no person: it starts an execution that
// the run names and that was never started. A launch.Launcher does. It must be
// safe for concurrent use, and to run twice at once about one run.
type Drivers interface {
	Tend(ctx context.Context, run runs.Run) (launch.Launched, error)
}

// Unended lists the runs that have not ended; a [runs.Store] does.
type Unended interface {
	Unended(ctx context.Context, q runs.Query) (runs.Page, error)
}

// Running names the executions of a state machine that run, as far as a list
// knows that may be behind. It must be safe for concurrent use.
type Running interface {
	Running(ctx context.Context, machine string) (map[string]bool, error)
}

// Sweeper goes through what is unsettled. Scan, Calls, Runs and Drivers are
// required. It is safe for concurrent use.
type Sweeper struct {
	Scan    ledger.Scanner
	Calls   Calls
	Runs    Unended
	Drivers Drivers

	// Running spares most runs a look of their own. Defaults to none.
	Running Running

	Now func() time.Time // defaults to time.Now
	Log *slog.Logger     // never gets arguments, results or tokens; defaults to nowhere

	// Pace bounds how fast drivers are looked at, so that a sweep leaves an
	// account's rate of requests to the runs themselves. A limiter that outlives
	// the sweep bounds several together. Nil is no bound.
	Pace *rate.Limiter

	// Reserve is kept of the context's time for the report, and twice as much is
	// the least that an item begun last has. Defaults to 2 seconds.
	Reserve time.Duration
}

// Sweep makes one sweep and returns what it saw and did. It ends before ctx
// does: what it did not get to is counted, and [Report.Complete] is false. The
// order is another one each time, so that sweeps which never get through still
// come to everything. One item that fails or can't be read stops no other. An
// error means that something could not be listed; the report holds all the rest.
func (s *Sweeper) Sweep(ctx context.Context) (Report, error) {
	sweep := s.begin(ctx)
	var group sync.WaitGroup
	var callsErr, runsErr error
	group.Go(func() { callsErr = sweep.calls(ctx) })
	group.Go(func() { runsErr = sweep.runs(ctx) })
	group.Wait()
	report := sweep.tally.report(sweep.now())
	report.log(ctx, sweep.log)
	return report, errors.Join(callsErr, runsErr)
}

// sweep is one sweep.
type sweep struct {
	s     *Sweeper
	now   func() time.Time
	log   *slog.Logger
	until until
	tally tally

	broken map[ledger.Key]bool // counted as unreadable; guarded by the tally
}

// until says when what ends; zero times are never.
type until struct {
	listing time.Time // half of the time is for what was listed
	begin   time.Time // nothing is begun after it
	work    time.Time // nothing is worked on after it
}

func (s *Sweeper) begin(ctx context.Context) *sweep {
	w := &sweep{s: s, now: s.Now, log: s.Log, broken: make(map[ledger.Key]bool)}
	if w.now == nil {
		w.now = time.Now
	}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	w.tally.r.StartedAt = w.now().UTC()
	// The context's deadline is the wall clock's, whatever Now is.
	if deadline, ok := ctx.Deadline(); ok {
		reserve := s.Reserve
		if reserve == 0 {
			reserve = defaultReserve
		}
		left := max(0, time.Until(deadline)-reserve)
		w.until.work = deadline.Add(-reserve)
		w.until.begin = w.until.work.Add(-min(2*reserve, left/4))
		w.until.listing = w.until.work.Add(-left / 2)
	}
	return w
}

const defaultReserve = 2 * time.Second

// within returns ctx, ended at that time if there is one.
func within(ctx context.Context, at time.Time) (context.Context, context.CancelFunc) {
	if at.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, at)
}

// shuffled brings items into an order of their own for this sweep. Sweeps
// remember nothing of each other; by chance each comes to what the one before
// left out, and two at once are seldom at the same item.
func shuffled[T any](items []T) []T {
	rand.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] }) //nolint:gosec // nobody gains by guessing an order
	return items
}

// each does every item, some at once, for as long as something may be begun, and
// returns how many were not.
func each[T any](items []T, workers int, may func() bool, do func(T)) (left int) {
	var next sync.Mutex
	take := func() (item T, ok bool) {
		next.Lock()
		defer next.Unlock()
		if len(items) == 0 || !may() {
			return item, false
		}
		item, items = items[0], items[1:]
		return item, true
	}
	var group sync.WaitGroup
	for range min(workers, len(items)) {
		group.Go(func() {
			for item, ok := take(); ok; item, ok = take() {
				do(item)
			}
		})
	}
	group.Wait()
	return len(items)
}

// mayBegin reports whether there is time to begin something. What was begun
// before and fails after it had too little.
func (w *sweep) mayBegin(ctx context.Context) bool {
	return ctx.Err() == nil && (w.until.begin.IsZero() || time.Now().Before(w.until.begin))
}
