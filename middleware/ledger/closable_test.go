package ledger_test

import (
	"testing"

	"github.com/onceward/onceward/middleware/ledger"
)

func TestRecordIsClosableExactlyWhereTheTableClosesIt(t *testing.T) {
	t.Parallel()
	closable := map[string]bool{}
	for _, status := range append(ledger.Statuses(), ledger.None) {
		for flags := range ledger.Flags(1 << len(ledger.AllFlags())) {
			r := ledger.Record{Key: ledger.Key{RunID: "r", CallID: "c"}, Status: status, Flags: flags}
			_, err := r.Close(ledger.Stamp{WriteID: "w"}, r.Key, ledger.Settler{Kind: ledger.ByPlanner})
			if r.Closable() != (err == nil) {
				t.Errorf("%s: closable %v, but to close it: %v", r.State(), r.Closable(), err)
			}
			closable[status.String()] = closable[status.String()] || r.Closable()
		}
	}
	for status, can := range closable {
		if can != (status == "none" || status == "failed") {
			t.Errorf("%s: closable %v", status, can)
		}
	}
}

func TestCallIsSettledOnceItIsDecidedWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	for status, want := range map[ledger.Status]bool{
		ledger.None: false, ledger.Reserved: false, ledger.Started: false, ledger.Indeterminate: false, ledger.Follower: false,
		ledger.Completed: true, ledger.Failed: true, ledger.Compensated: true,
	} {
		if got := (ledger.Record{Status: status}).Settled(); got != want {
			t.Errorf("%s: settled = %v", status, got)
		}
	}
}
