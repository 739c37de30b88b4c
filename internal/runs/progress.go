package runs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/statemachines"
)

// Progress is how far one call of the open turn has come in the state machine.
// What happened to it stands in the ledger.
type Progress struct {
	Issued  bool   `json:"issued,omitzero"`
	Answers int    `json:"answers,omitzero"` // how often it came back
	Status  string `json:"status,omitzero"`  // as it last came back; "" since it was last issued
	Code    string `json:"code,omitzero"`
	Message string `json:"message,omitzero"` // with a status of which no record speaks: why
}

// Outcome is how a call came back from a Map. Turn counts the Maps of the
// execution.
type Outcome struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Rounds  int    `json:"rounds"`
	Turn    int    `json:"turn"`
}

// Unresolved is the status of a call whose rounds in the state machine ran out,
// and of a call that the model heard is unresolved.
const Unresolved = "unresolved"

// Step is what the driver was last told to do, so that a repeated plan says the
// same again.
type Step struct {
	Plan   int   `json:"plan,omitzero"`   // which plan of the execution decided it, from 1; 0 before the first
	Maps   int   `json:"maps,omitzero"`   // that the execution had run by then
	Broken int   `json:"broken,omitzero"` // of them that ended in an error
	Calls  []int `json:"calls,omitzero"`  // positions in the open turn
	Events int   `json:"events,omitzero"` // estimated, of the execution's history

	IssuedAt time.Time `json:"issued_at,omitzero"` // when the driver was told to call Calls; zero once they have come back
}

// At is where an execution stands when it asks for a plan: how many Maps it has
// run, and how many ended in an error.
type At struct {
	Maps, Broken int
}

// Where returns where the execution stands, from what it sent. Before the first
// Map and after a broken one there are no outcomes to tell the Maps by.
func (s Step) Where(outcomes []Outcome, broken int) At {
	switch {
	case len(outcomes) > 0:
		return At{Maps: outcomes[0].Turn, Broken: broken}
	case broken == 0:
		return At{}
	}
	return At{Maps: s.Maps, Broken: broken}
}

// Plan numbers the plan that an execution at this place asks for, from 1: each
// Map, whole or broken, brings one.
func (a At) Plan() int { return a.Maps + a.Broken + 1 }

// ErrNotAsked reports outcomes that the execution can't have: of a Map that it
// was not told to run, or of other calls. Nothing may be concluded from them.
var ErrNotAsked = errors.New("runs: outcomes of calls that were not asked for")

// CheckArrival returns [ErrNotAsked] unless at is the place to which the run's
// last step leads: one Map on, with an outcome for each of its calls, or one
// broken Map on, or the beginning if there has been no step.
func (r Run) CheckArrival(t Turn, at At, outcomes []Outcome) error {
	s := r.Step
	switch {
	case s.Plan == 0 && at == At{}:
		return nil
	case s.Plan > 0 && len(outcomes) == 0 && at == At{Maps: s.Maps, Broken: s.Broken + 1}:
		return nil
	case s.Plan == 0 || at != At{Maps: s.Maps + 1, Broken: s.Broken}:
		return fmt.Errorf("%w: after %d Maps, %d of them broken; plan %d was the last", ErrNotAsked, at.Maps+at.Broken, at.Broken, s.Plan)
	case len(outcomes) != len(s.Calls):
		return fmt.Errorf("%w: %d outcomes of %d calls", ErrNotAsked, len(outcomes), len(s.Calls))
	}
	for n, i := range s.Calls {
		if i >= len(t.Calls) || outcomes[n].ID != t.Calls[i].ID || outcomes[n].Turn != at.Maps {
			return fmt.Errorf("%w: outcomes[%d]", ErrNotAsked, n)
		}
	}
	return nil
}

// Arrived returns the run as it is when the execution has come to at with these
// outcomes: they are noted on their calls and counted into the history.
func (r Run) Arrived(t Turn, at At, outcomes []Outcome) Run {
	r.Progress = r.progressOf(t)
	for _, o := range outcomes {
		i := slices.IndexFunc(t.Calls, func(c Call) bool { return c.ID == o.ID })
		if i < 0 || !r.Progress[i].Issued {
			continue
		}
		r.Progress[i].Answers++
		r.Progress[i].Status, r.Progress[i].Code, r.Progress[i].Message = o.Status, ledger.Shorten(o.Code, maxCode), ""
		if o.Status == statusRefused || o.Status == statusExpired {
			r.Progress[i].Message = ledger.Shorten(o.Message, ledger.MaxMessage)
		}
	}
	events := r.Step.Events
	if len(outcomes) > 0 {
		events += estimate(outcomes)
	}
	if at.Broken > r.Step.Broken {
		events += estimateBroken(len(r.Step.Calls))
	}
	r.Step = Step{Plan: at.Plan(), Maps: at.Maps, Broken: at.Broken, Events: events}
	return r
}

const maxCode = 64

func (r Run) progressOf(t Turn) []Progress {
	if len(r.Progress) == len(t.Calls) {
		return slices.Clone(r.Progress)
	}
	return make([]Progress, len(t.Calls))
}

// estimate is how many events a Map has added to the history. Whether a round
// was parked isn't known, so each is counted as one that was.
func estimate(outcomes []Outcome) int {
	events := statemachines.HistoryPerTurn
	for _, o := range outcomes {
		events += statemachines.HistoryPerCall + o.Rounds*statemachines.HistoryPerPark
	}
	return events
}

// estimateBroken assumes the most that a Map of n calls can have written.
func estimateBroken(n int) int {
	return statemachines.HistoryPerTurn + n*(statemachines.HistoryPerCall+statemachines.MaxRounds*statemachines.HistoryPerPark)
}

// HandOverDue reports whether the execution's history is so long that the next
// execution has to go on before anything more is called.
func (r Run) HandOverDue() bool {
	return r.Step.Events > statemachines.HandOverAt || r.Step.Maps+r.Step.Broken >= statemachines.MaxTurns
}
