package ledger

import "time"

// Retention is how long records must be remembered, by reason. A zero field is
// no time at all; use [DefaultRetention] to start from.
type Retention struct {
	LongestRun     time.Duration // of one run, with its approval and decision waits
	RetryWindow    time.Duration // in which clients repeat a call
	QueueDelay     time.Duration // a call can wait in queues
	ManualRecovery time.Duration // a person may take to run something again
}

const day = 24 * time.Hour

// DefaultRetention adds up to 46 days: a run of 30, client retries of one day,
// queues of one and 14 in which a stopped execution can be redriven.
func DefaultRetention() Retention {
	return Retention{LongestRun: 30 * day, RetryWindow: day, QueueDelay: day, ManualRecovery: 14 * day}
}

// Total returns the sum: nothing reserves later than this after its run began,
// and the table's time to live is never less.
func (r Retention) Total() time.Duration {
	return r.LongestRun + r.RetryWindow + r.QueueDelay + r.ManualRecovery
}
