package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// Planner says what a run does next. Everything that it says is stored first,
// so each plan may be repeated, killed anywhere and made twice at once.
type Planner struct {
	Runs     runs.Store
	Ledger   Ledger
	Tools    runs.Tools
	ModelFor func(runs.Input) (Model, error)
	Machine  string // ARN that the next generation runs on; "": that of the asking execution
	Now      func() time.Time
	NewID    func() string // fresh and random, names a write
	Log      *slog.Logger

	inputs *lastInput
}

// Ledger is what the planner needs of a ledger: its calls, and what they waited for.
type Ledger interface {
	ledger.Store
	ledger.Waits
}

// maxLost is how often a plan starts over because somebody else was first.
const maxLost = 5

// Plan answers one request. An error leaves open what was stored; the state
// machine repeats the request.
func (p *Planner) Plan(ctx context.Context, req Request) (Answer, error) {
	in, err := p.inputs.parse(req.Input)
	if err != nil {
		return unusable(err)
	}
	until := half(ctx)
	for lost := 0; ; lost++ {
		answer, err := p.plan(ctx, &asked{req: req, in: in, until: until})
		if errors.Is(err, runs.ErrStale) && lost < maxLost {
			continue // a plan made at the same time was stored; say what it says
		}
		if errors.Is(err, runs.ErrNotAsked) {
			// Whoever asks so is not where the run's driver is. The driver goes on.
			return failed(runs.Failure{Error: names.FailBadInput, Cause: "request: " + err.Error()}), nil
		}
		return answer, err
	}
}

// asked is one request with what it says of the run, and what this plan has read
// so far of its turns: ahead those after the open one, past those before, which
// only a model may ask for.
type asked struct {
	req   Request
	in    runs.Input
	model Model
	until time.Time // when this plan no longer asks the model; zero: never
	ahead []runs.Turn
	past  []runs.Turn
}

func (p *Planner) plan(ctx context.Context, a *asked) (Answer, error) {
	run, err := p.Runs.Load(ctx, a.in.ID)
	if err != nil {
		return Answer{}, err
	}
	modelErr := a.understand(p, run)
	if !run.Exists() {
		if modelErr != nil {
			return unusable(modelErr)
		}
		if run, err = p.begin(ctx, a); err != nil {
			return Answer{}, err
		}
	}
	switch run.RoleOf(a.req.Execution.Name) {
	case runs.Drives:
	case runs.HandedOver:
		if run.Ended() {
			return standDown(run), nil
		}
		return a.handOver(run), nil
	case runs.Stranger:
		return standDown(run), nil
	}
	if run.Ended() {
		return p.ended(ctx, a, run)
	}
	if errors.Is(modelErr, runs.ErrBadInput) {
		// Whoever began the run could not know. It would never get any further.
		return p.end(ctx, a, run, runs.Failure{Error: names.FailBadInput, Cause: modelErr.Error()})
	} else if modelErr != nil {
		return Answer{}, modelErr
	}
	at := run.Step.Where(a.req.Outcomes, a.req.TurnBroken)
	if at.Plan() <= run.Step.Plan {
		return p.repeat(ctx, a, run)
	}
	return p.advance(ctx, a, run, at)
}

// save writes the run, and when.
func (p *Planner) save(ctx context.Context, run runs.Run) (runs.Run, error) {
	run.WrittenAt = p.Now().UTC()
	return p.Runs.Save(ctx, run)
}

// repeat says again what this execution was last told, to whoever asks for that
// plan again or for one before it. Nobody waits for the answer to an older plan
// unless somebody else made plans in the driver's name; then calling what is
// open, which is safe, leads it back to where the run stands.
func (p *Planner) repeat(ctx context.Context, a *asked, run runs.Run) (Answer, error) {
	turn, err := p.openTurn(ctx, run)
	if err != nil {
		return Answer{}, err
	}
	return p.callTools(a, run, turn)
}

// advance goes on from where the execution stands until there is something to
// call or the run ends.
func (p *Planner) advance(ctx context.Context, a *asked, run runs.Run, at runs.At) (Answer, error) {
	turn, ahead, err := p.openTurns(ctx, run)
	if err != nil {
		return Answer{}, err
	}
	a.ahead = ahead
	if err := run.CheckArrival(turn, at, a.req.Outcomes); err != nil {
		return Answer{}, err
	}
	run, err = p.arrived(ctx, a, run, turn, at)
	if err != nil {
		return Answer{}, err
	}
	if run.Overdue() {
		return p.overdue(ctx, a, run, turn)
	}
	for made := 0; ; made++ {
		issue, err := p.closeTurn(ctx, a, run, &turn)
		switch {
		case err != nil:
			return Answer{}, err
		case len(issue) > 0:
			return p.issue(ctx, a, run, turn, issue)
		}
		a.keep(turn)
		switch {
		case unresolvedUnder(run, turn):
			return p.end(ctx, a, run, runs.Failure{Error: names.FailCallUnresolved, Cause: unresolvedCause(run, turn)})
		case turn.Final:
			return p.end(ctx, a, run, runs.Failure{})
		case made > 0 && a.isOver():
			return p.moveOn(ctx, a, run)
		}
		turn, err = p.nextTurn(ctx, a, run)
		if errors.Is(err, runs.ErrTurnRefused) {
			return p.end(ctx, a, run, runs.Failure{Error: names.FailTurnRefused, Cause: err.Error()})
		} else if err != nil {
			return Answer{}, err
		}
		run = run.Advanced(turn)
	}
}

// issue tells the state machine what to call, or to hand over first.
func (p *Planner) issue(ctx context.Context, a *asked, run runs.Run, turn runs.Turn, open []int) (Answer, error) {
	if run.HandOverDue() {
		return p.moveOn(ctx, a, run)
	}
	batch := runs.NextBatch(turn, open, p.Tools)
	// Stored now: the turn that is open, how far its calls have come and what is
	// called next. If we stop here nothing has been called, and the repeated plan
	// says the same.
	issued := run.Issued(batch, p.NewID())
	issued.Step.IssuedAt = p.Now().UTC()
	run, err := p.save(ctx, issued)
	if err != nil {
		return Answer{}, err
	}
	p.log(ctx, "calls issued", run, slog.Int("calls", len(batch)))
	return p.callTools(a, run, turn)
}

// moveOn hands the run over: because the history is long, or because turns that
// call nothing use up this plan's time, which only another execution can renew.
func (p *Planner) moveOn(ctx context.Context, a *asked, run runs.Run) (Answer, error) {
	// Stored now: the next generation drives the run, from the turn that is open.
	// If we stop here this execution, or the sweeper, starts it by the name that
	// is stored.
	moved, err := p.save(ctx, run.MovedOn(p.NewID()))
	if err != nil {
		return Answer{}, err
	}
	p.log(ctx, "handed over", moved)
	return a.handOver(moved), nil
}

// callTools is the answer that the run's step stands for.
func (p *Planner) callTools(a *asked, run runs.Run, turn runs.Turn) (Answer, error) {
	answer := Answer{Next: CallTools, MaxConcurrency: runs.Concurrency(turn, run.Step.Calls, p.Tools)}
	policy := run.Policy
	if policy == "" {
		policy = ledger.Pause
	}
	for _, i := range run.Step.Calls {
		if i >= len(turn.Calls) {
			return Answer{}, fmt.Errorf("planner: %w: run %s calls what its turn lacks", runs.ErrCorrupt, run.Key())
		}
		call := turn.Calls[i]
		answer.Calls = append(answer.Calls, ToolCall{
			Function: p.Tools[call.Tool].Function,
			Envelope: Envelope{
				Tenant:    run.Tenant,
				Run:       once.RunPart{ID: run.ID, StartedAt: run.StartedAt, Agent: run.Agent},
				Call:      once.CallPart{ID: call.ID, Tool: call.Tool, Turn: turn.Number, Attempt: 1, ArgumentsJSON: call.Arguments},
				Principal: once.PrincipalPart{Subject: a.in.Subject, Permissions: a.in.Permissions},
				Policy:    once.PolicyPart{OnIndeterminate: policy},
			},
		})
	}
	return answer, nil
}

func (a *asked) handOver(run runs.Run) Answer {
	return Answer{Next: GoOn, HandOver: &HandOver{StateMachine: run.Machine, Name: run.Driver, Input: a.req.Input}}
}

// end stores how the run ended, and tells it.
func (p *Planner) end(ctx context.Context, a *asked, run runs.Run, failure runs.Failure) (Answer, error) {
	failure.Cause = ledger.Shorten(failure.Cause, 4<<10)
	// Stored now: that the run is over, and how. If we stop here the repeated
	// plan tells it; nothing drives the run any more.
	run, err := p.save(ctx, run.Done(failure, p.Now(), p.NewID()))
	if err != nil {
		return Answer{}, err
	}
	p.log(ctx, "run ended", run, slog.String("status", string(run.Status)), slog.String("error", failure.Error))
	return p.ended(ctx, a, run)
}

// ended tells how the run ended, each time the same.
func (p *Planner) ended(ctx context.Context, a *asked, run runs.Run) (Answer, error) {
	if err := p.expire(ctx, run); err != nil {
		// Items that stay too long do no harm; a run that ended must end.
		p.Log.LogAttrs(ctx, slog.LevelWarn, "turns will not expire", slog.String("run", run.ID), slog.Any("error", err))
	}
	if run.Status == runs.Failed {
		return failed(run.Failure), nil
	}
	turns, err := p.past(a, run)(ctx)
	if err != nil {
		return Answer{}, err
	}
	return succeeded(run, turns)
}

// expire takes at most half of the time that is left.
func (p *Planner) expire(ctx context.Context, run runs.Run) error {
	if until := half(ctx); !until.IsZero() {
		bounded, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		ctx = bounded
	}
	return p.Runs.Expire(ctx, run)
}

func (p *Planner) log(ctx context.Context, message string, run runs.Run, attrs ...slog.Attr) {
	attrs = append(attrs, slog.String("run", run.ID), slog.Int("turn", run.Turn), slog.Int("generation", run.Generation))
	p.Log.LogAttrs(ctx, slog.LevelInfo, message, attrs...)
}
