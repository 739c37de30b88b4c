package sweeper_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

func TestEveryPageOfEveryPartOfTheIndexIsRead(t *testing.T) {
	t.Parallel()
	const parts, pages = 16, 3
	x, want := &index{}, map[ledger.Key]int{}
	for part := range parts {
		var all []ledger.Page
		for page := range pages {
			n := part*pages + page
			want[key(n)]++
			if page == 1 {
				all = append(all, ledger.Page{Waits: []ledger.Wait{parked(n)}})
				continue
			}
			all = append(all, ledger.Page{Records: []ledger.Record{unknown(n)}})
		}
		x.pages = append(x.pages, all)
	}
	c := &calls{}
	report := sweep(t, &sweeper.Sweeper{Scan: x, Calls: c, Runs: unended{}, Drivers: &drivers{}})
	if diff := cmp.Diff(want, c.seen); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if report.Calls.Listed != parts*pages || report.Calls.Tended != parts*pages || x.asked != parts*pages || !report.Complete {
		t.Errorf("%d pages read; %+v", x.asked, report)
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
