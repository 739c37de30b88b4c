package sweeper_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/launch"
	"github.com/onceward/onceward/internal/sweeper"
	"github.com/onceward/onceward/middleware/ledger"
)

func TestEveryCallAndEveryRunIsTendedOnce(t *testing.T) {
	t.Parallel()
	// A call's record and its waits lie on any pages of any segments.
	x := &index{pages: [][]ledger.Page{
		{{Records: []ledger.Record{unknown(1), unknown(2)}}, {}, {Waits: []ledger.Wait{parked(3), parked(3)}}},
		{{Waits: []ledger.Wait{parked(1), parked(4)}}},
		{{Records: []ledger.Record{unknown(3)}}},
	}}
	c, d := &calls{}, &drivers{}
	report := sweep(t, &sweeper.Sweeper{Scan: x, Calls: c, Runs: unended{all: []runs.Run{run(1), run(2), run(3), run(4), run(5)}}, Drivers: d})
	if diff := cmp.Diff(map[ledger.Key]int{key(1): 1, key(2): 1, key(3): 1, key(4): 1}, c.seen); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if len(d.seen) != 5 || report.Calls.Tended != 4 || report.Calls.Listed != 4 || report.Runs.Tended != 5 || report.Runs.Listed != 5 || !report.Complete {
		t.Errorf("%d runs tended; %+v", len(d.seen), report)
	}
}

func TestCallInFlightIsLeftToItsExecutorUnlessSomebodyIsParkedOnIt(t *testing.T) {
	t.Parallel()
	started := func(n int, deadline time.Time) ledger.Record {
		return ledger.Record{Key: key(n), Status: ledger.Started, Version: 1, Attempt: ledger.Attempt{Number: 1, Token: canary, Deadline: deadline}}
	}
	contradicted := started(4, dawn.Add(time.Hour))
	contradicted.Flags = ledger.Contradicted
	x := &index{pages: [][]ledger.Page{{{
		Records: []ledger.Record{started(1, dawn.Add(time.Second)), started(2, dawn.Add(-time.Second)), started(3, dawn.Add(time.Second)), contradicted},
		Waits:   []ledger.Wait{parked(3)},
	}}}}
	c := &calls{}
	report := sweep(t, &sweeper.Sweeper{Scan: x, Calls: c, Runs: unended{}, Drivers: &drivers{}, Now: later(0)})
	if diff := cmp.Diff(map[ledger.Key]int{key(2): 1, key(3): 1, key(4): 1}, c.seen); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if report.Calls.InFlight != 1 || report.Calls.Listed != 4 || report.Calls.Tended != 3 {
		t.Errorf("%+v", report.Calls)
	}
}

func TestReportCountsWhatWasDoneAndWhoWaitsLongest(t *testing.T) {
	t.Parallel()
	x := &index{pages: [][]ledger.Page{{{Records: []ledger.Record{unknown(1), unknown(2), unknown(3), unknown(4)}}}}}
	c := &calls{tend: func(_ context.Context, k ledger.Key) (operator.Tended, error) {
		switch k {
		case key(1):
			return operator.Tended{Orphaned: true, LookedUp: true, NeedsSomebody: true, WaitingSince: dawn}, nil
		case key(2):
			return operator.Tended{Expired: true, Rung: 2}, nil
		case key(3): // what was done before an error stands
			return operator.Tended{UndoInvoked: true, UndoClosed: true, Rung: 1}, errors.New("a bell did not answer")
		}
		return operator.Tended{NeedsSomebody: true, WaitingSince: dawn.Add(30 * time.Second)}, nil
	}}
	d := &drivers{tend: func(_ context.Context, r runs.Run) (launch.Launched, error) {
		is := map[string]launch.Launched{
			"run-1": {Driver: executions.Running},
			"run-2": {Driver: executions.Running, Started: true},
			"run-3": {Driver: executions.Aborted},
			"run-4": {Driver: executions.Missing}, // named a minute ago, and could not be started
			"run-5": {Driver: executions.Missing}, // named just now
		}[r.ID]
		is.Run = r
		if r.ID == "run-5" {
			is.Run.WrittenAt = dawn.Add(119 * time.Second)
		}
		if r.ID == "run-6" { // it ended meanwhile
			is.Run.Status = runs.Succeeded
		}
		return is, nil
	}}
	report := sweep(t, &sweeper.Sweeper{
		Scan: x, Calls: c, Runs: unended{all: []runs.Run{run(1), run(2), run(3), run(4), run(5), run(6)}}, Drivers: d, Now: later(2 * time.Minute),
	})
	want := sweeper.Report{
		StartedAt: dawn.Add(2 * time.Minute), Complete: true,
		Calls: sweeper.CallCounts{
			Listed: 4, Tended: 4, Failed: 1, Orphaned: 1, Expired: 1, LookedUp: 1, UndoInvoked: 1, UndoClosed: 1, Rung: 3, NeedSomebody: 2, OldestSeconds: 120,
		},
		Runs: sweeper.RunCounts{Listed: 6, Tended: 6, Started: 1, WithoutDriver: 2, OldestSeconds: 60},
		WithoutDriver: []sweeper.Driverless{
			{Tenant: "acme", RunID: "run-3", Execution: "run-3-g1", State: executions.Aborted, Since: dawn.Add(time.Minute)},
			{Tenant: "acme", RunID: "run-4", Execution: "run-4-g1", State: executions.Missing, Since: dawn.Add(time.Minute)},
		},
		Unreadable: []sweeper.Unreadable{},
	}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// broken is an item that a store can't read.
type broken struct{ key ledger.Key }

func (broken) Error() string                         { return "its schema is unknown" }
func (broken) Unwrap() error                         { return ledger.ErrCorrupt }
func (b broken) Unreadable() (ledger.Key, time.Time) { return b.key, dawn }

func TestOneBadItemStopsNoOther(t *testing.T) {
	t.Parallel()
	x := &index{
		pages: [][]ledger.Page{{{Records: []ledger.Record{unknown(1), unknown(2), unknown(3), unknown(4)}}}},
		errs:  map[int]error{0: errors.Join(broken{key(5)}, broken{key(5)}, broken{})},
	}
	c := &calls{tend: func(_ context.Context, k ledger.Key) (operator.Tended, error) {
		switch k {
		case key(1):
			panic(canary)
		case key(2):
			return operator.Tended{}, errors.New("throttled")
		case key(3):
			return operator.Tended{}, fmt.Errorf("load: %w", ledger.ErrCorrupt)
		}
		return operator.Tended{Rung: 1}, nil
	}}
	d := &drivers{tend: func(_ context.Context, r runs.Run) (launch.Launched, error) {
		switch r.ID {
		case "run-1":
			panic(canary)
		case "run-2":
			return launch.Launched{Run: r}, errors.New("throttled")
		}
		return launch.Launched{Run: r, Driver: executions.Failed}, nil
	}}
	var log bytes.Buffer
	report := sweep(t, &sweeper.Sweeper{
		Scan: x, Calls: c, Runs: unended{all: []runs.Run{run(1), run(2), run(3)}, err: errors.Join(runs.ErrCorrupt, runs.ErrCorrupt)}, Drivers: d, Now: later(time.Minute),
		Log: slog.New(slog.NewJSONHandler(&log, nil)),
	})
	if got := report.Calls; got.Tended != 3 || got.Failed != 2 || got.Unreadable != 3 || got.Rung != 1 || len(c.seen) != 4 {
		t.Errorf("calls: %+v", got)
	}
	want := []sweeper.Unreadable{
		{Tenant: "acme", RunID: "run-1", CallID: "call-3"}, {Since: dawn}, {Tenant: "acme", RunID: "run-1", CallID: "call-5", Since: dawn},
	}
	if diff := cmp.Diff(want, report.Unreadable); diff != "" {
		t.Errorf("unreadable (-want +got):\n%s", diff)
	}
	if got := report.Runs; got.Tended != 3 || got.Failed != 2 || got.WithoutDriver != 1 || got.Unreadable != 4 {
		t.Errorf("runs: %+v", got)
	}
	if !report.Complete {
		t.Error("all was got to")
	}
	if text := log.String(); strings.Contains(text, canary) || strings.Count(text, "not tended") != 4 || strings.Count(text, "can't be read") != 8 {
		t.Errorf("the log:\n%s", text)
	}
}

func TestWhatCannotBeListedIsAnErrorBesideWhatWasDone(t *testing.T) {
	t.Parallel()
	down := errors.New("table is gone")
	for name, s := range map[string]*sweeper.Sweeper{
		"a part of the calls": {Scan: &index{pages: [][]ledger.Page{{{Records: []ledger.Record{unknown(1)}}}}, errs: map[int]error{3: down}}, Runs: unended{all: []runs.Run{run(1)}}},
		"the runs":            {Scan: &index{pages: [][]ledger.Page{{{Records: []ledger.Record{unknown(1)}}}}}, Runs: unended{all: []runs.Run{run(1)}, err: down}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, d := &calls{}, &drivers{}
			s.Calls, s.Drivers = c, d
			report, err := s.Sweep(t.Context())
			if !errors.Is(err, down) || report.Complete || report.Calls.Tended != 1 {
				t.Errorf("%v; %+v", err, report)
			}
		})
	}
}

// A sweep of far too many slow items ends before its context, and says so.
func TestSweepEndsBeforeItsContextAndSaysThatItDidNotGetThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var records []ledger.Record
		var all []runs.Run
		for n := range 1000 {
			records, all = append(records, unknown(n)), append(all, run(n))
		}
		slow := func(ctx context.Context) error {
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c := &calls{tend: func(ctx context.Context, _ ledger.Key) (operator.Tended, error) { return operator.Tended{}, slow(ctx) }}
		d := &drivers{tend: func(ctx context.Context, r runs.Run) (launch.Launched, error) {
			return launch.Launched{Run: r, Driver: executions.Running}, slow(ctx)
		}}
		s := &sweeper.Sweeper{Scan: &index{pages: [][]ledger.Page{{{Records: records}}}}, Calls: c, Runs: unended{all: all}, Drivers: d}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		report, err := s.Sweep(ctx)
		if err != nil || ctx.Err() != nil {
			t.Fatalf("%v; its context: %v", err, ctx.Err())
		}
		if report.Complete || report.Calls.Tended+report.Calls.Left != 1000 || report.Calls.Tended < 40 || report.Calls.Failed != 0 {
			t.Errorf("calls: %+v", report.Calls)
		}
		if report.Runs.Tended+report.Runs.Left != 1000 || report.Runs.Tended < 40 || report.Runs.Failed != 0 {
			t.Errorf("runs: %+v", report.Runs)
		}
		if report.Seconds < 10 || report.Seconds > 18 {
			t.Errorf("it took %v of 20 s", report.Seconds)
		}
	})
}

// What hangs is ended with the sweep's work, and is counted as not got to.
func TestHangingItemsEndWithTheSweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{tend: func(ctx context.Context, _ ledger.Key) (operator.Tended, error) {
			<-ctx.Done()
			return operator.Tended{Orphaned: true}, ctx.Err()
		}}
		s := &sweeper.Sweeper{Scan: &index{pages: [][]ledger.Page{{{Records: []ledger.Record{unknown(1)}}}}}, Calls: c, Runs: unended{}, Drivers: &drivers{}}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		report, err := s.Sweep(ctx)
		if err != nil || ctx.Err() != nil || report.Complete || report.Calls.Left != 1 || report.Calls.Failed != 0 || report.Calls.Orphaned != 1 || report.Seconds != 18 {
			t.Errorf("%v, %v; %+v", err, ctx.Err(), report)
		}
	})
}

// Whoever tends keeps a reserve of their own, and gives up before the sweep does.
func TestItemsThatHadTooLittleTimeAreNotFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hurried := func(ctx context.Context) error {
			deadline, _ := ctx.Deadline()
			<-time.After(time.Until(deadline) - 2*time.Second)
			return context.DeadlineExceeded
		}
		s := &sweeper.Sweeper{
			Scan: &index{pages: [][]ledger.Page{{{Records: []ledger.Record{unknown(1)}}}}},
			Calls: &calls{tend: func(ctx context.Context, _ ledger.Key) (operator.Tended, error) {
				return operator.Tended{}, hurried(ctx)
			}},
			Runs: unended{all: []runs.Run{run(1)}},
			Drivers: &drivers{tend: func(ctx context.Context, r runs.Run) (launch.Launched, error) {
				return launch.Launched{Run: r}, hurried(ctx)
			}},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		report, err := s.Sweep(ctx)
		if err != nil || report.Complete || report.Calls.Left != 1 || report.Calls.Failed != 0 || report.Runs.Left != 1 || report.Runs.Failed != 0 {
			t.Errorf("%v; %+v", err, report)
		}
	})
}

// A store that hangs takes half of the time at most, and what was listed is tended.
func TestListingThatHangsLeavesTimeForWhatWasListed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := &hanging{index: &index{pages: [][]ledger.Page{{{Records: []ledger.Record{unknown(1)}}}}}}
		c := &calls{}
		s := &sweeper.Sweeper{Scan: x, Calls: c, Runs: unended{}, Drivers: &drivers{}}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		report, err := s.Sweep(ctx)
		if err != nil || report.Complete || report.Calls.Tended != 1 || report.Seconds > 10 {
			t.Errorf("%v; %+v", err, report)
		}
	})
}

// hanging is an index whose last segment does not answer.
type hanging struct{ *index }

func (h *hanging) Scan(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	if q.Segment == q.Segments-1 {
		<-ctx.Done()
		return ledger.Page{}, ctx.Err()
	}
	return h.index.Scan(ctx, q)
}

// Each of these sweeps has time for a tenth; the way through the index is the
// same each time.
func TestSweepsThatNeverGetThroughStillComeToEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var records []ledger.Record
		var all []runs.Run
		for n := range 200 {
			records, all = append(records, unknown(n)), append(all, run(n))
		}
		c := &calls{tend: func(context.Context, ledger.Key) (operator.Tended, error) {
			<-time.After(time.Second)
			return operator.Tended{}, nil
		}}
		d := &drivers{tend: func(_ context.Context, r runs.Run) (launch.Launched, error) {
			<-time.After(time.Second)
			return launch.Launched{Run: r, Driver: executions.Running}, nil
		}}
		s := &sweeper.Sweeper{Scan: &index{pages: [][]ledger.Page{{{Records: records}}}}, Calls: c, Runs: unended{all: all}, Drivers: d}
		for n := 0; len(c.seen) < 200 || len(d.seen) < 200; n++ {
			if n == 300 { // by chance alone one is left out of so many once in 1e11 times
				t.Fatalf("after %d sweeps %d calls and %d runs were tended", n, len(c.seen), len(d.seen))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			report, err := s.Sweep(ctx)
			if err != nil || report.Complete || report.Calls.Tended > 40 {
				t.Fatalf("%v; %+v", err, report)
			}
			cancel()
		}
	})
}

// Look-ups of a function that hangs keep no bell waiting.
func TestSlowCallsKeepNoQuickOnesWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		page := ledger.Page{}
		for n := range 20 {
			page.Records = append(page.Records, unknown(n))
			page.Waits = append(page.Waits, parked(100+n))
		}
		var mu sync.Mutex
		rung, slowly, most := 0, 0, 0
		c := &calls{tend: func(ctx context.Context, k ledger.Key) (operator.Tended, error) {
			mu.Lock()
			defer mu.Unlock()
			if strings.HasPrefix(k.CallID, "call-1") && len(k.CallID) == len("call-100") {
				rung++
				return operator.Tended{Rung: 1}, nil
			}
			slowly++
			most = max(most, slowly)
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			slowly--
			return operator.Tended{}, ctx.Err()
		}}
		s := &sweeper.Sweeper{Scan: &index{pages: [][]ledger.Page{{page}}}, Calls: c, Runs: unended{}, Drivers: &drivers{}}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		report, err := s.Sweep(ctx)
		if err != nil || rung != 20 || report.Calls.Rung != 20 || report.Calls.Left != 20 || most != 4 {
			t.Errorf("%v: %d rung, %d slow ones at once; %+v", err, rung, most, report.Calls)
		}
	})
}

func TestDriversAreLookedAtNoFasterThanThePace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all []runs.Run
		for n := range 100 {
			all = append(all, run(n))
		}
		d := &drivers{}
		s := &sweeper.Sweeper{Scan: &index{}, Calls: &calls{}, Runs: unended{all: all}, Drivers: d, Pace: rate.NewLimiter(2, 10)}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		report, err := s.Sweep(ctx)
		// 10 at once, and 2 a second for as long as something may be begun.
		if err != nil || report.Complete || report.Runs.Tended < 30 || report.Runs.Tended > 46 || report.Runs.Tended+report.Runs.Left != 100 {
			t.Errorf("%v; %+v", err, report.Runs)
		}
	})
}

func TestSweepWithoutADeadlineGoesThroughEverything(t *testing.T) {
	t.Parallel()
	report, err := (&sweeper.Sweeper{
		Scan: &index{pages: [][]ledger.Page{{{Records: []ledger.Record{unknown(1)}}}}}, Calls: &calls{}, Runs: unended{all: []runs.Run{run(1)}}, Drivers: &drivers{},
	}).Sweep(context.WithoutCancel(t.Context()))
	if err != nil || !report.Complete || report.Calls.Tended != 1 || report.Runs.Tended != 1 {
		t.Errorf("%v; %+v", err, report)
	}
}

func TestReportNamesTheHundredThatWaitLongest(t *testing.T) {
	t.Parallel()
	var all []runs.Run
	for n := range 150 {
		r := run(n)
		r.WrittenAt = dawn.Add(-time.Duration(n) * time.Minute)
		all = append(all, r)
	}
	d := &drivers{tend: func(_ context.Context, r runs.Run) (launch.Launched, error) {
		return launch.Launched{Run: r, Driver: executions.TimedOut}, nil
	}}
	report := sweep(t, &sweeper.Sweeper{Scan: &index{}, Calls: &calls{}, Runs: unended{all: all}, Drivers: d, Now: later(time.Hour)})
	if report.Runs.WithoutDriver != 150 || len(report.WithoutDriver) != 100 || report.WithoutDriver[0].RunID != "run-149" || report.WithoutDriver[99].RunID != "run-50" {
		t.Errorf("%d of %d, %+v", len(report.WithoutDriver), report.Runs.WithoutDriver, report.WithoutDriver[0])
	}
}

func TestLogHasTheCountsAndTheRunsWithoutADriver(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	x := &index{pages: [][]ledger.Page{{{Records: []ledger.Record{unknown(1)}, Waits: []ledger.Wait{parked(1)}}}}}
	c := &calls{tend: func(context.Context, ledger.Key) (operator.Tended, error) {
		return operator.Tended{NeedsSomebody: true, WaitingSince: dawn}, nil
	}}
	d := &drivers{tend: func(_ context.Context, r runs.Run) (launch.Launched, error) {
		return launch.Launched{Run: r, Driver: executions.Aborted}, nil
	}}
	report := sweep(t, &sweeper.Sweeper{
		Scan: x, Calls: c, Runs: unended{all: []runs.Run{run(1)}}, Drivers: d, Now: later(time.Hour), Log: slog.New(slog.NewJSONHandler(&log, nil)),
	})
	var lines []map[string]any
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		delete(fields, "time")
		lines = append(lines, fields)
	}
	if len(lines) != 2 {
		t.Fatalf("%d lines:\n%s", len(lines), log.String())
	}
	if diff := cmp.Diff(map[string]any{
		"level": "WARN", "msg": "run without a driver", "tenant": "acme", "run": "run-1", "execution": "run-1-g1", "state": "aborted", "since": "2026-11-29T12:01:00Z",
	}, lines[0]); diff != "" {
		t.Errorf("a run without a driver (-want +got):\n%s", diff)
	}
	// The line has the report's counts under the report's names.
	var counts map[string]any
	text, err := json.Marshal(report)
	if err == nil {
		err = json.Unmarshal(text, &counts)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"started_at", "without_driver", "unreadable"} {
		delete(counts, name)
	}
	counts["level"], counts["msg"] = "INFO", "sweep"
	if diff := cmp.Diff(counts, lines[1]); diff != "" {
		t.Errorf("the sweep (-report +log):\n%s", diff)
	}
	if strings.Contains(log.String()+string(text), canary) {
		t.Errorf("a secret is told:\n%s%s", log.String(), text)
	}
}

// toolbox counts how many functions run at once.
type toolbox struct {
	mu           sync.Mutex
	now, most, n int
}

// Invoke implements toolcall.Functions.
func (x *toolbox) Invoke(context.Context, string, []byte) ([]byte, error) {
	x.mu.Lock()
	x.now++
	x.n++
	x.most = max(x.most, x.now)
	x.mu.Unlock()
	<-time.After(time.Second)
	x.mu.Lock()
	x.now--
	x.mu.Unlock()
	return []byte("{}"), nil
}

func TestFunctionsOfToolsAreInvokedAFewAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tools := &toolbox{}
		bounded := sweeper.AtMost(3, tools)
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		var group sync.WaitGroup
		var late sync.Map
		for n := range 12 {
			group.Go(func() {
				if _, err := bounded.Invoke(ctx, "issue_credit", nil); err != nil {
					late.Store(n, err)
				}
			})
		}
		group.Wait()
		missed := 0
		late.Range(func(_, err any) bool {
			missed++
			if !errors.Is(err.(error), context.DeadlineExceeded) {
				t.Error(err)
			}
			return true
		})
		if tools.most != 3 || tools.n != 9 || missed != 3 {
			t.Errorf("%d at once, %d invoked, %d not", tools.most, tools.n, missed)
		}
	})
}

// glance is a list of what runs.
type glance struct {
	mu    sync.Mutex
	names map[string]map[string]bool
	errs  map[string]error
	asked []string
}

// Running implements sweeper.Running.
func (g *glance) Running(_ context.Context, machine string) (map[string]bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, machine)
	return g.names[machine], g.errs[machine]
}

func TestOnlyDriversThatAreNotSeenToRunAreLookedAt(t *testing.T) {
	t.Parallel()
	const machine, old, gone = "arn:aws:states:eu-west-1:1:stateMachine:m", "arn:aws:states:eu-west-1:1:stateMachine:old", "arn:aws:states:eu-west-1:1:stateMachine:gone"
	var all []runs.Run
	for n, on := range []string{machine + ":7", machine + ":8", machine, old, old, gone} {
		r := run(n)
		r.Machine = on
		all = append(all, r)
	}
	g := &glance{
		names: map[string]map[string]bool{machine: {"run-0-g1": true, "run-1-g1": true, "run-4-g1": true}, old: {"run-3-g1": true}},
		errs:  map[string]error{gone: errors.New("there is no such machine")},
	}
	d := &drivers{}
	report := sweep(t, &sweeper.Sweeper{Scan: &index{}, Calls: &calls{}, Runs: unended{all: all}, Drivers: d, Running: g})
	want := map[runs.ID]int{{Tenant: "acme", Run: "run-2"}: 1, {Tenant: "acme", Run: "run-4"}: 1, {Tenant: "acme", Run: "run-5"}: 1}
	if diff := cmp.Diff(want, d.seen); diff != "" {
		t.Errorf("looked at (-want +got):\n%s", diff)
	}
	if report.Runs.Listed != 6 || report.Runs.Driven != 3 || report.Runs.Tended != 3 || !report.Complete || len(g.asked) != 3 {
		t.Errorf("%+v; asked for %v", report.Runs, g.asked)
	}
}
