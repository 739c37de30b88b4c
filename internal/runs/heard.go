package runs

import (
	"cmp"
	"fmt"

	"github.com/onceward/onceward/middleware/ledger"
)

// The bounds of what the model hears, in bytes as encoded, so that it fits the
// stored turn beside its arguments.
const (
	maxHeard     = 16 << 10 // of one call
	maxTurnHeard = 96 << 10 // of one turn
)

// HeardBudget returns how many bytes the model may hear of each of a turn's n
// calls.
func HeardBudget(n int) int { return min(maxHeard, maxTurnHeard/max(n, 1)) }

// Heard returns what the model hears of a call that is to be told. result is the
// call's, nil if it was not kept; one that does not fit into budget bytes is
// replaced by a note.
func (o Open) Heard(result []byte, budget int) Heard {
	heard := o.heard(result)
	if encodedBytes(heard.Says) > budget {
		heard = o.heard(fmt.Appendf(nil, "%q", fmt.Sprintf("%d bytes, too many to be told here; the ledger keeps them", len(result))))
	}
	return heard
}

func (o Open) heard(result []byte) Heard {
	p, r := o.Progress, o.Record
	switch {
	case o.conflicts():
		effect := ledger.Unknown
		if r.Exists() {
			effect = r.Effect()
		}
		return o.request(statusConflict, effect, "its key belongs to another call")
	case closedUnseen(r) && !o.Known && !p.Issued:
		return o.request(statusRefused, ledger.NoEffect, "there is no tool of that name")
	case closedUnseen(r) && (p.Status == statusRefused || p.Status == statusExpired):
		return o.request(p.Status, ledger.NoEffect, cmp.Or(o.Why, p.Code, "no reason was given"))
	}
	return Heard{CallID: o.Call.ID, Status: o.told(), Says: r.ModelSays(result)}
}

// request is what is heard of a call of which only the request can be spoken.
func (o Open) request(status string, effect ledger.Effect, reason string) Heard {
	return Heard{CallID: o.Call.ID, Status: status, Says: ledger.RequestSays(effect, reason)}
}

// told is the word for what the record says of the effect: never failed for
// unknown.
func (o Open) told() string {
	r := o.Record
	if !r.Exists() {
		return Unresolved
	}
	switch r.Effect() {
	case ledger.Happened:
		return string(ledger.Completed)
	case ledger.Undone:
		return string(ledger.Compensated)
	case ledger.NoEffect:
		if r.Settled() && !r.Flags.Has(ledger.Retryable) { // nobody may grant it an attempt any more, or start it
			return statusFailed
		}
	case ledger.Unknown:
	}
	return Unresolved
}

// closedUnseen reports whether the record was made by closing a call that
// nothing had been written of: it knows neither tool nor arguments.
func closedUnseen(r ledger.Record) bool {
	return r.Settled() && r.Fingerprint == "" && r.Attempt.Number == 0
}
