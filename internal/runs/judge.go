package runs

import (
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// Verdict is what to do about a call of the open turn.
type Verdict string

// The verdicts.
const (
	Issue Verdict = "issue" // ask the state machine to call it, first or again
	Close Verdict = "close" // make sure that it can't start any more, then judge again
	Tell  Verdict = "tell"  // the model may hear of it
)

// maxAnswers is how often a call comes back before it is no longer issued: the
// first time, and at most twice again.
const maxAnswers = 3

// What the guard says of a request that did nothing, which no record of the call
// holds. They are part of the envelope's contract.
const (
	statusRefused       = "refused"
	statusExpired       = "expired"
	statusConflict      = "conflict"
	statusIndeterminate = string(ledger.Indeterminate)
	statusFailed        = string(ledger.Failed)
)

// Open is one call of the open turn with everything that is known of it. Record
// is the zero Record where there is none, and need not be read of a call that
// was never issued.
type Open struct {
	Call     Call
	Turn     int
	Known    bool // there is a tool of that name
	Progress Progress
	Record   ledger.Record
	Policy   ledger.Policy
	Why      string // why a request that did nothing was refused, for people and models
}

// Judge says what to do about the call. Nobody hears that a call did nothing
// before it is closed, and nobody hears of one that may still go on.
func (o Open) Judge() Verdict {
	p := o.Progress
	if !o.Known && !p.Issued {
		return o.closedOrTold()
	}
	if o.conflicts() {
		return Tell
	}
	switch {
	case !o.Record.Exists():
		return o.judgeWithoutRecord()
	case o.Record.Closable():
		return Close
	case o.Record.Next(time.Time{}, false, o.Policy) != ledger.Done:
		return o.again(Tell)
	case o.Record.Settled() || p.Status == statusIndeterminate:
		return Tell
	}
	return o.again(Tell) // unknown, and the tool has not said yet that it looked
}

func (o Open) judgeWithoutRecord() Verdict {
	switch o.Progress.Status {
	case statusRefused, statusExpired, statusFailed:
		return Close
	case "", Unresolved:
		return o.again(Close)
	}
	// The tool spoke of a record or an effect that isn't there. To close the call
	// would be to say that it did nothing.
	return o.again(Tell)
}

// closedOrTold is the verdict on a call that is not to be issued any more.
func (o Open) closedOrTold() Verdict {
	if o.Record.Closable() {
		return Close
	}
	return Tell
}

// again issues the call, unless there is nobody to ask or it came back too often.
func (o Open) again(otherwise Verdict) Verdict {
	if !o.Known || o.Progress.Answers >= maxAnswers {
		return otherwise
	}
	return Issue
}

// Abandoned is the verdict when nothing more is issued because the run is about
// to fail: what can be closed is closed, the rest is told as it is.
func (o Open) Abandoned() Verdict {
	if o.conflicts() {
		return Tell
	}
	return o.closedOrTold()
}

// Unknown reports whether the call's outcome is unknown and nothing more is to
// be tried: under the policy fail it ends the run.
func (o Open) Unknown() bool {
	return o.Progress.Issued && o.Judge() == Tell && o.told() == Unresolved
}

// conflicts reports whether the key belongs to another call: the guard said so,
// or the record does. Then the record says nothing of this call.
func (o Open) conflicts() bool {
	r := o.Record
	other := r.Exists() && !closedUnseen(r) && (r.Tool != o.Call.Tool || r.Turn != o.Turn || !SameArguments(r, o.Call.Arguments))
	return other || o.Progress.Status == statusConflict
}
