package launch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/executions/memexecutions"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/launch"
	"github.com/onceward/onceward/internal/runs/memruns"
)

const (
	versionARN = "arn:aws:states:eu-west-1:111122223333:stateMachine:m:7"
)

var (
	theRun = runs.ID{Tenant: "acme", Run: "run-1"}
	dawn   = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
)

// plain is an input of the run.
func plain() json.RawMessage {
	return json.RawMessage(`{"run_id": "run-1", "tenant": "acme", "agent": "billing-assistant", "principal": {"subject": "user-1"}, "limits": {"active_seconds": 60}}`)
}

// world is a launcher with what it starts and stores in memory.
type world struct {
	runs    *memruns.Store
	machine *memexecutions.Machine
	launch.Launcher

	now time.Time
	ids atomic.Int64
}

func newWorld() *world {
	w := &world{runs: memruns.New(), machine: memexecutions.New(), now: dawn}
	w.Launcher = launch.Launcher{
		Runs: w.runs, Machine: w.machine, StateMachine: versionARN,
		Now: func() time.Time { return w.now }, NewID: func() string { return fmt.Sprint("w", w.ids.Add(1)) },
		Log: slog.New(slog.DiscardHandler),
	}
	return w
}

// named returns the name of the run's driver of that generation.
func named(generation int) string { return runs.ExecutionName(theRun, generation) }

func (w *world) stored(t *testing.T) runs.Run {
	t.Helper()
	run, err := w.runs.Load(t.Context(), theRun)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// under returns the state of the execution that RUN names.
func (w *world) under(run runs.Run) executions.State {
	for _, e := range w.machine.Executions() {
		if e.Name == run.Driver {
			return e.State
		}
	}
	return executions.Missing
}

// begun returns a world in which the run was started.
func begun(t *testing.T) *world {
	t.Helper()
	w := newWorld()
	if _, err := w.Start(t.Context(), plain()); err != nil {
		t.Fatal(err)
	}
	return w
}

// driverless returns a world in which the run's driver ended without ending it.
func driverless(t *testing.T, as executions.State) *world {
	t.Helper()
	w := begun(t)
	w.machine.End(named(1), as)
	return w
}

// unborn returns a world in which the run's driver was never started.
func unborn(t *testing.T) *world {
	t.Helper()
	w := newWorld()
	w.machine.Refuse(memexecutions.Start, 1)
	if _, err := w.Start(t.Context(), plain()); !errors.Is(err, executions.ErrRefused) {
		t.Fatal(err)
	}
	return w
}

// tended does what the sweeper does: it tends all runs that are listed.
func (w *world) tended(t *testing.T) []launch.Launched {
	t.Helper()
	page, err := w.runs.Unended(t.Context(), runs.Query{AllTenants: true})
	if err != nil {
		t.Fatal(err)
	}
	var all []launch.Launched
	for _, run := range page.Runs {
		l, err := w.Tend(context.WithoutCancel(t.Context()), run)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// accounted fails the test unless the run is driven, or ended, or listed with a
// driver that does not run; a run that isn't stored has no execution either.
func (w *world) accounted(t *testing.T) {
	t.Helper()
	run := w.stored(t)
	if !run.Exists() {
		if n := len(w.machine.Executions()); n > 0 {
			t.Errorf("%d executions of a run that is not stored", n)
		}
		return
	}
	if run.Ended() || w.under(run) == executions.Running {
		return
	}
	page, err := w.runs.Unended(t.Context(), runs.Query{Tenant: theRun.Tenant})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].Driver != run.Driver {
		t.Errorf("nobody drives the run, and it is listed as %+v, %v", page.Runs, err)
	}
}

// names returns what was started, in its order.
func (w *world) names() string {
	var all []string
	for _, e := range w.machine.Executions() {
		all = append(all, e.Name)
	}
	return strings.Join(all, " ")
}
