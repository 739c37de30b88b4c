package sweeper_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
