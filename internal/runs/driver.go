package runs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// Start is what whoever begins a run knows of it: its first driver, or who starts
// that.
type Start struct {
	ID        ID
	Agent     string
	Subject   string
	Policy    ledger.Policy
	Input     json.RawMessage
	Execution string // name of the first driver
	Machine   string // ARN that the next generation is to run on
	At        time.Time

	ActiveLimit time.Duration
}

// Start returns what the execution of that name, the run's first driver, knows of
// a run whose input is raw. machine is the ARN that the next generation is to run on.
func (in Input) Start(raw json.RawMessage, execution, machine string, at time.Time) Start {
	return Start{
		ID: in.ID, Agent: in.Agent, Subject: in.Subject, Policy: in.Policy, ActiveLimit: in.ActiveLimit, Input: raw,
		Execution: execution, Machine: machine, At: at,
	}
}

// Begin returns the run that is put if there is none. An execution that nobody
// announced puts it itself, and names itself.
func Begin(s Start, writeID string) Run {
	return Run{
		Tenant: s.ID.Tenant, ID: s.ID.Run, Agent: s.Agent, Subject: s.Subject, StartedAt: s.At, Status: Running, Policy: s.Policy,
		Generation: 1, Driver: s.Execution, Machine: s.Machine, Version: 1, LastWrite: writeID, WrittenAt: s.At, Input: slices.Clone(s.Input),
		ActiveLimit: s.ActiveLimit,
	}
}

// Role is what an execution may do for a run.
type Role string

// The roles.
const (
	Drives     Role = "drives"      // RUN names it
	HandedOver Role = "handed over" // it named its successor, which may not have been started yet
	Stranger   Role = "stranger"    // another execution drives the run
)

// RoleOf returns the role of the execution of that name.
func (r Run) RoleOf(execution string) Role {
	switch {
	case execution == r.Driver:
		return Drives
	case execution == r.Previous && r.Previous != "":
		return HandedOver
	}
	return Stranger
}

// ExecutionName returns the name of the execution that drives generation g of
// the run: at most 80 characters, the same for everybody who asks.
func ExecutionName(id ID, generation int) string {
	sum := sha256.Sum256([]byte(id.Tenant))
	return fmt.Sprintf("%s-%s-g%d", id.Run, hex.EncodeToString(sum[:4]), generation)
}

// Issued returns the run whose driver is told to call the calls at positions of
// the turn that is open. The caller sets Step.IssuedAt, from which the Map's time
// counts.
func (r Run) Issued(positions []int, writeID string) Run {
	r.Progress = slices.Clone(r.Progress)
	for _, i := range positions {
		r.Progress[i].Issued = true
		r.Progress[i].Status, r.Progress[i].Code, r.Progress[i].Message = "", "", ""
	}
	r.Step.Calls = slices.Clone(positions)
	return r.written(writeID)
}

// Advanced returns the run with t as its open turn, of which nothing has been
// issued.
func (r Run) Advanced(t Turn) Run {
	r.Turn = t.Number
	r.Progress = make([]Progress, len(t.Calls))
	return r
}

// MovedOn returns the run driven by its next generation. What the calls of the
// open turn have come to goes along; the history is counted anew.
func (r Run) MovedOn(writeID string) Run {
	r.Previous = r.Driver
	for r.Driver == r.Previous { // whoever started the run chose its name
		r.Generation++
		r.Driver = ExecutionName(r.Key(), r.Generation)
	}
	r.Step = Step{}
	return r.written(writeID)
}

// Done returns the run as it ends: succeeded, or failed with its failure.
func (r Run) Done(failure Failure, at time.Time, writeID string) Run {
	r.Status, r.EndedAt = Succeeded, at
	if failure.Error != "" {
		r.Status, r.Failure = Failed, failure
	}
	return r.written(writeID)
}

func (r Run) written(writeID string) Run {
	r.Version++
	r.LastWrite = writeID
	return r
}
