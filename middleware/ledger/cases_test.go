package ledger_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/middleware/ledger"
)

// Whoever may still repeat a call, or settle it by hand, finds its record.
// Proves: R132
func TestRecordOutlivesEverybodyWhoMayStillAskForItsCall(t *testing.T) {
	t.Parallel()
	duration := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(400*24*time.Hour)).Draw(t, "d"))
	})
	rapid.Check(t, func(t *rapid.T) {
		r := ledger.Retention{LongestRun: duration.Draw(t, "run"), RetryWindow: duration.Draw(t, "retries"), QueueDelay: duration.Draw(t, "queue"), ManualRecovery: duration.Draw(t, "people")}
		began := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		settled := began.Add(time.Duration(rapid.Int64Range(0, int64(r.LongestRun)).Draw(t, "settled after")))
		last := began.Add(r.LongestRun + r.RetryWindow + r.QueueDelay + r.ManualRecovery) // the latest that anybody may ask
		for _, status := range ledger.Statuses() {
			rec := ledger.Record{Status: status, CreatedAt: began, Outcome: ledger.Outcome{At: settled}, Approval: ledger.Approval{ExpiresAt: settled}}
			if at, expires := rec.Expiry(r.Total()); expires && at.Before(last) {
				t.Fatalf("%s is gone at %v; it may be asked for until %v", status, at, last)
			}
		}
	})
	const day = 24 * time.Hour
	d := ledger.DefaultRetention()
	// Step Functions lets a stopped execution be redriven for 14 days; Lambda
	// keeps an event for 6 hours; an approval may take a week.
	if d.LongestRun < 7*day || d.RetryWindow < day || d.QueueDelay < 6*time.Hour || d.ManualRecovery < 14*day {
		t.Errorf("by default %+v", d)
	}
}
