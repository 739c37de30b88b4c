package launch_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/executions/memexecutions"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/launch"
)

// ended are the states of an execution that does nothing any more.
var ended = []executions.State{executions.Succeeded, executions.Failed, executions.TimedOut, executions.Aborted}

// Proves: R40
func TestRunIsStoredBeforeItsDriverIsStartedUnderTheNameThatItStores(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.machine.OnStart(func(e memexecutions.Execution) {
		run := w.stored(t)
		if run.Driver != e.Name || run.Machine != e.Machine || run.RoleOf(e.Name) != runs.Drives {
			t.Errorf("%s began on %s, and RUN is %+v", e.Name, e.Machine, run)
		}
	})
	got, err := w.Start(t.Context(), plain())
	want := launch.Launched{Driver: executions.Running, Started: true, Run: runs.Run{
		Tenant: "acme", ID: "run-1", Agent: "billing-assistant", Subject: "user-1", StartedAt: dawn, Status: runs.Running, Generation: 1, Driver: named(1),
		Machine: versionARN, Version: 1, LastWrite: "w1", WrittenAt: dawn, Input: plain(), ActiveLimit: time.Minute,
	}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("started: %v (-want +got):\n%s", err, diff)
	}
	if all := w.machine.Executions(); len(all) != 1 || string(all[0].Input) != string(plain()) {
		t.Errorf("executions %+v", all)
	}
}

func TestInputThatIsWrongStartsNothingAndStoresNothing(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, `{}`, `{"run_id": "a b"}`, `{"run_id": "run-1", "more": 1}`, `{"run_id": "run-1", "limits": {"active_seconds": 0}}`} {
		w := newWorld()
		if _, err := w.Start(t.Context(), json.RawMessage(raw)); !errors.Is(err, runs.ErrBadInput) {
			t.Errorf("%s: err = %v", raw, err)
		}
		if len(w.runs.Writes()) > 0 || len(w.machine.Requests()) > 0 {
			t.Errorf("%s: %v, %v", raw, w.runs.Writes(), w.machine.Requests())
		}
	}
}

func TestLauncherWithoutAMachineStoresNoRunThatItCouldNotStart(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.StateMachine = ""
	if _, err := w.Start(t.Context(), plain()); !errors.Is(err, launch.ErrNoMachine) || len(w.runs.Writes()) > 0 {
		t.Errorf("err = %v, writes %v", err, w.runs.Writes())
	}
}

func TestStartThatIsRepeatedFindsTheRunAndItsDriver(t *testing.T) {
	t.Parallel()
	spaced := json.RawMessage(strings.ReplaceAll(string(plain()), ":", " : "))
	for _, again := range []json.RawMessage{plain(), spaced} {
		w := begun(t)
		got, err := w.Start(t.Context(), again)
		if err != nil || got.Started || got.Driver != executions.Running || got.Run.Version != 1 {
			t.Errorf("repeated: %+v, %v", got, err)
		}
		w.machine.End(named(1), executions.Failed)
		got, err = w.Start(t.Context(), again)
		if err != nil || got.Started || !got.Undriven() || w.names() != named(1) {
			t.Errorf("repeated after its driver has failed: %+v, %v; started %s", got, err, w.names())
		}
		w.machine.Forget(named(1))
		got, err = w.Start(t.Context(), again)
		if err != nil || !got.Started || got.Run.Generation != 1 {
			t.Errorf("repeated without its driver: %+v, %v", got, err)
		}
		if _, err = w.runs.Save(t.Context(), w.stored(t).Done(runs.Failure{}, dawn, "end")); err != nil {
			t.Fatal(err)
		}
		w.machine.Forget(named(1))
		got, err = w.Start(t.Context(), again)
		if err != nil || got.Started || got.Run.Status != runs.Succeeded || got.Undriven() || w.names() != "" {
			t.Errorf("repeated after the run's end: %+v, %v", got, err)
		}
	}
}

func TestStartOfAnotherRunUnderTheSameIDIsRefused(t *testing.T) {
	t.Parallel()
	w := begun(t)
	for _, other := range []string{`{"run_id": "run-1", "tenant": "acme"}`, strings.Replace(string(plain()), "60", "61", 1)} {
		got, err := w.Start(t.Context(), json.RawMessage(other))
		if !errors.Is(err, launch.ErrOtherInput) || got.Run.Exists() {
			t.Errorf("%s: %+v, %v", other, got, err)
		}
	}
	if w.stored(t).Version != 1 || w.names() != named(1) {
		t.Errorf("it stored %+v and started %s", w.stored(t), w.names())
	}
	if got, err := w.Start(t.Context(), json.RawMessage(`{"run_id": "run-1", "tenant": "other"}`)); err != nil || !got.Started {
		t.Errorf("another tenant's run: %+v, %v", got, err)
	}
}

// Proves: R40
func TestResumeMovesARunOnlyFromADriverThatHasEnded(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if _, err := w.Resume(t.Context(), theRun); !errors.Is(err, launch.ErrNoRun) {
		t.Errorf("no run: %v", err)
	}
	w = begun(t)
	if got, err := w.Resume(t.Context(), theRun); !errors.Is(err, launch.ErrDriven) || got.Run.Driver != named(1) || w.stored(t).Version != 1 {
		t.Errorf("driven: %+v, %v", got, err)
	}
	w = unborn(t)
	if got, err := w.Resume(t.Context(), theRun); err != nil || !got.Started || got.Run.Generation != 1 || w.stored(t).Version != 1 || w.names() != named(1) {
		t.Errorf("a driver that was never started: %+v, %v", got, err)
	}
	for _, as := range ended {
		w = driverless(t, as)
		got, err := w.Resume(t.Context(), theRun)
		if err != nil || !got.Started || got.Driver != executions.Running || got.Run.Generation != 2 || got.Run.Driver != named(2) || got.Run.Previous != named(1) {
			t.Errorf("%s: %+v, %v", as, got, err)
		}
		if all := w.machine.Executions(); len(all) != 2 || all[1].Name != named(2) || string(all[1].Input) != string(plain()) || all[1].Machine != versionARN {
			t.Errorf("%s: executions %+v", as, all)
		}
		if got, err := w.Resume(t.Context(), theRun); !errors.Is(err, launch.ErrDriven) || got.Run.Generation != 2 {
			t.Errorf("%s, resumed again: %+v, %v", as, got, err)
		}
		if _, err := w.runs.Save(t.Context(), w.stored(t).Done(runs.Failure{}, dawn, "end")); err != nil {
			t.Fatal(err)
		}
		w.machine.End(named(2), executions.Succeeded)
		if got, err := w.Resume(t.Context(), theRun); !errors.Is(err, launch.ErrEnded) || got.Run.Status != runs.Succeeded {
			t.Errorf("%s, after the end: %+v, %v", as, got, err)
		}
	}
}

// A run that somebody started with StartExecution alone chose its driver's name.
func TestResumeOfARunThatNamedItselfStartsADriverOfAnotherName(t *testing.T) {
	t.Parallel()
	for _, own := range []string{"my-execution", named(2)} {
		w := newWorld()
		run := runs.Begin(runs.Start{ID: theRun, Input: plain(), Execution: own, Machine: versionARN, At: dawn}, "w0")
		if _, err := w.runs.Save(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		if _, err := w.machine.Start(t.Context(), versionARN, own, plain()); err != nil {
			t.Fatal(err)
		}
		w.machine.End(own, executions.Aborted)
		got, err := w.Resume(t.Context(), theRun)
		if err != nil || !got.Started || got.Run.Driver == own || got.Run.Previous != own {
			t.Errorf("%s: %+v, %v", own, got, err)
		}
	}
}

func TestTendStartsOnlyADriverThatWasNeverStartedAndOnlyAfterAWhile(t *testing.T) {
	t.Parallel()
	w := begun(t)
	run := w.stored(t)
	if got, err := w.Tend(t.Context(), run); err != nil || got.Driver != executions.Running || got.Started || got.Undriven() {
		t.Errorf("driven: %+v, %v", got, err)
	}
	for _, as := range ended {
		w = driverless(t, as)
		w.now = w.now.Add(time.Hour)
		got, err := w.Tend(t.Context(), w.stored(t))
		if err != nil || got.Started || got.Driver != as || !got.Undriven() || w.stored(t).Version != 1 || w.names() != named(1) {
			t.Errorf("%s: %+v, %v", as, got, err)
		}
	}
	w = unborn(t)
	w.now = dawn.Add(launch.GracePeriod - time.Millisecond)
	if got, err := w.Tend(t.Context(), w.stored(t)); err != nil || got.Started || got.Driver != executions.Missing || !got.Undriven() || w.names() != "" {
		t.Errorf("whoever stored it may be starting it: %+v, %v", got, err)
	}
	w.now = dawn.Add(launch.GracePeriod)
	if got, err := w.Tend(t.Context(), w.stored(t)); err != nil || !got.Started || got.Undriven() || w.names() != named(1) || w.stored(t).Version != 1 {
		t.Errorf("nobody started it: %+v, %v", got, err)
	}
}

// Proves: R119
func TestRunOfAnExecutionThatEndedBeforeItsFirstPlanIsListedAndCanBeResumed(t *testing.T) {
	t.Parallel()
	const own = "by-hand"
	w := newWorld()
	if _, err := w.machine.Start(t.Context(), versionARN, own, plain()); err != nil {
		t.Fatal(err)
	}
	orphan := launch.Orphan{Machine: versionARN, Execution: own, Input: plain(), StartedAt: dawn.Add(-time.Minute)}
	if adopted, err := w.Adopt(t.Context(), orphan); adopted || err != nil || w.stored(t).Exists() {
		t.Fatalf("while it runs: %t, %v", adopted, err)
	}
	w.machine.End(own, executions.Failed)
	for name, of := range map[string]launch.Orphan{
		"of another machine":       {Machine: strings.Replace(versionARN, ":m:7", ":other:7", 1), Execution: own, Input: plain()},
		"that there never was":     {Machine: versionARN, Execution: "x", Input: plain()},
		"whose input is no run's":  {Machine: versionARN, Execution: own, Input: json.RawMessage(`{}`)},
		"whose input did not come": {Machine: versionARN, Execution: own},
	} {
		if adopted, _ := w.Adopt(t.Context(), of); adopted || w.stored(t).Exists() {
			t.Errorf("an execution %s was adopted", name)
		}
	}
	if adopted, err := w.Adopt(t.Context(), orphan); !adopted || err != nil {
		t.Fatalf("%t, %v", adopted, err)
	}
	if all := w.tended(t); len(all) != 1 || !all[0].Undriven() || all[0].Started || !all[0].Run.StartedAt.Equal(orphan.StartedAt) {
		t.Errorf("%+v", all)
	}
	if got, err := w.Resume(t.Context(), theRun); err != nil || !got.Started || got.Run.Previous != own {
		t.Errorf("%+v, %v", got, err)
	}
	if adopted, err := w.Adopt(t.Context(), orphan); adopted || err != nil || w.stored(t).Previous != own {
		t.Errorf("a second time: %t, %v", adopted, err)
	}
}

// Step Functions forgets an execution some time after it has ended; a person may
// have stopped it.
func TestDriverThatIsForgottenIsNotStartedAgainAndResumeGivesTheNextOne(t *testing.T) {
	t.Parallel()
	for name, planned := range map[string]bool{"it has planned": true, "it never planned": false} {
		w := driverless(t, executions.Aborted)
		if planned {
			run := w.stored(t)
			run.Step.Plan = 1
			if _, err := w.runs.Save(t.Context(), run.Issued(nil, "planned")); err != nil {
				t.Fatal(err)
			}
		}
		w.machine.Forget(named(1))
		w.now = w.now.Add(time.Hour)
		if !planned {
			w.now = w.now.Add(91 * 24 * time.Hour)
		}
		if got, err := w.Tend(t.Context(), w.stored(t)); err != nil || got.Started || !got.Undriven() || w.names() != "" {
			t.Errorf("%s: tended: %+v, %v", name, got, err)
		}
		if got, err := w.Start(t.Context(), plain()); err != nil || got.Started || w.names() != "" {
			t.Errorf("%s: started again: %+v, %v", name, got, err)
		}
		if got, err := w.Resume(t.Context(), theRun); err != nil || !got.Started || got.Run.Generation != 2 || w.names() != named(2) {
			t.Errorf("%s: resumed: %+v, %v", name, got, err)
		}
	}
}

// The list may be behind; whoever is on it may have gone on.
func TestTendOfARunThatHasMovedSinceItWasListedLooksAtTheRunThatStands(t *testing.T) {
	t.Parallel()
	listed := func(w *world) runs.Run { t.Helper(); return w.stored(t) }
	save := func(w *world, run runs.Run) {
		t.Helper()
		if _, err := w.runs.Save(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	w := begun(t)
	old := listed(w)
	save(w, old.MovedOn("w9"))
	w.machine.End(named(1), executions.Succeeded)
	w.now = w.now.Add(time.Hour)
	if got, err := w.Tend(t.Context(), old); err != nil || !got.Started || got.Run.Driver != named(2) {
		t.Errorf("handed over, its successor not started: %+v, %v", got, err)
	}
	if got, err := w.Tend(t.Context(), old); err != nil || got.Started || got.Driver != executions.Running || got.Run.Driver != named(2) {
		t.Errorf("handed over: %+v, %v", got, err)
	}
	w = begun(t)
	old = listed(w)
	save(w, old.Done(runs.Failure{}, dawn, "w9"))
	w.machine.End(named(1), executions.Succeeded)
	w.machine.Forget(named(1))
	if got, err := w.Tend(t.Context(), old); err != nil || got.Started || !got.Run.Ended() || got.Undriven() || w.names() != "" {
		t.Errorf("ended: %+v, %v", got, err)
	}
	gone := old
	gone.ID = "expired-since"
	if got, err := w.Tend(t.Context(), gone); err != nil || got.Started || got.Run.Exists() || w.names() != "" {
		t.Errorf("expired: %+v, %v", got, err)
	}
}

// Proves: R23, R40
func TestOfManyStartsResumesAndTendsAtOnceOneGenerationComes(t *testing.T) {
	t.Parallel()
	w := newWorld()
	at := func(act func() (launch.Launched, error)) map[string]int {
		said := map[string]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				got, err := act()
				mu.Lock()
				defer mu.Unlock()
				if err != nil && !errors.Is(err, launch.ErrDriven) {
					t.Error(err)
				}
				said[got.Run.Driver]++
			})
		}
		all.Wait()
		return said
	}
	if said := at(func() (launch.Launched, error) { return w.Start(t.Context(), plain()) }); said[named(1)] != 16 || w.names() != named(1) {
		t.Errorf("16 starts: %v, executions %s", said, w.names())
	}
	w.machine.End(named(1), executions.Aborted)
	if said := at(func() (launch.Launched, error) { return w.Resume(t.Context(), theRun) }); said[named(2)] != 16 || w.names() != named(1)+" "+named(2) {
		t.Errorf("16 resumes: %v, executions %s", said, w.names())
	}
	w.machine.Forget(named(2))
	w.now = w.now.Add(time.Hour)
	run := w.stored(t)
	if said := at(func() (launch.Launched, error) { return w.Tend(t.Context(), run) }); said[named(2)] != 16 || w.names() != named(1)+" "+named(2) {
		t.Errorf("16 tends: %v, executions %s", said, w.names())
	}
}

// late lets something happen just before a run is saved.
type late struct {
	runs.Store
	before func()
}

func (s *late) Save(ctx context.Context, run runs.Run) (runs.Run, error) {
	if happens := s.before; happens != nil {
		s.before = nil
		happens()
	}
	return s.Store.Save(ctx, run)
}

func TestWhoeverLosesTheMoveHearsOfTheRunThatWon(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(t *testing.T, w *world)
		err       error
		started   bool
		drives    string
	}{
		"another resumed it and started the driver": {func(t *testing.T, w *world) {
			t.Helper()
			if _, err := w.Resume(t.Context(), theRun); err != nil {
				t.Error(err)
			}
		}, nil, false, named(2)},
		"another resumed it and died": {func(t *testing.T, w *world) {
			t.Helper()
			if _, err := w.runs.Save(t.Context(), w.stored(t).MovedOn("other")); err != nil {
				t.Error(err)
			}
		}, nil, true, named(2)},
		"the driver's last plan ended the run": {func(t *testing.T, w *world) {
			t.Helper()
			if _, err := w.runs.Save(t.Context(), w.stored(t).Done(runs.Failure{}, dawn, "other")); err != nil {
				t.Error(err)
			}
		}, launch.ErrEnded, false, named(1)},
		"the driver was redriven and went on": {func(t *testing.T, w *world) {
			t.Helper()
			w.machine.End(named(1), executions.Running)
			if _, err := w.runs.Save(t.Context(), w.stored(t).Issued(nil, "other")); err != nil {
				t.Error(err)
			}
		}, nil, false, named(1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := driverless(t, executions.Failed)
			mine := w.Launcher
			mine.Runs = &late{Store: w.runs, before: func() { c.meanwhile(t, w) }}
			got, err := mine.Resume(t.Context(), theRun)
			if !errors.Is(err, c.err) || got.Started != c.started || got.Run.Driver != c.drives {
				t.Errorf("resume = %+v, %v", got, err)
			}
			if run := w.stored(t); run.Generation > 2 {
				t.Errorf("generation %d", run.Generation)
			}
			w.accounted(t)
		})
	}
}
