package operator

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"

	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/launch"
)

// Launcher starts runs and gives runs without a driver one again, as
// [launch.Launcher] does. It must be safe for concurrent use.
type Launcher interface {
	Start(ctx context.Context, raw json.RawMessage) (launch.Launched, error)
	Resume(ctx context.Context, id runs.ID) (launch.Launched, error)
}

// DriverState is where the execution stands that a run names as its driver.
type DriverState string

// DriverUnknown says that the execution could not be looked at. The other states
// are those of package executions.
const DriverUnknown DriverState = "unknown"

// driven reports whether somebody drives the run, as far as is known.
func (d DriverState) driven() bool { return d == DriverState(executions.Running) }

// RunLine is a run with its driver, without its turns.
type RunLine struct {
	ID          string      `json:"id"`
	Agent       string      `json:"agent"`
	Status      RunStatus   `json:"status" enum:"running,succeeded,failed" doc:"running until it has ended; GET /v1/runs/{run_id} says what it waits on"`
	StartedAt   string      `json:"started_at" format:"date-time"`
	EndedAt     string      `json:"ended_at,omitempty" format:"date-time" doc:"Absent until it has ended"`
	WrittenAt   string      `json:"written_at,omitempty" format:"date-time" doc:"When its driver last moved it, or somebody gave it another driver"`
	Generation  int         `json:"generation" doc:"Counts the executions that have driven it"`
	Driver      string      `json:"driver" doc:"The name of the execution that drives it, or did last"`
	DriverState DriverState `json:"driver_state,omitempty" enum:"missing,running,succeeded,failed,timed_out,aborted,unknown" doc:"Where that execution stands, looked up just now: missing if it has never been started, unknown if it could not be looked at. Absent once the run has ended"`
	WhatToDo    string      `json:"what_to_do,omitempty" doc:"Present if nothing drives the run"`
}

// Driven is what a start or a resumption is answered with.
type Driven struct {
	Run     RunLine `json:"run"`
	Started bool    `json:"started" doc:"Whether this request started an execution"`
}

// What to do about a run that nothing drives.
const (
	driverMissing = "The execution that the run names has not been started. The sweeper starts it; POST resume does at once."
	driverEnded   = "The execution that drove the run has ended without ending it. POST resume starts its next generation, which goes on from where the run stands."
)

// StartRun starts a run of the identity's tenant. input is the run's input, see
// [runs.ParseInput]; a tenant in it must be the identity's. The run is stored first,
// then its execution is started. The same input again returns the same run.
// Problems: [InvalidRequest], [RunExists]: nothing was changed; [RunNotStarted]: the
// run may stand, with or without a driver.
func (s *Service) StartRun(ctx context.Context, id Identity, input json.RawMessage) (Driven, error) {
	if err := id.May(DriveRuns); err != nil {
		return Driven{}, err
	}
	raw, err := ownInput(id, input)
	if err != nil {
		return Driven{}, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.launched(ctx, id, "started", func() (launch.Launched, error) { return s.cfg.Launcher.Start(ctx, raw) })
}

// ResumeRun gives a run of the identity's tenant that nothing drives a driver
// again. Problems: [RunNotFound], [RunEnded], [RunDriven]: nothing was changed;
// [RunNotStarted]: the run may have been given a driver.
func (s *Service) ResumeRun(ctx context.Context, id Identity, runID string) (Driven, error) {
	if err := id.May(DriveRuns); err != nil {
		return Driven{}, err
	}
	run := runs.ID{Tenant: id.Tenant, Run: runID}
	if run.Check() != nil {
		return Driven{}, problem(RunNotFound, "")
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.launched(ctx, id, "resumed", func() (launch.Launched, error) { return s.cfg.Launcher.Resume(ctx, run) })
}

func (s *Service) launched(ctx context.Context, id Identity, what string, do func() (launch.Launched, error)) (Driven, error) {
	if s.cfg.Launcher == nil {
		return Driven{}, problem(Internal, "").because(errNoLauncher)
	}
	l, err := do()
	if err != nil {
		return Driven{}, notLaunched(l, err)
	}
	line := lineOf(l.Run, DriverState(l.Driver))
	s.cfg.Log.LogAttrs(ctx, slog.LevelInfo, "a person "+what+" a run", slog.String("actor", id.Actor), slog.String("run", l.Run.ID),
		slog.Int("generation", l.Run.Generation), slog.Bool("execution_started", l.Started))
	return Driven{Run: line, Started: l.Started}, nil
}

var errNoLauncher = errors.New("operator: nothing here starts runs")

func notLaunched(l launch.Launched, err error) error {
	var code Code
	occurrence := ""
	switch {
	case errors.Is(err, runs.ErrBadInput):
		return wrongInput(err)
	case errors.Is(err, launch.ErrOtherInput):
		code = RunExists
	case errors.Is(err, launch.ErrNoRun):
		code = RunNotFound
	case errors.Is(err, launch.ErrEnded):
		code = RunEnded
	case errors.Is(err, launch.ErrDriven):
		code = RunDriven
	case errors.Is(err, runs.ErrCorrupt):
		return unreadableRun("the run", err)
	default:
		code, occurrence = RunNotStarted, "the run may be stored or not"
		if l.Run.Exists() {
			occurrence = "the run is stored"
		}
	}
	return problem(code, occurrence).because(err)
}

// wrongInput names every wrong field of a run's input.
func wrongInput(err error) *Problem {
	var wrong invalid
	if input, ok := errors.AsType[*runs.InputError](err); ok {
		for _, f := range input.Fields {
			wrong.add(strings.TrimSuffix("body."+f.Path, "."), f.Why)
		}
	} else {
		wrong.add("body", "can't be used as a run's input")
	}
	return wrong.list().because(err)
}

// ownInput returns the input with the identity's tenant in it.
func ownInput(id Identity, input json.RawMessage) (json.RawMessage, error) {
	in, err := runs.ParseInput(input)
	if err != nil {
		return nil, notLaunched(launch.Launched{}, err)
	}
	switch in.ID.Tenant {
	case id.Tenant:
		return input, nil
	case "":
	default:
		var wrong invalid
		wrong.add("body.tenant", "is not the tenant of your token; leave it out")
		return nil, wrong.problem()
	}
	var members map[string]json.RawMessage // no name stands twice in it, or it would not have been taken
	if err := json.Unmarshal(input, &members); err != nil {
		return nil, problem(Internal, "").because(err)
	}
	if members["tenant"], err = json.Marshal(id.Tenant); err != nil {
		return nil, problem(Internal, "").because(err)
	}
	own, err := json.Marshal(members)
	if err != nil {
		return nil, problem(Internal, "").because(err)
	}
	if _, err := runs.ParseInput(own); err != nil { // the tenant may have made it too long
		return nil, notLaunched(launch.Launched{}, err)
	}
	return own, nil
}

func lineOf(run runs.Run, state DriverState) RunLine {
	v := RunLine{
		ID: run.ID, Agent: run.Agent, Status: statusOf(run), StartedAt: stamp(run.StartedAt), EndedAt: stamp(run.EndedAt), WrittenAt: stamp(run.WrittenAt),
		Generation: run.Generation, Driver: run.Driver,
	}
	if !run.Ended() {
		v.DriverState, v.WhatToDo = state, driverToDo(state)
	}
	return v
}

func driverToDo(state DriverState) string {
	switch {
	case state == DriverState(executions.Missing):
		return driverMissing
	case executions.State(state).Ended():
		return driverEnded
	}
	return ""
}

func statusOf(run runs.Run) RunStatus {
	switch run.Status {
	case runs.Succeeded:
		return RunSucceeded
	case runs.Failed:
		return RunFailed
	case runs.Running:
	}
	return RunRunning
}

// lookAtDriver returns the run as it stands, with the state of its driver. A
// driver that is found not to run may have handed the run over or ended it since
// the run was read, so the run is read again.
func (s *Service) lookAtDriver(ctx context.Context, run runs.Run) (runs.Run, DriverState, error) {
	for range 2 {
		if run.Ended() || s.cfg.Machine == nil {
			return run, "", nil
		}
		state, err := s.cfg.Machine.State(ctx, run.Machine, run.Driver)
		if err != nil {
			s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "a run's driver is not looked at", slog.String("run", run.ID), slog.Any("error", err))
			return run, DriverUnknown, nil
		}
		if state == executions.Running {
			return run, DriverState(state), nil
		}
		stands, err := s.cfg.Runs.Load(ctx, run.Key())
		if err != nil {
			return run, DriverUnknown, err
		}
		if stands.Driver == run.Driver && !stands.Ended() {
			return stands, DriverState(state), nil
		}
		run = stands
	}
	return run, DriverUnknown, nil // handed over twice meanwhile: it is driven, and nobody knows by whom
}
