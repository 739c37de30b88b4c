// Package launch starts the executions that drive runs. A run's record names its
// driver before there is one, so whatever stops between the two leaves a run that
// is listed as unended and a name that anybody may start, which is always safe.
// Start with [Launcher.Start]; [Launcher.Resume] is for people and
// [Launcher.Tend] for whoever looks after all runs.
package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/onceward/onceward/internal/canonjson"
	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/runs"
)

// What a launcher refuses. Nothing was stored and nothing started.
var (
	ErrOtherInput = errors.New("launch: there is a run of this id with another input")
	ErrNoRun      = errors.New("launch: there is no such run")
	ErrEnded      = errors.New("launch: the run has ended")
	ErrDriven     = errors.New("launch: the run is being driven")
	ErrNoMachine  = errors.New("launch: no state machine is set for new runs")
)

// errMoves reports a run that others keep moving while it is looked at.
var errMoves = errors.New("launch: not known whether the run has a driver: it keeps moving; resume it again")

// GracePeriod is how long whoever moved a run has to start the driver that it
// named before [Launcher.Tend] does.
const GracePeriod = 30 * time.Second

// Launcher starts drivers. It is safe for concurrent use, also by several
// processes at once.
type Launcher struct {
	Runs         runs.Store
	Machine      executions.Machine
	StateMachine string // ARN, with version, that new runs are driven on
	Now          func() time.Time
	NewID        func() string // fresh and random, names a write
	Log          *slog.Logger
}

// Launched is a run with its driver.
type Launched struct {
	Run     runs.Run
	Driver  executions.State // of the execution that Run names; "" where it was not looked at
	Started bool             // just now, by this call or another at the same moment
}

// Undriven reports whether nobody drives the run, as far as was looked.
func (l Launched) Undriven() bool {
	return !l.Run.Ended() && (l.Driver == executions.Missing || l.Driver.Ended())
}

// Start begins the run that raw describes, and starts its first driver. To repeat
// it with the same input returns the run that stands, and starts its driver if
// there has been none. [runs.ErrBadInput], [ErrNoMachine] and [ErrOtherInput]
// mean that nothing was stored. After any other error the run may stand, with or
// without a driver: Launched.Run says so if it is known, and Start may be
// repeated.
func (l Launcher) Start(ctx context.Context, raw json.RawMessage) (Launched, error) {
	in, err := runs.ParseInput(raw)
	if err == nil && l.StateMachine == "" {
		err = ErrNoMachine
	}
	if err != nil {
		return Launched{}, err
	}
	run := runs.Begin(in.Start(raw, runs.ExecutionName(in.ID, 1), l.StateMachine, l.Now()), l.NewID())
	// Stored now: that there is a run, and the name of its driver, of which there is
	// none yet. If we stop here it is listed, and Tend starts the driver.
	stands, err := l.save(ctx, run)
	switch {
	case err == nil:
		return l.begin(ctx, stands)
	case !errors.Is(err, runs.ErrStale):
		return Launched{}, err
	case !sameInput(stands.Input, raw):
		return Launched{}, ErrOtherInput
	case stands.Ended():
		return Launched{Run: stands}, nil
	}
	state, err := l.Machine.State(ctx, stands.Machine, stands.Driver)
	if err != nil || state != executions.Missing || l.forgotten(stands) {
		return Launched{Run: stands, Driver: state}, err
	}
	return l.begin(ctx, stands)
}

// remembered is for how long an execution that is missing has surely never been
// started. Step Functions forgets one 90 days after it has ended.
const remembered = 60 * 24 * time.Hour

// forgotten reports whether the run's driver, which is missing, may have run and
// been forgotten since: it has planned, or was named too long ago to tell. Whether
// such a run goes on is a person's word, as with every driver that has ended.
func (l Launcher) forgotten(run runs.Run) bool {
	return run.Step.Plan > 0 || l.Now().After(run.WrittenAt.Add(remembered))
}

// sameInput compares what the inputs mean; one without a canonical form is the
// same as its own bytes only.
func sameInput(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	left, errLeft := canonjson.Canonical(a)
	right, errRight := canonjson.Canonical(b)
	return errLeft == nil && errRight == nil && bytes.Equal(left, right)
}

// maxLost is how often a run is looked at again because somebody moved it.
const maxLost = 5

// Resume gives a run without a driver one again: the driver that it names if that
// was never started, else its next generation, also of one that Step Functions has
// forgotten. [ErrNoRun], [ErrEnded] and
// [ErrDriven] mean that nothing was done; with the latter two comes the run. Of
// two at once one moves the run, and both return what it has become. After any
// other error it is open whether the run has a driver; Resume may be repeated.
func (l Launcher) Resume(ctx context.Context, id runs.ID) (Launched, error) {
	run, err := l.Runs.Load(ctx, id)
	if err != nil {
		return Launched{}, err
	}
	overtaken := false
	for range maxLost {
		switch {
		case !run.Exists():
			return Launched{}, ErrNoRun
		case run.Ended():
			return Launched{Run: run}, ErrEnded
		}
		state, err := l.Machine.State(ctx, run.Machine, run.Driver)
		switch {
		case err != nil:
			return Launched{Run: run}, err
		case state == executions.Missing && !l.forgotten(run):
			return l.begin(ctx, run)
		case state == executions.Running && overtaken:
			return Launched{Run: run, Driver: state}, nil // by whoever resumed it at the same time
		case state == executions.Running:
			return Launched{Run: run, Driver: state}, ErrDriven
		}
		// Stored now: the next generation drives the run, from the turn that is open;
		// the one before has ended and would stand down. If we stop here the run is
		// listed without its driver, which whoever resumes or tends it starts.
		stands, err := l.save(ctx, run.MovedOn(l.NewID()))
		switch {
		case err == nil:
			l.log(ctx, "run resumed", stands)
			return l.begin(ctx, stands)
		case !errors.Is(err, runs.ErrStale):
			return Launched{Run: run, Driver: state}, err
		}
		run, overtaken = stands, true
	}
	return Launched{Run: run}, errMoves
}

// Orphan is an execution that has ended badly, as its end was announced.
type Orphan struct {
	Machine   string // ARN of its state machine
	Execution string // its name
	Input     json.RawMessage
	StartedAt time.Time
}

// Adopt puts the run of an execution that was started by itself and ended before
// its first plan could put one, so that the run is listed and can be resumed. It
// starts nothing, and leaves a run that there is alone. An execution that is not
// of the launcher's machine, has not ended or whose input describes no run is
// refused or passed over; nothing was stored then.
func (l Launcher) Adopt(ctx context.Context, o Orphan) (adopted bool, _ error) {
	in, err := runs.ParseInput(o.Input)
	if err != nil || executions.Unversioned(o.Machine) != executions.Unversioned(l.StateMachine) {
		return false, err
	}
	if run, err := l.Runs.Load(ctx, in.ID); err != nil || run.Exists() {
		return false, err
	}
	if state, err := l.Machine.State(ctx, o.Machine, o.Execution); err != nil || !state.Ended() {
		return false, err
	}
	// Stored now: that there is a run, and that its driver is one that has ended. If
	// we stop before, nothing tells of the run but the execution's own end.
	run, err := l.save(ctx, runs.Begin(in.Start(o.Input, o.Execution, l.StateMachine, o.StartedAt), l.NewID()))
	if errors.Is(err, runs.ErrStale) {
		return false, nil // somebody began it meanwhile
	} else if err != nil {
		return false, err
	}
	l.log(ctx, "run adopted from an execution that ended before its first plan", run)
	return true, nil
}

// Tend looks at a run, such as [runs.Store.Unended] lists it, and starts the
// driver that it names if there has been none for the [GracePeriod]. It makes no
// new generation: whether a run whose driver has ended goes on is a person's
// word. It may be called by many at once. After an error nothing is known; the
// run stays listed.
func (l Launcher) Tend(ctx context.Context, run runs.Run) (Launched, error) {
	state, err := l.Machine.State(ctx, run.Machine, run.Driver)
	if err != nil || state == executions.Running {
		return Launched{Run: run, Driver: state}, err
	}
	// The list may be behind, and so may what was read before the driver was
	// looked at: it may have handed the run over, or ended it, since.
	stands, err := l.Runs.Load(ctx, run.Key())
	if err != nil || stands.Ended() || !stands.Exists() {
		return Launched{Run: stands}, err
	}
	if stands.Driver != run.Driver {
		if state, err = l.Machine.State(ctx, stands.Machine, stands.Driver); err != nil {
			return Launched{Run: stands}, err
		}
	}
	if state != executions.Missing || l.forgotten(stands) || l.Now().Before(stands.WrittenAt.Add(GracePeriod)) {
		return Launched{Run: stands, Driver: state}, nil
	}
	return l.begin(ctx, stands)
}

// begin starts the driver that the stored run names.
func (l Launcher) begin(ctx context.Context, run runs.Run) (Launched, error) {
	// Started now: an execution that finds itself named. If the answer is lost, to
	// start it again by its name finds it.
	state, err := l.Machine.Start(ctx, run.Machine, run.Driver, run.Input)
	if err != nil {
		return Launched{Run: run}, fmt.Errorf("launch: run %s stands; its driver: %w", run.Key(), err)
	}
	if state == executions.Running {
		l.log(ctx, "driver started", run)
	}
	return Launched{Run: run, Driver: state, Started: state == executions.Running}, nil
}

func (l Launcher) save(ctx context.Context, run runs.Run) (runs.Run, error) {
	run.WrittenAt = l.Now()
	return l.Runs.Save(ctx, run)
}

func (l Launcher) log(ctx context.Context, message string, run runs.Run) {
	l.Log.LogAttrs(ctx, slog.LevelInfo, message, slog.String("run", run.ID), slog.Int("generation", run.Generation), slog.String("execution", run.Driver))
}
