package launch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/executions/memexecutions"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/launch"
	"github.com/onceward/onceward/internal/runs/memruns"
)

// faults are the steps of a launcher, each carried out or not before whoever
// asked for it hears nothing more.
func faults() map[string]func(w *world) {
	all := map[string]func(w *world){"looked, nothing heard": func(w *world) { w.machine.Lose(memexecutions.State, 1, true) }}
	for _, done := range []bool{true, false} {
		all[fmt.Sprintf("run saved %v, nothing heard", done)] = func(w *world) { w.runs.Lose(memruns.Save, 1, done) }
		all[fmt.Sprintf("driver started %v, nothing heard", done)] = func(w *world) { w.machine.Lose(memexecutions.Start, 1, done) }
	}
	all["start refused"] = func(w *world) { w.machine.Refuse(memexecutions.Start, 1) }
	return all
}

// before are the worlds in which somebody launches.
var before = map[string]struct {
	world      func(t *testing.T) *world
	act        func(t *testing.T, w *world) error
	generation int
}{
	"start":                          {func(*testing.T) *world { return newWorld() }, startIt, 1},
	"start again":                    {begun, startIt, 1},
	"start again, without driver":    {unborn, startIt, 1},
	"resume":                         {func(t *testing.T) *world { t.Helper(); return driverless(t, executions.Failed) }, resumeIt, 2},
	"resume, driver never started":   {unborn, resumeIt, 1},
	"tend, driver never started":     {unborn, tendIt, 1},
	"tend, driver is at work":        {begun, tendIt, 1},
	"resume, though it is driven":    {begun, resumeIt, 1},
	"resume, handed over and no one": {handedOver, resumeIt, 2},
	"tend, handed over and no one":   {handedOver, tendIt, 2},
}

func startIt(t *testing.T, w *world) error {
	t.Helper()
	_, err := w.Start(t.Context(), plain())
	return err
}

func resumeIt(t *testing.T, w *world) error {
	t.Helper()
	_, err := w.Resume(t.Context(), theRun)
	if errors.Is(err, launch.ErrDriven) {
		return nil
	}
	return err
}

func tendIt(t *testing.T, w *world) error {
	t.Helper()
	w.now = w.now.Add(launch.GracePeriod)
	_, err := w.Tend(t.Context(), w.stored(t))
	return err
}

// handedOver is a world in which the driver stored its successor and died.
func handedOver(t *testing.T) *world {
	t.Helper()
	w := begun(t)
	moved := w.stored(t).MovedOn("hand-over")
	moved.WrittenAt = w.now
	if _, err := w.runs.Save(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	w.machine.End(named(1), executions.Failed)
	return w
}

// Proves: R40, R145
func TestWhateverStopsALauncherTheRunIsDrivenOrListedAndARepetitionDrivesIt(t *testing.T) {
	t.Parallel()
	for name, c := range before {
		for fault, arm := range faults() {
			t.Run(name+"/"+fault, func(t *testing.T) {
				t.Parallel()
				w := c.world(t)
				arm(w)
				err := c.act(t, w)
				if err != nil && !errors.Is(err, memruns.ErrLost) && !errors.Is(err, memexecutions.ErrLost) && !errors.Is(err, executions.ErrRefused) {
					t.Errorf("%v; want to hear what was lost", err)
				}
				w.accounted(t)
				if err := c.act(t, w); err != nil { // the fault is still armed where the first did not come so far
					w.accounted(t)
					if err := c.act(t, w); err != nil {
						t.Fatalf("repeated: %v", err)
					}
				}
				run := w.stored(t)
				if run.Generation != c.generation || w.under(run) != executions.Running {
					t.Errorf("generation %d, its driver %s; want %d and running", run.Generation, w.under(run), c.generation)
				}
				if n := len(w.machine.Executions()); n != c.generation {
					t.Errorf("started %s", w.names())
				}
			})
		}
	}
}

func TestWhatALauncherLeftBehindIsDrivenBySomebodyWhoTendsAllRuns(t *testing.T) {
	t.Parallel()
	for name, c := range before {
		for fault, arm := range faults() {
			t.Run(name+"/"+fault, func(t *testing.T) {
				t.Parallel()
				w := c.world(t)
				arm(w)
				failed := c.act(t, w)
				w.machine.Clear() // what has not struck does not strike the sweeper
				w.runs.Clear()
				if !w.stored(t).Exists() {
					if failed == nil || w.names() != "" {
						t.Errorf("nothing is stored: %v, started %s", failed, w.names())
					}
					return
				}
				w.now = w.now.Add(launch.GracePeriod)
				for _, l := range w.tended(t) {
					if l.Undriven() && l.Driver == executions.Missing {
						t.Errorf("nobody started %s", l.Run.Driver)
					}
				}
				w.accounted(t)
			})
		}
	}
}

// overseer checks every move of a run to its next generation: only the driver
// itself may make one while it is at work.
type overseer struct {
	runs.Store
	w      *world
	broken *[]string
}

func (o overseer) Save(ctx context.Context, next runs.Run) (runs.Run, error) {
	before, err := o.Load(ctx, next.Key())
	if err != nil {
		return runs.Run{}, err
	}
	stands, err := o.Store.Save(ctx, next)
	if after, _ := o.Load(ctx, next.Key()); before.Exists() && after.Generation > before.Generation {
		for _, e := range o.w.machine.Executions() {
			if e.Name == before.Driver && !e.State.Ended() {
				*o.broken = append(*o.broken, fmt.Sprintf("moved from %s, which is %s", e.Name, e.State))
			}
		}
	}
	return stands, err
}

// Proves: R23, R40, R145
func TestRunIsAlwaysDrivenByOneOrListedWhateverDiesWhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld()
		var moves []string
		watched := w.Launcher
		watched.Runs = overseer{Store: w.runs, w: w, broken: &moves}
		var copies []runs.Run // read at some time, by somebody who is slow
		actions := map[string]func(*rapid.T){
			"start":  func(*rapid.T) { _, _ = watched.Start(t.Context(), plain()) },
			"resume": func(*rapid.T) { _, _ = watched.Resume(t.Context(), theRun) },
			"tend": func(rt *rapid.T) {
				if len(copies) > 0 {
					_, _ = watched.Tend(t.Context(), rapid.SampledFrom(copies).Draw(rt, "copy"))
				}
			},
			"read": func(*rapid.T) {
				if run := w.stored(t); run.Exists() {
					copies = append(copies, run)
				}
			},
			"time passes": func(rt *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(rt, "seconds")) * time.Second)
			},
			"a driver dies": func(rt *rapid.T) {
				if all := w.machine.Executions(); len(all) > 0 {
					w.machine.End(rapid.SampledFrom(all).Draw(rt, "execution").Name, rapid.SampledFrom(ended).Draw(rt, "as"))
				}
			},
			"an old execution is redriven": func(rt *rapid.T) {
				if all := w.machine.Executions(); len(all) > 0 {
					w.machine.End(rapid.SampledFrom(all).Draw(rt, "execution").Name, executions.Running)
				}
			},
			"an execution plans": func(rt *rapid.T) { w.plans(t, rt) },
			"a fault": func(rt *rapid.T) {
				switch op := rapid.SampledFrom([]string{"save", "start", "state", "refuse"}).Draw(rt, "op"); op {
				case "save":
					w.runs.Lose(memruns.Save, 1, rapid.Bool().Draw(rt, "done"))
				case "start":
					w.machine.Lose(memexecutions.Start, 1, rapid.Bool().Draw(rt, "done"))
				case "state":
					w.machine.Lose(memexecutions.State, 1, true)
				default:
					w.machine.Refuse(memexecutions.Start, 1)
				}
			},
			"": func(rt *rapid.T) {
				if len(moves) > 0 {
					rt.Fatalf("%v", moves)
				}
				drivers := 0
				run := w.stored(t)
				for _, e := range w.machine.Executions() {
					if e.State == executions.Running && run.RoleOf(e.Name) == runs.Drives {
						drivers++
					}
				}
				if drivers > 1 || !run.Exists() && w.names() != "" {
					rt.Fatalf("%d drivers of %+v; started %s", drivers, run, w.names())
				}
			},
		}
		rt.Repeat(actions)
		w.settled(t, rt)
	})
}

// plans lets one running execution do what a planner does next, or die of it.
func (w *world) plans(t *testing.T, rt *rapid.T) {
	t.Helper()
	var running []string
	for _, e := range w.machine.Executions() {
		if e.State == executions.Running {
			running = append(running, e.Name)
		}
	}
	if len(running) == 0 {
		return
	}
	name, run := rapid.SampledFrom(running).Draw(rt, "execution"), w.stored(t)
	switch {
	case run.RoleOf(name) == runs.Drives && !run.Ended():
		w.drives(t, rt, run)
	case run.RoleOf(name) == runs.HandedOver && !run.Ended(): // its hand-over, once more: the successor by its name
		_, _ = w.machine.Start(t.Context(), run.Machine, run.Driver, run.Input)
		w.machine.End(name, executions.Succeeded)
	default:
		w.machine.End(name, executions.Succeeded) // stands down
	}
}

// drives lets the driver write the run, end it, or hand it over and die anywhere
// on the way.
func (w *world) drives(t *testing.T, rt *rapid.T, run runs.Run) {
	t.Helper()
	step := rapid.SampledFrom([]string{"issues", "hands over", "ends"}).Draw(rt, "step")
	next := map[string]runs.Run{"issues": run.Issued(nil, w.NewID()), "hands over": run.MovedOn(w.NewID()), "ends": run.Done(runs.Failure{}, w.now, w.NewID())}[step]
	next.WrittenAt = w.now
	if _, err := w.runs.Save(t.Context(), next); err != nil {
		return // it plans again
	}
	if step == "hands over" && rapid.Bool().Draw(rt, "starts its successor") {
		_, _ = w.machine.Start(t.Context(), next.Machine, next.Driver, next.Input)
	}
	if step != "issues" {
		w.machine.End(run.Driver, rapid.SampledFrom(ended).Draw(rt, "as"))
	}
}

// settled lets the faults pass, and everybody do their part: whoever tends, and a
// person who resumes what stays without a driver.
func (w *world) settled(t *testing.T, rt *rapid.T) {
	t.Helper()
	w.machine.Clear()
	w.runs.Clear()
	w.now = w.now.Add(time.Hour)
	run := w.stored(t)
	if !run.Exists() || run.Ended() {
		return
	}
	all := w.tended(t)
	if len(all) != 1 || all[0].Driver == executions.Missing {
		rt.Fatalf("the run is tended so: %+v", all)
	}
	if !all[0].Undriven() {
		return
	}
	got, err := w.Resume(t.Context(), theRun)
	if err != nil || got.Undriven() && got.Driver == executions.Missing || got.Run.Generation != run.Generation+1 {
		rt.Fatalf("resumed from generation %d: %+v, %v", run.Generation, got, err)
	}
}
