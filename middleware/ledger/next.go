package ledger

import "time"

// Next is what an orchestrator should do with an answer. It never needs to
// compare statuses.
type Next string

// The steps an orchestrator can take.
const (
	Done    Next = "done"    // tell the model
	Again   Next = "again"   // ask again under the same key, later
	Look    Next = "look"    // ask the look-up
	Park    Next = "park"    // wait for a person
	Inspect Next = "inspect" // read the ledger; the answer proves nothing
)

// Policy says what an orchestrator does about a call whose outcome stays
// unknown. The zero Policy is Pause. In none of them does the model hear
// "failed".
type Policy string

// The policies.
const (
	Pause Policy = "pause" // the run waits until somebody settles the call
	Tell  Policy = "tell"  // the model hears that it is unresolved, and goes on
	Fail  Policy = "fail"  // the run ends with a named error, after its sibling calls
)

// Valid reports whether p is one of the policies or the zero Policy.
func (p Policy) Valid() bool {
	switch p {
	case "", Pause, Tell, Fail:
		return true
	}
	return false
}

// Next returns what to do about the call at now. canLook says that the tool has
// a look-up which has not just been asked.
func (r Record) Next(now time.Time, canLook bool, policy Policy) Next {
	switch r.Status {
	case Reserved:
		if r.Flags.Has(Approved) {
			return Again
		}
		return Park
	case Started:
		if now.After(r.Attempt.Deadline) {
			return Look // its reconcile mode orphans the call first
		}
		return Again
	case Indeterminate:
		switch {
		case canLook:
			return Look
		case policy == Tell || policy == Fail:
			return Done
		}
		return Park
	case Failed:
		switch {
		case r.Flags.Has(Granted | Contradicted):
			return Park // the grant can't be used before somebody has looked
		case r.Flags.Has(Granted):
			return Again
		}
		return Done
	case Completed, Compensated, None:
		return Done
	case Follower:
	}
	return Inspect
}
