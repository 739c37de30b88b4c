package ledger

import (
	"context"
	"errors"
	"time"
)

// ErrNotKept reports that a call completed and its result was not kept: it was
// too large, could not be encoded, or its retention is over. The effect stands.
var ErrNotKept = errors.New("ledger: result was not kept")

// ErrCorrupt reports a stored item that does not say what it must: an unknown
// schema version, a missing field, a result that is not what its digest says.
// Nothing may run on it.
var ErrCorrupt = errors.New("ledger: stored item is corrupt")

// Store keeps records. Implementations must be safe for concurrent use and pass
// ledgertest.Exercise.
//
// A nil error means durable. [ErrStale] means that nothing was stored. Any
// other error leaves it open whether the write was stored: the caller finds out
// by [Stamp].WriteID, so a store may retry inside but must not guess.
type Store interface {
	// Load reads one record, strongly consistently. No record is not an error:
	// it is the zero Record.
	Load(ctx context.Context, key Key) (Record, error)

	// Apply stores the move if its proof holds, in one atomic write, and returns
	// the record after it. If the proof fails it returns the record that stands
	// and ErrStale, unless [Move.StoredIn] says that it is this very move. A
	// result that the record can't hold is stored beside it first; one that
	// can't be stored at all never stops the move.
	Apply(ctx context.Context, m Move) (Record, error)

	// Result returns the result of a completed call, wherever it lies, checked
	// against its digest; [ErrNotKept] if there is none.
	Result(ctx context.Context, r Record) ([]byte, error)

	// Unsettled returns the next page of a tenant's records that may need
	// somebody and of its unconfirmed waits, oldest first. It may be behind;
	// nothing is decided from it.
	Unsettled(ctx context.Context, q Query) (Page, error)
}

// Query asks for a page of a tenant's unsettled records and waits.
type Query struct {
	Tenant string
	Cursor string // Page.Next of the page before; "" for the first
	Limit  int    // of records and waits together; defaults to 50
}

// Page is one page of what is unsettled. Next is "" on the last one.
type Page struct {
	Records []Record
	Waits   []Wait
	Next    string
}

// Waits keeps the doorbells of parked runs. Implementations must be safe for
// concurrent use and pass ledgertest.ExerciseWaits.
type Waits interface {
	// SaveWait stores a wait that is new. Saving it again, also after it was
	// confirmed, changes nothing: a bell that was rung stays rung.
	SaveWait(ctx context.Context, w Wait) error

	// Waits returns all waits of a call, consistently, the oldest first.
	Waits(ctx context.Context, key Key) ([]Wait, error)

	// ConfirmWait marks the wait's bell as rung, with how it ended. Confirming
	// again keeps the first word; a wait that does not exist is not an error.
	ConfirmWait(ctx context.Context, w Wait, how string, at time.Time) error
}

// Wait is a parked run: a doorbell, never a right. It prints without its token.
// A wait whose bell has not been confirmed never expires.
type Wait struct {
	Key       Key
	ID        string
	Token     Secret
	Execution string
	ParkedAt  time.Time
	RungAt    time.Time // zero: not confirmed
	How       string    // how the bell ended, once confirmed
}

// Rung reports whether the wait's bell has been confirmed.
func (w Wait) Rung() bool { return !w.RungAt.IsZero() }
