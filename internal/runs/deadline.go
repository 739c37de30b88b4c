package runs

import (
	"slices"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// Waited returns the ids of the step's calls that may have waited for somebody
// since they were issued: those that were asked again, or all if the Map broke
// and nothing is known of its calls.
func (r Run) Waited(t Turn, outcomes []Outcome) []string {
	var ids []string
	for n, i := range r.Step.Calls {
		if i < len(t.Calls) && (n >= len(outcomes) || outcomes[n].Rounds > 0) {
			ids = append(ids, t.Calls[i].ID)
		}
	}
	return ids
}

// Worked returns how long the step's Map was at work until now: the time since it
// was issued, less that in which any of its calls waited for somebody. A wait
// whose bell has not been confirmed lasts until now. A run that was handed over
// or resumed has no step, so the time without a driver doesn't count.
func (r Run) Worked(waits []ledger.Wait, now time.Time) time.Duration {
	from := r.Step.IssuedAt
	if from.IsZero() || !now.After(from) {
		return 0
	}
	waits = slices.Clone(waits)
	slices.SortFunc(waits, func(a, b ledger.Wait) int { return a.ParkedAt.Compare(b.ParkedAt) })
	worked, counted := time.Duration(0), from // everything before counted is decided
	for _, w := range waits {
		if !w.ParkedAt.Before(now) {
			break
		}
		until := w.RungAt
		if !w.Rung() || until.After(now) {
			until = now
		}
		if w.ParkedAt.After(counted) {
			worked += w.ParkedAt.Sub(counted)
			counted = w.ParkedAt
		}
		if until.After(counted) {
			counted = until
		}
	}
	return (worked + now.Sub(counted)).Truncate(time.Millisecond)
}

// Overdue reports whether the run was at work for longer than it may: nothing
// more of it is issued, and no model is asked.
func (r Run) Overdue() bool { return r.ActiveLimit > 0 && r.Active > r.ActiveLimit }
