package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/executions/memexecutions"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/launch"
	"github.com/onceward/onceward/internal/runs/memruns"
)

// fleet is a rig whose executions are started by a launcher and by hand-overs, and
// live each on its own.
type fleet struct {
	*rig
	launch.Launcher
	machine *memexecutions.Machine
	now     time.Time
	lives   map[string]*life
}

// life is where an execution stands: what its next plan will bring.
type life struct {
	outcomes []runs.Outcome
	maps     int
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{rig: newRig(t), machine: memexecutions.New(), now: dawn, lives: map[string]*life{}}
	f.planner.Now = func() time.Time { return f.now }
	f.Launcher = launch.Launcher{
		Runs: f.runs, Machine: f.machine, StateMachine: f.planner.Machine, Now: f.planner.Now, NewID: rand.Text, Log: f.planner.Log,
	}
	return f
}

func named(generation int) string { return runs.ExecutionName(theRun, generation) }

// step lets the execution make one plan and what follows from it, or die at once
// if the planner can't answer. It reports what the planner said.
func (f *fleet) step(t *testing.T, name string) (Next, error) {
	t.Helper()
	l := f.lives[name]
	if l == nil {
		l = &life{}
		f.lives[name] = l
	}
	var input json.RawMessage
	for _, e := range f.machine.Executions() {
		if e.Name == name {
			input = e.Input
		}
	}
	answer, err := f.planner.Handle(t.Context(), request(string(input), l.outcomes, 0, name))
	if err != nil {
		return "", err
	}
	switch answer.Next {
	case CallTools:
		f.maps = l.maps
		l.outcomes = f.callTools(t, answer)
		l.maps = f.maps
	case GoOn:
		if _, err := f.machine.Start(t.Context(), answer.HandOver.StateMachine, answer.HandOver.Name, answer.HandOver.Input); err != nil {
			return GoOn, err // asked again: StartExecution is retried
		}
		f.machine.End(name, executions.Succeeded)
	case Succeed, StandDown:
		f.machine.End(name, executions.Succeeded)
	case Fail:
		f.machine.End(name, executions.Failed)
	}
	return answer.Next, nil
}

// drives lets the execution go on until it ends.
func (f *fleet) drives(t *testing.T, name string) Next {
	t.Helper()
	for range 100 {
		if next, err := f.step(t, name); err == nil && next != CallTools {
			return next
		}
	}
	t.Fatalf("%s does not end", name)
	return ""
}

func (f *fleet) effectsAre(t *testing.T, n int) {
	t.Helper()
	if len(f.effects) != n {
		t.Errorf("effects %v, want %d", f.effects, n)
	}
	for call, n := range f.effects {
		if n != 1 {
			t.Errorf("%s took effect %d times", call, n)
		}
	}
}

// Proves: R40
func TestDriverThatWakesUpAfterItsRunWasResumedStandsDownAndStartsNoOther(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	input := script("", []string{"issue_credit"}, []string{"issue_credit"}, []string{"issue_credit"})
	if _, err := f.Start(t.Context(), json.RawMessage(input)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if next, err := f.step(t, named(1)); next != CallTools || err != nil {
			t.Fatalf("the first says %s, %v", next, err)
		}
	}
	f.machine.End(named(1), executions.Aborted) // after its second call took effect, and before anybody heard of it
	if got, err := f.Resume(t.Context(), theRun); err != nil || !got.Started || got.Run.Driver != named(2) {
		t.Fatalf("resumed: %+v, %v", got, err)
	}
	if next, err := f.step(t, named(2)); next != CallTools || err != nil {
		t.Fatalf("the second says %s, %v", next, err)
	}
	f.machine.End(named(1), executions.Running) // redriven, it brings the outcome of its last Map
	if next := f.drives(t, named(1)); next != GoOn {
		t.Errorf("the first is told %s, want to start its successor by its name", next)
	}
	if n := len(f.machine.Executions()); n != 2 {
		t.Errorf("%d executions, want 2", n)
	}
	f.machine.End(named(2), executions.Aborted)
	if _, err := f.Resume(t.Context(), theRun); err != nil {
		t.Fatal(err)
	}
	f.machine.End(named(1), executions.Running)
	if next := f.drives(t, named(1)); next != StandDown {
		t.Errorf("two generations later the first is told %s", next)
	}
	if next := f.drives(t, named(3)); next != Succeed {
		t.Errorf("the third ends with %s", next)
	}
	f.machine.End(named(2), executions.Running)
	if next := f.drives(t, named(2)); next != StandDown {
		t.Errorf("after the end the second is told %s", next)
	}
	f.effectsAre(t, 3)
}

// long is a run that is handed over after a few turns.
func long() string {
	var turns [][]string
	for range 12 {
		turns = append(turns, []string{"find_order", "issue_credit", "issue_credit"})
	}
	return script("", turns...)
}

// untilHandOver lets the first driver go on until its hand-over, or an error.
func (f *fleet) untilHandOver(t *testing.T) error {
	t.Helper()
	f.rounds = 20
	if _, err := f.Start(t.Context(), json.RawMessage(long())); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		switch next, err := f.step(t, named(1)); {
		case err != nil:
			return err
		case next == GoOn:
			return nil
		case next != CallTools:
			t.Fatalf("the first says %s", next)
		}
	}
	t.Fatal("the first does not hand over")
	return nil
}

// The planner dies just before or after it stores the hand-over, or the
// execution with it as it starts its successor. Nobody asks again.
//
// Proves: R40, R145
func TestRunWhosePlannerDiesOfItsHandOverIsDrivenAgain(t *testing.T) {
	t.Parallel()
	calm := newFleet(t)
	if err := calm.untilHandOver(t); err != nil {
		t.Fatal(err)
	}
	handOver := countOps(calm.runs.Writes())[memruns.Save] // the last of its saves
	for name, c := range map[string]struct {
		arm    func(f *fleet)
		stored int  // the generation that stands then
		driven bool // already
		tended bool // enough, without a person
	}{
		"before it is stored":         {func(f *fleet) { f.runs.Lose(memruns.Save, handOver, false) }, 1, false, false},
		"once it is stored":           {func(f *fleet) { f.runs.Lose(memruns.Save, handOver, true) }, 2, false, true},
		"as it starts its successor":  {func(f *fleet) { f.machine.Lose(memexecutions.Start, 2, false) }, 2, false, true},
		"once its successor began":    {func(f *fleet) { f.machine.Lose(memexecutions.Start, 2, true) }, 2, true, true},
		"as its successor is refused": {func(f *fleet) { f.machine.Refuse(memexecutions.Start, 2) }, 2, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			c.arm(f)
			if err := f.untilHandOver(t); err == nil {
				t.Fatal("nothing was lost")
			}
			f.machine.End(named(1), executions.Failed)
			if run := f.stored(t); run.Generation != c.stored || run.Ended() {
				t.Fatalf("generation %d stands, want %d", run.Generation, c.stored)
			}
			f.now = f.now.Add(launch.GracePeriod)
			page, err := f.runs.Unended(t.Context(), runs.Query{AllTenants: true})
			if err != nil || len(page.Runs) != 1 {
				t.Fatalf("listed %+v, %v", page, err)
			}
			tended, err := f.Tend(t.Context(), page.Runs[0])
			if err != nil || tended.Undriven() == c.tended || tended.Started != (c.tended && !c.driven) {
				t.Fatalf("tended: %+v, %v", tended, err)
			}
			if tended.Undriven() {
				if _, err := f.Resume(t.Context(), theRun); err != nil {
					t.Fatal(err)
				}
			}
			execution := named(2)
			for next := f.drives(t, execution); next != Succeed; next = f.drives(t, execution) {
				if next != GoOn {
					t.Fatalf("%s ends with %s", execution, next)
				}
				execution = f.stored(t).Driver
			}
			f.effectsAre(t, 24)
		})
	}
}

// Proves: R3, R23, R40, R145
func TestEachEffectComesOnceWhoeverDrivesAndDiesWhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		f := newFleet(t)
		f.rounds = rapid.SampledFrom([]int{0, 20}).Draw(rt, "rounds")
		input := json.RawMessage(long())
		_, _ = f.Start(t.Context(), input)
		some := func() string {
			all := f.machine.Executions()
			if len(all) == 0 {
				return ""
			}
			return rapid.SampledFrom(all).Draw(rt, "execution").Name
		}
		rt.Repeat(map[string]func(*rapid.T){
			"start":         func(*rapid.T) { _, _ = f.Start(t.Context(), input) },
			"resume":        func(*rapid.T) { _, _ = f.Resume(t.Context(), theRun) },
			"tend":          func(*rapid.T) { f.now = f.now.Add(launch.GracePeriod); _, _ = f.Tend(t.Context(), f.stored(t)) },
			"dies":          func(*rapid.T) { f.machine.End(some(), executions.Aborted) },
			"is redriven":   func(*rapid.T) { f.machine.End(some(), executions.Running) },
			"save is lost":  func(rt *rapid.T) { f.runs.Lose(memruns.Save, 1, rapid.Bool().Draw(rt, "stored")) },
			"start is lost": func(rt *rapid.T) { f.machine.Lose(memexecutions.Start, 1, rapid.Bool().Draw(rt, "done")) },
			"goes on": func(*rapid.T) {
				if name := some(); f.under(name) == executions.Running {
					_, _ = f.step(t, name)
				}
			},
		})
		f.runs.Clear()
		f.machine.Clear()
		for range 40 { // everybody does their part
			run := f.stored(t)
			if run.Ended() {
				break
			}
			if !run.Exists() {
				if _, err := f.Start(t.Context(), input); err != nil {
					rt.Fatal(err)
				}
				continue
			}
			if _, err := f.Resume(t.Context(), theRun); err != nil && !errors.Is(err, launch.ErrDriven) {
				rt.Fatal(err)
			}
			f.drives(t, f.stored(t).Driver)
		}
		if run := f.stored(t); run.Status != runs.Succeeded || len(f.effects) != 24 {
			rt.Fatalf("the run is %s after %d effects", run.Status, len(f.effects))
		}
		f.effectsAre(t, 24)
	})
}

func (f *fleet) under(name string) executions.State {
	for _, e := range f.machine.Executions() {
		if e.Name == name {
			return e.State
		}
	}
	return executions.Missing
}

// A launcher can't know which inputs a planner has a model for.
func TestRunThatNobodyCanPlanEndsInsteadOfStayingListed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	if _, err := f.Start(t.Context(), json.RawMessage(plain())); err != nil {
		t.Fatal(err)
	}
	if next := f.drives(t, named(1)); next != Fail {
		t.Errorf("the planner says %s", next)
	}
	want := runs.Failure{Error: "Onceward.BadInput", Cause: "runs: input is wrong: script: missing"}
	if run := f.stored(t); run.Status != runs.Failed || run.Failure != want {
		t.Errorf("the run is %s, %+v", run.Status, run.Failure)
	}
}

// Step Functions writes an input that it hands on in its own way, and somebody
// may start the driver's name with an input of their own.
func TestRunIsPlannedByTheInputThatItWasBegunWith(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	input := script("", []string{"issue_credit"})
	f.machine.Lose(memexecutions.Start, 1, false)
	if _, err := f.Start(t.Context(), json.RawMessage(input)); err == nil {
		t.Fatal("its driver was started")
	}
	other := strings.Replace(script("tell", []string{"find_order"}, []string{"issue_credit"}), `"run_id"`, `"principal": {"permissions": ["everything"]}, "run_id"`, 1)
	if _, err := f.machine.Start(t.Context(), f.planner.Machine, named(1), json.RawMessage(other)); err != nil {
		t.Fatal(err)
	}
	answer := f.plan(t, request(other, nil, 0, named(1)))
	if answer.Next != CallTools || answer.Calls[0].Envelope.Call.Tool != "issue_credit" || len(answer.Calls[0].Envelope.Principal.Permissions) > 0 {
		t.Errorf("the planner says %s", wire(t, answer))
	}
	spaced := strings.ReplaceAll(input, `":`, `" : `)
	if again := f.plan(t, request(spaced, nil, 0, named(1))); cmp.Diff(wire(t, answer), wire(t, again)) != "" {
		t.Errorf("with its own input, written otherwise: %s", wire(t, again))
	}
	if _, err := f.runs.Save(t.Context(), f.stored(t).MovedOn("w")); err != nil {
		t.Fatal(err)
	}
	if next := f.plan(t, request(other, nil, 0, named(1))); next.Next != GoOn || string(next.HandOver.Input) != input {
		t.Errorf("it hands over with %s", wire(t, next))
	}
}
