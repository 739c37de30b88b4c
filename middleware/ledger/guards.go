package ledger

import "time"

// Guard is a named condition of a row, asked of the record as it was read.
type Guard string

// The guards.
const (
	ApprovalOpen     Guard = "approval window open"
	ApprovalOver     Guard = "approval window over"
	GrantUsable      Guard = "no approval needed, or its window open"
	NamesNextAttempt Guard = "caller names the next attempt"
	NeedsNoApproval  Guard = "no approval needed"
	WithinKeyWindow  Guard = "receiver's key window not over"
	PastDeadline     Guard = "executor's hard deadline passed"
	PastQuiet        Guard = "executor's hard deadline and settle delay passed"
	AbsenceIsProof   Guard = "the tool calls its look-up authoritative"
	LookedLate       Guard = "look-up began after hard deadline and settle delay"
	KnowsUnknown     Guard = "the person says that they know it is unknown"
	ThatUndo         Guard = "it is the undo that was asked for last"
	AskedUndo        Guard = "it is an undo that was asked for"
	NoUndoStands     Guard = "no earlier undo took effect after all, or may have"
	UndoContradicted Guard = "the undo's own record is contradicted"
)

// Given is what an event brings along: the facts that guards and proofs ask
// for. Fields that the event does not need stay zero.
type Given struct {
	Now              time.Time
	Token            AttemptToken  // who settles
	Attempt          int           // the attempt that the caller names
	KeyWindow        time.Duration // how long the receiver honours a key; 0: no limit known
	Began            time.Time     // when the look-up began
	Authoritative    bool          // absence proves that nothing happened
	KnowsUnknown     bool          // the person's explicit word
	UndoStands       bool          // an earlier undo took effect after all, or may have
	Undo             int           // which undo it is about
	UndoContradicted bool
}

func (g Guard) holds(r Record, given Given) bool {
	switch g {
	case ApprovalOpen:
		return r.Approval.ExpiresAt.After(given.Now)
	case ApprovalOver:
		return !r.Approval.ExpiresAt.After(given.Now)
	case GrantUsable:
		return r.Approval.ExpiresAt.IsZero() || r.Approval.ExpiresAt.After(given.Now)
	case NamesNextAttempt:
		return given.Attempt == r.Attempt.Number+1
	case NeedsNoApproval:
		return r.Approval.ExpiresAt.IsZero()
	case WithinKeyWindow:
		return given.KeyWindow == 0 || given.Now.Before(r.CreatedAt.Add(given.KeyWindow))
	case PastDeadline:
		return given.Now.After(r.Attempt.Deadline)
	case PastQuiet:
		return given.Now.After(r.Attempt.QuietAfter)
	case AbsenceIsProof:
		return given.Authoritative
	case LookedLate:
		return given.Began.After(r.Attempt.QuietAfter)
	case KnowsUnknown:
		return given.KnowsUnknown
	case ThatUndo:
		return given.Undo > 0 && given.Undo == r.Undo.N
	case AskedUndo:
		return given.Undo > 0 && given.Undo <= r.Undo.N
	case NoUndoStands:
		return !given.UndoStands
	case UndoContradicted:
		return given.UndoContradicted
	}
	return false
}
