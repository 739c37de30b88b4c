// Package runs holds the rules of one agent run: who drives it, which turns it
// has had, which id each call gets, what is asked next and what the model heard.
// It does no I/O; a [Store] keeps what is said here, and runs/dynamoruns is the
// one for DynamoDB. Whoever implements a planner starts with [Begin] and
// [Open.Judge]; whoever shows a run needs [Store.Load] and [Store.Turns].
package runs

import (
	"encoding/json"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// Status is where a run stands.
type Status string

// The statuses of a run.
const (
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
)

// ID names one run within a tenant; Tenant is "" where there is only one.
type ID struct {
	Tenant, Run string
}

// Check returns [ledger.ErrInvalid] with every part that is outside its charset
// or length.
func (id ID) Check() error { return id.Call(ledger.PlannedCallID(0, 0)).Check() }

// Call returns the ledger's key of the run's call named callID.
func (id ID) Call(callID string) ledger.Key {
	return ledger.Key{Tenant: id.Tenant, RunID: id.Run, CallID: callID}
}

// String returns the run's id with "tenant/" in front when there is a tenant.
func (id ID) String() string {
	if id.Tenant == "" {
		return id.Run
	}
	return id.Tenant + "/" + id.Run
}

// Run is the record of one agent run. It outlives the executions that drive it.
// It is a value; only [Store.Save] changes what is stored.
type Run struct {
	Tenant     string
	ID         string
	Agent      string
	Subject    string
	StartedAt  time.Time // fixed by the first driver
	EndedAt    time.Time
	Status     Status
	Policy     ledger.Policy
	Generation int
	Driver     string // name of the execution that drives it
	Previous   string // the driver before it, whose hand-over may be asked for again
	Machine    string // ARN, with version, that the driver runs on
	Turn       int    // the turn that is open; 0 before the first
	Version    int64  // counts writes; the next write proves the one before
	LastWrite  string // id of the write that made this version
	WrittenAt  time.Time
	Input      json.RawMessage
	Failure    Failure // why the run failed
	Step       Step    // what the driver was last told to do
	Progress   []Progress

	ActiveLimit time.Duration // of Active, past which the run fails; 0 is none
	Active      time.Duration // that Maps have taken, without waits for people
}

// Failure is the name and the reason that a failed run ends with.
type Failure struct {
	Error string `json:"error"`
	Cause string `json:"cause"`
}

// Key returns the run's id within its tenant.
func (r Run) Key() ID { return ID{Tenant: r.Tenant, Run: r.ID} }

// Exists reports whether there is a run at all.
func (r Run) Exists() bool { return r.Version > 0 }

// Ended reports whether the run is over.
func (r Run) Ended() bool { return r.Status == Succeeded || r.Status == Failed }

// Turn is one answer of the model. It is stored once, before any of its calls
// runs; whoever finds it stored adopts it.
type Turn struct {
	Number int
	Says   string // the model's words beside its calls; of a final turn, its answer
	Calls  []Call
	Final  bool // the model asked for nothing more
	At     time.Time
	Heard  []Heard // what the model heard of the calls, once the turn is closed
}

// Closed reports whether it is fixed what the model hears of the turn's calls.
func (t Turn) Closed() bool { return len(t.Heard) == len(t.Calls) }

// Call is one tool call of a turn, under its final id.
type Call struct {
	ID         string `json:"id"`          // the provider's if it is well formed and new in the run, else ours
	ProviderID string `json:"provider_id"` // as the model gave it, at most 128 bytes of it
	Tool       string `json:"tool"`
	Arguments  string `json:"arguments"` // JSON object, as the model wrote it
}

// Heard is what the model heard of one call. Status is completed, failed,
// compensated, unresolved, or what a request that did nothing was answered with
// (refused, conflict, expired).
type Heard struct {
	CallID string `json:"call_id"`
	Status string `json:"status"`
	Says   string `json:"says,omitempty"`
}
