package ledger

import (
	"slices"
	"time"
)

// Record is the ledger's account of one call. The zero Record is "no record".
// It is a value: changing a copy changes nothing that is stored.
type Record struct {
	Key         Key
	Tool        string
	Class       string
	Agent       string
	Turn        int
	Status      Status
	Flags       Flags
	Version     int64  // counts moves
	Rev         int64  // counts evidence
	LastWrite   string // id of the write that made this version
	LastNote    string // id of the latest evidence
	Fingerprint Digest // of tool, schema version and normalised arguments; "" when closed unseen
	Received    Digest // of the arguments as they came
	Summary     string // redacted arguments, for people
	Permission  string // what the authorisation decided, for people
	Owner       string // a follower's owner
	Attempt     Attempt
	Approval    Approval
	Undo        Undo
	Outcome     Outcome
	CreatedAt   time.Time
	WaitsSince  time.Time // when it last began to need somebody; zero when it does not
	Decisions   []Entry   // bounded; the oldest first
	Evidence    []Entry   // bounded; the oldest first
}

// Attempt is one try to run a call, as it was written down before it ran.
type Attempt struct {
	Number     int
	Token      AttemptToken
	Earlier    []AttemptToken // of the attempts before it
	StartedAt  time.Time
	Deadline   time.Time // the executor sends nothing after it
	QuietAfter time.Time // deadline plus the receiver's settle delay
	RequestID  string    // for tracing only; no proof of anything
}

// Approval is a person's permission to start a reserved call. ExpiresAt is zero
// for a tool that needs none.
type Approval struct {
	By          string
	At          time.Time
	ExpiresAt   time.Time
	Fingerprint Digest
	Policy      int // the policy epoch that it was given under
}

// Undo counts the undos that were asked for; the flag UndoOpen says whether the
// last one has ended.
type Undo struct {
	N       int
	AskedAt time.Time
}

// Outcome is what became of a call, as far as it is known.
type Outcome struct {
	ExternalID string    // the receiver's name for what was made
	Result     []byte    // JSON; nil when there is none, or when it lies elsewhere
	Ref        ResultRef // where a result too large for the record lies
	Code       string    // why it failed or is unknown, in one stable word
	Message    string    // the same for people and models
	By         Settler
	At         time.Time
}

// ResultRef names a result that is kept beside the record. NotKept means that
// the call completed and its result could not be stored.
type ResultRef struct {
	WriteID string
	Digest  Digest
	Bytes   int
	NotKept bool
}

// Settler says who settled a call.
type Settler struct {
	Kind SettlerKind
	ID   string
}

// SettlerKind is the kind of somebody who can settle a call.
type SettlerKind string

// The kinds of settlers.
const (
	ByExecutor SettlerKind = "executor" // the attempt itself
	ByHook     SettlerKind = "hook"     // the tool's look-up
	ByPerson   SettlerKind = "person"   // an operator
	ByPlanner  SettlerKind = "planner"  // the end of the turn closed it
	BySweeper  SettlerKind = "sweeper"  // an executor's deadline or an approval's window passed
)

// Entry is one decision or piece of evidence on a record. It is appended and
// never changed.
type Entry struct {
	ID     string
	Kind   Event
	By     string // the person, or what kind of observer
	Reason string
	At     time.Time
	Before string // the state that it found
	After  string // the state that it left
}

// State returns the status with its flags.
func (r Record) State() State { return State{r.Status, r.Flags} }

// Exists reports whether there is a record at all.
func (r Record) Exists() bool { return r.Status != None }

// HasDecision reports whether the decision named id is on the record.
func (r Record) HasDecision(id string) bool {
	return slices.ContainsFunc(r.Decisions, func(e Entry) bool { return e.ID == id })
}

// HasEvidence reports whether the evidence named id is on the record.
func (r Record) HasEvidence(id string) bool {
	return id != "" && id == r.LastNote || slices.ContainsFunc(r.Evidence, func(e Entry) bool { return e.ID == id })
}

// Effect returns what the record says of the effect.
func (r Record) Effect() Effect {
	contradicted := r.Flags.Has(Contradicted)
	switch r.Status {
	case Completed:
		return Happened
	case Compensated:
		if contradicted {
			return Unknown
		}
		return Undone
	case Failed:
		switch {
		case contradicted:
			return Unknown
		case r.Flags.Has(Acknowledged):
			return Happened
		}
		return NoEffect
	case Reserved, None:
		return NoEffect
	case Started, Indeterminate, Follower:
	}
	return Unknown
}

// Unsettled reports whether the record belongs in the list of what may need
// somebody: not settled, or with an unused grant, an open undo or a
// contradiction.
func (s State) Unsettled() bool {
	switch s.Status {
	case Reserved, Started, Indeterminate:
		return true
	case Completed, Failed, Compensated, Follower, None:
	}
	return s.Flags&(Granted|UndoOpen|Contradicted) != 0
}

// Settled reports whether it is decided what became of the call: it took effect,
// certainly did not, or was undone. A settled call may still need somebody.
func (r Record) Settled() bool {
	switch r.Status {
	case Completed, Failed, Compensated:
		return true
	case Reserved, Started, Indeterminate, Follower, None:
	}
	return false
}

// Closable reports whether the table lets [Record.Close] move the record: it did
// nothing, and could still start.
func (r Record) Closable() bool {
	_, err := Decide(r, Close, Given{})
	return err == nil
}

// NeedsSomebody reports whether a person or the sweeper should look at the
// record at now: everything unsettled but an approved call, and a started one
// whose executor may still be at work.
func (r Record) NeedsSomebody(now time.Time) bool {
	switch r.Status {
	case Started:
		return r.Flags.Has(Contradicted) || now.After(r.Attempt.Deadline)
	case Reserved:
		return !r.Flags.Has(Approved)
	case Completed, Failed, Indeterminate, Compensated, Follower, None:
	}
	return r.State().Unsettled()
}

// BroomDelay lies between the end of retention and the broom, so that an
// invocation which passed the retention check just before it is still answered
// from the record.
const BroomDelay = time.Hour

// Expiry returns when the store may remove the record; ok is false while it
// must stay. What needs somebody never expires, but for a reserved call, whose
// window bounds it.
func (r Record) Expiry(retention time.Duration) (at time.Time, ok bool) {
	switch {
	case r.Status == Reserved:
		return r.Approval.ExpiresAt.Add(retention + BroomDelay), true
	case r.State().Unsettled(), r.Status == Follower:
		return time.Time{}, false
	}
	settled := r.Outcome.At
	if settled.IsZero() {
		settled = r.CreatedAt
	}
	return settled.Add(retention + BroomDelay), true
}
