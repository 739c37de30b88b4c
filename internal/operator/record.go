package operator

import (
	"encoding/json"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// Record is a call as people may see it: no attempt token, no task token, no
// write id, no arguments beyond their redacted summary.
type Record struct {
	Key          string    `json:"key" doc:"[tenant/]run:call"`
	RunID        string    `json:"run_id"`
	CallID       string    `json:"call_id"`
	Tool         string    `json:"tool"`
	Class        string    `json:"class" doc:"read, write, external or destructive"`
	Agent        string    `json:"agent"`
	Turn         int       `json:"turn" doc:"The turn of the run that the call belongs to"`
	Status       string    `json:"status" doc:"reserved, started, completed, failed, indeterminate, compensated or follows"`
	State        string    `json:"state" doc:"The status with its flags, such as 'failed, retryable, granted'"`
	Flags        []string  `json:"flags" nullable:"false"`
	Effect       string    `json:"effect" doc:"What is known of the call: none, happened, unknown or undone"`
	Version      int64     `json:"version" doc:"Counts moves; a decision names it as expected_version"`
	Summary      string    `json:"summary" doc:"The arguments, redacted"`
	Permission   string    `json:"permission,omitempty" doc:"What the authorisation decided"`
	Undoes       string    `json:"undoes,omitempty" doc:"The key of the call that this one undoes; present on an undo's own record"`
	FollowsKey   string    `json:"follows_key,omitempty" doc:"The call that this one answers as"`
	CreatedAt    time.Time `json:"created_at"`
	WaitingSince string    `json:"waiting_since,omitempty" format:"date-time" doc:"Since when it needs somebody; absent when it does not"`
	Why          Why       `json:"why,omitempty" doc:"Why it needs somebody; absent when it does not"`
	Attempt      int       `json:"attempt" doc:"The number of the latest try to run it; 0 when nothing has run"`
	ExternalID   string    `json:"external_id,omitempty" doc:"The receiver's name for what was made"`
	Error        *Reason   `json:"error,omitempty" doc:"Why it failed or is unknown"`
	SettledBy    *Settler  `json:"settled_by,omitempty" doc:"Absent until it is settled"`
	SettledAt    string    `json:"settled_at,omitempty" format:"date-time"`
	ResultBytes  int       `json:"result_bytes,omitempty" doc:"Size of the stored result"`
	Executor     *Executor `json:"executor,omitempty"`
	Approval     *Approval `json:"approval,omitempty"`
	Undo         *Undo     `json:"undo,omitempty"`
}

// Executor is the process that makes, or made, the latest attempt.
type Executor struct {
	StartedAt  string `json:"started_at,omitempty" format:"date-time"`
	Deadline   string `json:"deadline,omitempty" format:"date-time" doc:"The executor sends nothing after it"`
	QuietAfter string `json:"quiet_after,omitempty" format:"date-time" doc:"A request that was sent can't arrive after it"`
	RequestID  string `json:"request_id,omitempty" doc:"For tracing"`
}

// Approval is the permission that a reserved call waits for, or had.
type Approval struct {
	By        string `json:"by,omitempty"`
	At        string `json:"at,omitempty" format:"date-time"`
	ExpiresAt string `json:"expires_at" format:"date-time"`
}

// Undo says how often an undo was asked for.
type Undo struct {
	Number  int    `json:"number"`
	Key     string `json:"key" doc:"Of the latest one, which is a call of its own"`
	Open    bool   `json:"open"`
	AskedAt string `json:"asked_at,omitempty" format:"date-time"`
}

// Reason is why a call failed or is unknown.
type Reason struct {
	Code    string `json:"code" doc:"One stable word"`
	Message string `json:"message"`
}

// Settler is who settled a call.
type Settler struct {
	Kind string `json:"kind" doc:"person, executor, hook, planner or sweeper"`
	ID   string `json:"id,omitempty" doc:"The person's id, or the executor's request id"`
}

// Entry is one decision or piece of evidence.
type Entry struct {
	ID     string `json:"id,omitempty" doc:"Of a decision"`
	Kind   string `json:"kind" doc:"What was done or seen"`
	By     string `json:"by" doc:"The person, or the kind of observer"`
	Reason string `json:"reason,omitempty"`
	At     string `json:"at" format:"date-time"`
	Before string `json:"before,omitempty" doc:"The state that it found"`
	After  string `json:"after,omitempty" doc:"The state that it left"`
}

// Why says in one stable word why a call needs somebody.
type Why string

// The reasons, the most urgent first.
const (
	WhyContradicted Why = "contradicted"      // a late outcome says what the status denies
	WhyUndoOpen     Why = "undo_open"         // an undo was asked for and has not ended
	WhyUnknown      Why = "unknown_outcome"   // it may or may not have taken effect
	WhyOverdue      Why = "executor_overdue"  // its executor did not report in time
	WhyInFlight     Why = "in_flight"         // its executor may be at work: nobody is needed yet
	WhyApproval     Why = "awaiting_approval" // it has not run
	WhyApproved     Why = "approved"          // it may run, and has not: nobody is needed yet
	WhyGranted      Why = "unused_grant"      // one more attempt was granted and not used
	WhyNotWoken     Why = "run_not_woken"     // settled, or free to go on, and its parked run is not woken yet
	WhyUnreadable   Why = "unreadable"        // its record or a parked run's wait is stored and can't be read
)

func whyOf(r ledger.Record, now time.Time) Why {
	switch {
	case r.Flags.Has(ledger.Contradicted):
		return WhyContradicted
	case r.Flags.Has(ledger.UndoOpen):
		return WhyUndoOpen
	}
	switch r.Status {
	case ledger.Indeterminate:
		return WhyUnknown
	case ledger.Started:
		if r.NeedsSomebody(now) {
			return WhyOverdue
		}
		return WhyInFlight
	case ledger.Reserved:
		if r.Flags.Has(ledger.Approved) {
			return WhyApproved
		}
		return WhyApproval
	case ledger.Completed, ledger.Failed, ledger.Compensated, ledger.Follower, ledger.None:
	}
	if r.Flags.Has(ledger.Granted) {
		return WhyGranted
	}
	return ""
}

func viewOf(r ledger.Record, now time.Time) *Record {
	v := &Record{
		Key: r.Key.String(), RunID: r.Key.RunID, CallID: r.Key.CallID, Tool: r.Tool, Class: r.Class, Agent: r.Agent, Turn: r.Turn,
		Status: r.Status.String(), State: r.State().String(), Flags: r.Flags.Names(), Effect: r.Effect().String(), Version: r.Version,
		Summary: r.Summary, Permission: r.Permission, FollowsKey: r.Owner, CreatedAt: r.CreatedAt.UTC(), WaitingSince: stamp(r.WaitsSince), Why: whyOf(r, now),
		Attempt: r.Attempt.Number, ExternalID: r.Outcome.ExternalID, ResultBytes: max(len(r.Outcome.Result), r.Outcome.Ref.Bytes),
	}
	if owner, _, isUndo := r.Key.UndoOf(); isUndo {
		v.Undoes = owner.String()
	}
	if v.Flags == nil {
		v.Flags = []string{}
	}
	if !r.Approval.ExpiresAt.IsZero() {
		v.Approval = &Approval{By: r.Approval.By, At: stamp(r.Approval.At), ExpiresAt: stamp(r.Approval.ExpiresAt)}
	}
	if r.Undo.N > 0 {
		v.Undo = &Undo{Number: r.Undo.N, Key: r.Key.Undo(r.Undo.N).String(), Open: r.Flags.Has(ledger.UndoOpen), AskedAt: stamp(r.Undo.AskedAt)}
	}
	if !r.Attempt.StartedAt.IsZero() {
		v.Executor = &Executor{StartedAt: stamp(r.Attempt.StartedAt), Deadline: stamp(r.Attempt.Deadline), QuietAfter: stamp(r.Attempt.QuietAfter), RequestID: r.Attempt.RequestID}
	}
	if r.Outcome.Code != "" {
		v.Error = &Reason{Code: r.Outcome.Code, Message: r.Outcome.Message}
	}
	if settled(r.Status) {
		v.SettledBy, v.SettledAt = &Settler{Kind: string(r.Outcome.By.Kind), ID: r.Outcome.By.ID}, stamp(r.Outcome.At)
	}
	return v
}

// decisionsOf shows decisions with their ids; evidence is shown without, since
// its ids are those of writes.
func entriesOf(entries []ledger.Entry, withID bool) []Entry {
	out := make([]Entry, 0, len(entries))
	for _, e := range entries {
		v := Entry{Kind: string(e.Kind), By: e.By, Reason: e.Reason, At: stamp(e.At), Before: e.Before, After: e.After}
		if withID {
			v.ID = e.ID
		}
		out = append(out, v)
	}
	return out
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// present is JSON that is there: neither nothing nor null.
func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
