package operator

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// The sizes of a page of turns.
const (
	DefaultTurns = 20
	MaxTurns     = 50
)

// The bounds of words that are shown of a run, in bytes.
const (
	maxShownSays  = 2 << 10
	maxShownCause = 1 << 10
)

// RunQuery asks for a run of the identity's tenant and a page of its turns.
type RunQuery struct {
	RunID  string
	Limit  int    // 1 to MaxTurns; 0 means DefaultTurns
	Cursor string // Run.NextCursor of the page before
}

// RunStatus is where a run stands.
type RunStatus string

// The statuses of a run.
const (
	RunRunning                RunStatus = "running"
	RunAwaitingReconciliation RunStatus = "awaiting_reconciliation" // a call's outcome is unknown, and the policy is to wait
	RunAwaitingApproval       RunStatus = "awaiting_approval"       // a call may not start before somebody approves it
	RunSucceeded              RunStatus = "succeeded"
	RunFailed                 RunStatus = "failed"
)

// Run is a run as people may see it: no arguments, no results, no tokens, and
// nothing of its principal.
type Run struct {
	ID          string      `json:"id"`
	Agent       string      `json:"agent"`
	Status      RunStatus   `json:"status" enum:"running,awaiting_reconciliation,awaiting_approval,succeeded,failed" doc:"awaiting_reconciliation: under the policy pause, while a call of the open turn is unknown or its executor overdue; awaiting_approval: while one may not start before it is approved"`
	StartedAt   string      `json:"started_at" format:"date-time"`
	EndedAt     string      `json:"ended_at,omitempty" format:"date-time" doc:"Absent until it has ended"`
	Failure     *Failure    `json:"failure,omitempty" doc:"Present if it has failed"`
	Policy      string      `json:"policy" enum:"pause,tell,fail" doc:"What the run does about a call whose outcome stays unknown"`
	Generation  int         `json:"generation" doc:"Counts the executions that have driven it"`
	Driver      string      `json:"driver" doc:"The name of the execution that drives it, or did last"`
	DriverState DriverState `json:"driver_state,omitempty" enum:"missing,running,succeeded,failed,timed_out,aborted,unknown" doc:"Where that execution stands, looked up just now: missing if it has never been started, unknown if it could not be looked at. Absent once the run has ended"`
	WhatToDo    string      `json:"what_to_do,omitempty" doc:"Present if nothing drives the run"`
	OpenTurn    int         `json:"open_turn,omitempty" doc:"The turn whose calls are under way; absent between turns and after the end"`
	WaitingOn   []Awaited   `json:"waiting_on" nullable:"false" doc:"The calls of the open turn that need somebody. Under the policies tell and fail the run does not wait for an unknown one."`
	Turns       []Turn      `json:"turns" nullable:"false" doc:"The newest last"`
	NextCursor  string      `json:"next_cursor,omitempty" doc:"Opaque; leads to the turns before these, and is absent where there are none"`
}

// Failure is how a failed run ended.
type Failure struct {
	Error string `json:"error" doc:"One stable word"`
	Cause string `json:"cause,omitempty" doc:"Cut after 1 KiB"`
}

// Awaited is a call of the open turn that needs somebody.
type Awaited struct {
	Key          string `json:"key" doc:"[tenant/]run:call"`
	Tool         string `json:"tool"`
	Why          Why    `json:"why" doc:"As in the list of calls that need somebody"`
	WaitingSince string `json:"waiting_since,omitempty" format:"date-time" doc:"Absent if its record can't be read"`
	WhatToDo     string `json:"what_to_do,omitempty" doc:"Present with unreadable"`
}

// Run returns one run with a page of its turns, the newest first page by page and
// the newest last on each, read consistently. Only the calls of these turns and of
// the open one are read. Another tenant's run does not exist: [RunNotFound].
func (s *Service) Run(ctx context.Context, id Identity, q RunQuery) (Run, error) {
	if err := id.May(ReadCalls); err != nil {
		return Run{}, err
	}
	before, err := q.check(id)
	if err != nil {
		return Run{}, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	run, err := s.loadRun(ctx, runs.ID{Tenant: id.Tenant, Run: q.RunID})
	if err != nil {
		return Run{}, err
	}
	run, driver, err := s.lookAtDriver(ctx, run)
	if err != nil {
		return Run{}, unreadableRun("the run", err)
	}
	page, err := s.turnsOf(ctx, run, before, q.Limit)
	if err != nil {
		return Run{}, err
	}
	calls, err := s.callsOf(ctx, run, page)
	if err != nil {
		return Run{}, err
	}
	v := runOf(run)
	if !run.Ended() {
		v.DriverState, v.WhatToDo = driver, driverToDo(driver)
	}
	v.NextCursor = seal(q.scope(id), page.next)
	for _, turn := range page.shown {
		v.Turns = append(v.Turns, turnOf(turn, calls[turn.Number]))
	}
	if page.open != nil {
		v.OpenTurn = page.open.Number
		v.wait(run.Policy, calls[page.open.Number])
	}
	return v, nil
}

func (q *RunQuery) scope(id Identity) string { return scopeOf("run", id.Tenant, q.RunID) }

// check returns the number of the turn before which the page ends, 0 for the
// newest page.
func (q *RunQuery) check(id Identity) (before int, _ error) {
	if (runs.ID{Tenant: id.Tenant, Run: q.RunID}).Check() != nil {
		return 0, problem(RunNotFound, "")
	}
	if q.Limit == 0 {
		q.Limit = DefaultTurns
	}
	if q.Limit < 0 || q.Limit > MaxTurns {
		var wrong invalid
		wrong.add("query.limit", "want 1 to "+strconv.Itoa(MaxTurns))
		return 0, wrong.problem()
	}
	cursor, err := unseal(q.scope(id), q.Cursor)
	if err != nil || cursor == "" {
		return 0, err
	}
	if before, err = strconv.Atoi(cursor); err != nil || before < 2 || before > runs.MaxTurns+1 {
		return 0, problem(InvalidCursor, "").because(err)
	}
	return before, nil
}

func (s *Service) loadRun(ctx context.Context, id runs.ID) (runs.Run, error) {
	run, err := s.cfg.Runs.Load(ctx, id)
	switch {
	case err != nil:
		return runs.Run{}, unreadableRun("the run", err)
	case !run.Exists() || run.Key() != id: // the store promises it; another tenant's run must not depend on that
		return runs.Run{}, problem(RunNotFound, "")
	}
	return run, nil
}

func unreadableRun(what string, err error) error {
	if errors.Is(err, runs.ErrCorrupt) {
		return problem(CorruptRecord, what+" is stored in a form that can't be read").because(err)
	}
	return problem(Unavailable, what+" could not be read").because(err)
}

// turnPage is a page of a run's turns, and the open one wherever it lies.
type turnPage struct {
	shown []runs.Turn
	open  *runs.Turn
	next  string // the cursor; "" on the page with the first turn
}

// turnsOf reads from the page's first turn on: the open turn is the last or the
// last but one, so that one read finds it too.
func (s *Service) turnsOf(ctx context.Context, run runs.Run, before, limit int) (turnPage, error) {
	end := before
	if end == 0 {
		end = run.Turn + 1
	}
	from := max(end-limit, 1)
	turns, err := s.cfg.Runs.Turns(ctx, run.Key(), from, 0)
	if err != nil {
		return turnPage{}, unreadableRun("a turn of the run", err)
	}
	var page turnPage
	for _, turn := range turns {
		if before == 0 || turn.Number < before {
			page.shown = append(page.shown, turn)
		}
	}
	if extra := len(page.shown) - limit; extra > 0 { // a turn that came since the run was read
		page.shown = page.shown[extra:]
		from = page.shown[0].Number
	}
	if from > 1 {
		page.next = strconv.Itoa(from)
	}
	if run.Ended() || run.Turn == 0 {
		return page, nil
	}
	i := slices.IndexFunc(turns, func(t runs.Turn) bool { return t.Number == run.Turn })
	if i < 0 {
		return turnPage{}, problem(CorruptRecord, "the run's open turn is not stored")
	}
	if !turns[i].Closed() {
		page.open = &turns[i]
	}
	return page, nil
}

func runOf(run runs.Run) Run {
	v := Run{
		ID: run.ID, Agent: run.Agent, Status: statusOf(run), StartedAt: stamp(run.StartedAt), EndedAt: stamp(run.EndedAt), Policy: string(run.Policy),
		Generation: run.Generation, Driver: run.Driver, WaitingOn: []Awaited{}, Turns: []Turn{},
	}
	if v.Policy == "" {
		v.Policy = string(ledger.Pause)
	}
	if run.Status == runs.Failed {
		v.Failure = &Failure{Error: run.Failure.Error, Cause: ledger.Shorten(run.Failure.Cause, maxShownCause)}
	}
	return v
}

// wait says what the run waits on, from the calls of its open turn.
func (v *Run) wait(policy ledger.Policy, calls []callState) {
	for _, c := range calls {
		if why := c.why(); why != "" && why != WhyInFlight && why != WhyApproved {
			v.WaitingOn = append(v.WaitingOn, c.awaited())
		}
		switch {
		case c.holdsUp() && (policy == ledger.Pause || policy == ""):
			v.Status = RunAwaitingReconciliation
		case c.asksApproval() && v.Status == RunRunning:
			v.Status = RunAwaitingApproval
		}
	}
}
