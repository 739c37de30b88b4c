package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/executions/memexecutions"
	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/launch"
	"github.com/onceward/onceward/internal/runs/memruns"
)

var drives = operator.Identity{Tenant: "acme", Actor: "ada", Scopes: []string{"calls:read", "runs:drive"}}

// garage is a bench from which runs are driven.
type garage struct {
	*bench
	machine *memexecutions.Machine
}

func newGarage(t *testing.T) *garage {
	t.Helper()
	g := &garage{bench: newBench(t), machine: memexecutions.New()}
	ids := 0
	g.service = g.serviceWith(t, func(cfg *operator.Config) {
		cfg.Machine = g.machine
		cfg.Launcher = launch.Launcher{
			Runs: g.runs, Machine: g.machine, StateMachine: "arn:CANARY", Now: func() time.Time { return g.now }, Log: cfg.Log,
			NewID: func() string { ids++; return fmt.Sprint(canaryWrite, ids) },
		}
	})
	return g
}

func (g *garage) start(t *testing.T, id operator.Identity, input string) operator.Driven {
	t.Helper()
	got, err := g.service.StartRun(t.Context(), id, json.RawMessage(input))
	if err != nil {
		t.Fatal(err)
	}
	clean(t, got)
	return got
}

func TestARunIsStartedOnceWithTheTenantOfWhoeverStartsIt(t *testing.T) {
	t.Parallel()
	g := newGarage(t)
	input := `{"run_id":"run-9","agent":"billing-assistant","principal":{"subject":"` + canaryInput + `"}}`
	got := g.start(t, drives, input)
	want := operator.Driven{Started: true, Run: operator.RunLine{
		ID: "run-9", Agent: "billing-assistant", Status: operator.RunRunning, StartedAt: "2026-11-29T12:00:00Z", WrittenAt: "2026-11-29T12:00:00Z", Generation: 1,
		Driver: runs.ExecutionName(runs.ID{Tenant: "acme", Run: "run-9"}, 1), DriverState: "running",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, again := range []string{input, `{"tenant":"acme",` + input[1:]} {
		got = g.start(t, drives, again)
		if got.Started || got.Run.Generation != 1 {
			t.Errorf("%s: %+v", again, got)
		}
	}
	if stored, _ := g.runs.Load(t.Context(), runs.ID{Tenant: "acme", Run: "run-9"}); !strings.Contains(string(stored.Input), `"tenant":"acme"`) {
		t.Errorf("started with %s", stored.Input)
	}
	_, err := g.service.StartRun(t.Context(), drives, json.RawMessage(`{"run_id":"run-9"}`))
	wantProblem(t, err, operator.RunExists)
	for foreign, want := range map[string][]string{
		`{"run_id":"run-9","tenant":"evil"}`:                 {"body.tenant"},
		`{"run_id":"run-9","tenant":"acme","tenant":"evil"}`: {"body.tenant"},
		`{"run_id":"a b"}`:                                   {"body.run_id"},
		`{}`:                                                 {"body.run_id"},
		`[]`:                                                 {"body", "body.run_id"},
		``:                                                   {"body", "body.run_id"},
		`{"run_id":"r","nonsense":1,"script":{"turns":1}}`: {"body.nonsense", "body.script.turns"},
	} {
		_, err := g.service.StartRun(t.Context(), drives, json.RawMessage(foreign))
		var got []string
		for _, f := range theProblem(t, err, operator.InvalidRequest).Errors {
			got = append(got, f.Location)
			if strings.Contains(f.Message, "runs:") {
				t.Errorf("%s: %s", foreign, f.Message)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", foreign, diff)
		}
	}
	_, err = g.service.StartRun(t.Context(), ops, json.RawMessage(input))
	wantProblem(t, err, operator.MissingScope)
	if single := g.start(t, operator.Identity{Actor: "ada", Scopes: drives.Scopes}, `{"run_id":"run-9"}`); !single.Started {
		t.Errorf("without tenants: %+v", single)
	}
	if n := len(g.machine.Executions()); n != 2 {
		t.Errorf("%d executions", n)
	}
}

func TestAStartWhoseAnswerIsLostIsRepeatedWithoutASecondExecution(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{true, false} {
		g := newGarage(t)
		g.machine.Lose(memexecutions.Start, 1, done)
		_, err := g.service.StartRun(t.Context(), drives, json.RawMessage(`{"run_id":"run-9"}`))
		if p := theProblem(t, err, operator.RunNotStarted); p.Status != 503 || !strings.Contains(p.Detail, "The run is stored.") || strings.Contains(p.Detail, "may be stored") {
			t.Errorf("told %s", p.Detail)
		}
		got := g.start(t, drives, `{"run_id":"run-9"}`)
		if got.Started == done || got.Run.DriverState != "running" || len(g.machine.Executions()) != 1 {
			t.Errorf("done %t: %+v", done, got)
		}
		g = newGarage(t)
		g.runs.Lose(memruns.Save, 1, done)
		_, err = g.service.StartRun(t.Context(), drives, json.RawMessage(`{"run_id":"run-9"}`))
		wantProblem(t, err, operator.RunNotStarted)
		if got := g.start(t, drives, `{"run_id":"run-9"}`); !got.Started || len(g.machine.Executions()) != 1 {
			t.Errorf("stored %t: %+v", done, got)
		}
	}
}

func TestARunIsResumedOnlyWhileNothingDrivesIt(t *testing.T) {
	t.Parallel()
	g := newGarage(t)
	first := g.start(t, drives, `{"run_id":"run-9"}`).Run
	resume := func(id operator.Identity, run string) (operator.Driven, error) {
		t.Helper()
		return g.service.ResumeRun(t.Context(), id, run)
	}
	_, err := resume(drives, "run-9")
	wantProblem(t, err, operator.RunDriven)
	for _, nobody := range []string{"run-8", "", "acme/run-9", strings.Repeat("r", 61)} {
		_, err := resume(drives, nobody)
		wantProblem(t, err, operator.RunNotFound)
	}
	_, err = resume(operator.Identity{Tenant: "evil", Actor: "eve", Scopes: drives.Scopes}, "run-9")
	wantProblem(t, err, operator.RunNotFound)
	_, err = resume(ops, "run-9")
	wantProblem(t, err, operator.MissingScope)

	g.machine.End(first.Driver, executions.Aborted)
	shown, err := g.service.Run(t.Context(), drives, operator.RunQuery{RunID: "run-9"})
	if err != nil || shown.DriverState != "aborted" || !strings.Contains(shown.WhatToDo, "POST resume") {
		t.Errorf("%q, %q, %v", shown.DriverState, shown.WhatToDo, err)
	}
	got, err := resume(drives, "run-9")
	if err != nil || !got.Started || got.Run.Generation != 2 || got.Run.Driver == first.Driver || got.Run.DriverState != "running" {
		t.Errorf("%+v, %v", got, err)
	}
	run, _ := g.runs.Load(t.Context(), runs.ID{Tenant: "acme", Run: "run-9"})
	if _, err := g.runs.Save(t.Context(), run.Done(runs.Failure{}, g.now, canaryWrite)); err != nil {
		t.Fatal(err)
	}
	_, err = resume(drives, "run-9")
	wantProblem(t, err, operator.RunEnded)
	if shown, err := g.service.Run(t.Context(), drives, operator.RunQuery{RunID: "run-9"}); err != nil || shown.DriverState != "" || shown.WhatToDo != "" {
		t.Errorf("ended: %q, %q, %v", shown.DriverState, shown.WhatToDo, err)
	}
	if !strings.Contains(g.log.String(), `"actor":"ada"`) {
		t.Error("nobody can tell who resumed the run")
	}
}

func (g *garage) list(t *testing.T, f operator.RunFilter) operator.RunList {
	t.Helper()
	got, err := g.service.ListRuns(t.Context(), drives, f)
	if err != nil {
		t.Fatal(err)
	}
	clean(t, got)
	return got
}

func idsOf(list operator.RunList) (ids []string) {
	for _, line := range list.Items {
		ids = append(ids, line.ID+" "+string(line.DriverState))
	}
	return ids
}

func TestRunsThatNothingDrivesAreListedOldestFirstPageByPage(t *testing.T) {
	t.Parallel()
	g := newGarage(t)
	var all, missing []string
	for i := range 23 {
		name := fmt.Sprintf("run-%02d", i)
		if i%3 == 2 {
			g.machine.Lose(memexecutions.Start, 1, false)
			_, err := g.service.StartRun(t.Context(), drives, json.RawMessage(`{"run_id":"`+name+`"}`))
			wantProblem(t, err, operator.RunNotStarted)
			all, missing = append(all, name+" missing"), append(missing, name+" missing")
		} else if driver := g.start(t, drives, `{"run_id":"`+name+`"}`).Run.Driver; i%3 == 1 {
			g.machine.End(driver, executions.Failed)
			all, missing = append(all, name+" failed"), append(missing, name+" failed")
		} else {
			all = append(all, name+" running")
		}
		g.now = g.now.Add(time.Second)
	}
	g.start(t, operator.Identity{Tenant: "evil", Actor: "eve", Scopes: drives.Scopes}, `{"run_id":"run-00"}`)
	for filter, want := range map[string][]string{"": all, operator.AnyDriver: all, operator.MissingDriver: missing} {
		for _, limit := range []int{0, 1, 4, 50} {
			var got []string
			for cursor := ""; ; {
				page := g.list(t, operator.RunFilter{Driver: filter, Limit: limit, Cursor: cursor})
				got = append(got, idsOf(page)...)
				if limit > 0 && len(page.Items) > limit {
					t.Errorf("%d on a page of %d", len(page.Items), limit)
				}
				if cursor = page.NextCursor; cursor == "" {
					break
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("driver %q, limit %d (-want +got):\n%s", filter, limit, diff)
			}
		}
	}
	for _, line := range g.list(t, operator.RunFilter{Driver: operator.MissingDriver}).Items {
		if line.WhatToDo == "" {
			t.Errorf("%+v", line)
		}
	}
	for _, wrong := range []operator.RunFilter{{Limit: -1}, {Limit: operator.MaxRuns + 1}, {Driver: "none"}} {
		_, err := g.service.ListRuns(t.Context(), drives, wrong)
		wantProblem(t, err, operator.InvalidRequest)
	}
	first := g.list(t, operator.RunFilter{Limit: 1})
	_, err := g.service.ListRuns(t.Context(), drives, operator.RunFilter{Driver: operator.MissingDriver, Cursor: first.NextCursor})
	wantProblem(t, err, operator.InvalidCursor)
	_, err = g.service.ListRuns(t.Context(), operator.Identity{Tenant: "acme", Actor: "a", Scopes: []string{"runs:drive"}}, operator.RunFilter{})
	wantProblem(t, err, operator.MissingScope)
}

func TestARunWhoseDriverCannotBeLookedAtIsNotSaidToBeDriven(t *testing.T) {
	t.Parallel()
	g := newGarage(t)
	g.start(t, drives, `{"run_id":"run-9"}`)
	g.machine.Lose(memexecutions.State, 1, true)
	if got := idsOf(g.list(t, operator.RunFilter{Driver: operator.MissingDriver})); !slices.Equal(got, []string{"run-9 unknown"}) {
		t.Errorf("listed %v", got)
	}
	g.machine.Lose(memexecutions.State, 1, true)
	if shown, err := g.service.Run(t.Context(), drives, operator.RunQuery{RunID: "run-9"}); err != nil || shown.DriverState != operator.DriverUnknown {
		t.Errorf("%q, %v", shown.DriverState, err)
	}
}

func TestARunThatWasHandedOverMeanwhileIsShownWithItsNewDriver(t *testing.T) {
	t.Parallel()
	g := newGarage(t)
	first := g.start(t, drives, `{"run_id":"run-9"}`).Run
	g.machine.End(first.Driver, executions.Succeeded)
	behind, _ := g.runs.Load(t.Context(), runs.ID{Tenant: "acme", Run: "run-9"})
	if _, err := g.service.ResumeRun(t.Context(), drives, "run-9"); err != nil { // as the planner does when it hands over
		t.Fatal(err)
	}
	service := g.serviceWith(t, func(cfg *operator.Config) { cfg.Machine, cfg.Runs = g.machine, &lagging{Store: g.runs, run: behind} })
	shown, err := service.Run(t.Context(), drives, operator.RunQuery{RunID: "run-9"})
	if err != nil || shown.Generation != 2 || shown.DriverState != "running" || shown.Driver == first.Driver {
		t.Errorf("%+v, %v", shown, err)
	}
}

// lagging reads a run as it was, once.
type lagging struct {
	runs.Store
	run  runs.Run
	read bool
}

func (l *lagging) Load(ctx context.Context, id runs.ID) (runs.Run, error) {
	if !l.read {
		l.read = true
		return l.run, nil
	}
	return l.Store.Load(ctx, id)
}

func TestWithoutALauncherNoRunIsStarted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	service := b.serviceWith(t, func(cfg *operator.Config) { cfg.Launcher = nil })
	_, err := service.StartRun(t.Context(), drives, json.RawMessage(`{"run_id":"run-9"}`))
	wantProblem(t, err, operator.Internal)
	if errors.Unwrap(err) == nil {
		t.Error("the log could not say why")
	}
}
