package sweeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/launch"
)

const (
	driversAtOnce = 4
	pageOfRuns    = 200
)

func (w *sweep) runs(ctx context.Context) error {
	found, err := w.listRuns(ctx)
	rest := w.undriven(ctx, found)
	work, cancel := within(ctx, w.until.work)
	defer cancel()
	w.tally.add(func(r *Report) { r.Runs.Listed, r.Runs.Driven = len(found), len(found)-len(rest) })
	left := each(shuffled(rest), driversAtOnce, func() bool { return w.mayBegin(work) }, func(run runs.Run) { w.tendRun(work, run) })
	w.tally.add(func(r *Report) { r.Runs.Left += left })
	return err
}

// undriven returns the runs of which it can't be said at a glance that their
// drivers run. The list of what runs may be behind either way: a driver that has
// just ended is the next sweep's, and one that has just begun is looked at.
func (w *sweep) undriven(ctx context.Context, found []runs.Run) (rest []runs.Run) {
	if w.s.Running == nil {
		return found
	}
	ctx, cancel := within(ctx, w.until.listing)
	defer cancel()
	running := make(map[string]map[string]bool)
	for _, run := range found {
		machine := executions.Unversioned(run.Machine)
		if _, asked := running[machine]; !asked {
			names, err := w.s.Running.Running(ctx, machine)
			if err != nil {
				w.log.LogAttrs(ctx, slog.LevelWarn, "running executions not listed; each driver is looked at by itself", slog.String("machine", machine), slog.Any("error", err))
			}
			running[machine] = names
		}
		if !running[machine][run.Driver] {
			rest = append(rest, run)
		}
	}
	return rest
}

func (w *sweep) listRuns(ctx context.Context) ([]runs.Run, error) {
	ctx, cancel := within(ctx, w.until.listing)
	defer cancel()
	q := runs.Query{AllTenants: true, Limit: pageOfRuns}
	var found []runs.Run
	for {
		page, err := w.s.Runs.Unended(ctx, q)
		switch {
		case errors.Is(err, runs.ErrCorrupt):
			w.unreadableRuns(ctx, err)
		case err != nil && ctx.Err() != nil:
			w.tally.cut()
			return found, nil
		case err != nil:
			w.tally.cut()
			return found, fmt.Errorf("sweeper: runs could not be listed: %w", err)
		}
		for _, run := range page.Runs {
			run.Input, run.Progress = nil, nil // there may be many
			found = append(found, run)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return found, nil
		}
	}
}

// tendRun lets one run be tended, whatever becomes of it.
func (w *sweep) tendRun(ctx context.Context, run runs.Run) {
	if w.s.Pace != nil && w.s.Pace.Wait(ctx) != nil { // there would be no time left for it
		w.tally.add(func(r *Report) { r.Runs.Left++ })
		return
	}
	is, err := guarded(func() (launch.Launched, error) { return w.s.Drivers.Tend(ctx, run) })
	over := err != nil && !w.mayBegin(ctx)
	now := w.now()
	w.tally.add(func(r *Report) {
		r.Runs.Tended += one(!over)
		r.Runs.Left += one(over)
		r.Runs.Failed += one(err != nil && !over)
		r.Runs.Started += one(is.Started)
		if err == nil && driverless(is, now) {
			since := cmp.Or(is.Run.WrittenAt, is.Run.StartedAt)
			r.Runs.WithoutDriver++
			r.Runs.OldestSeconds = max(r.Runs.OldestSeconds, age(now, since))
			r.WithoutDriver = append(r.WithoutDriver, Driverless{
				Tenant: is.Run.Tenant, RunID: is.Run.ID, Execution: is.Run.Driver, State: is.Driver, Since: since,
			})
		}
	})
	if err != nil {
		w.log.LogAttrs(ctx, slog.LevelWarn, "run not tended", slog.String("tenant", run.Tenant), slog.String("run", run.ID), slog.Any("error", err))
	}
}

// driverless reports whether nobody drives the run. Whoever moved it just now may
// still be starting the driver that it named.
func driverless(is launch.Launched, now time.Time) bool {
	starting := is.Driver == executions.Missing && now.Before(is.Run.WrittenAt.Add(launch.GracePeriod))
	return is.Undriven() && !starting
}
