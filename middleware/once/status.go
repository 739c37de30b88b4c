package once

// Status is how an invocation was answered. Each is also an error to compare
// with: errors.Is(err, once.InProgress).
//
//nolint:errname // a Status is the contract's word first, and an error beside that
type Status string

// The answers. The first four are what the ledger says of the call; the others
// speak of this invocation, which did nothing.
//
//nolint:errname // they are the contract's words first
const (
	Completed        Status = "completed"         // took effect; as an error: its result was not kept
	Failed           Status = "failed"            // certainly did not take effect
	Indeterminate    Status = "indeterminate"     // may or may not have taken effect; do not repeat it under a new key
	Compensated      Status = "compensated"       // took effect and was undone
	ApprovalRequired Status = "approval_required" // did not take effect; waits for a person
	InProgress       Status = "in_progress"       // another attempt may be running; ask again under the same key
	Conflict         Status = "conflict"          // the key belongs to a different call; see Report.Effect for that one
	Refused          Status = "refused"           // this request did nothing; an earlier one may have, see Report.Effect
	Expired          Status = "expired"           // came later than records are kept; did nothing now
)

// Error implements error; it is the bare word, since fmt prints a Status by it.
func (s Status) Error() string { return string(s) }
