package ledger

import (
	"context"
	"errors"
	"fmt"
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

// Scanner finds what is unsettled of all tenants, for whoever can't know them.
// Implementations must be safe for concurrent use and pass ledgertest.Exercise.
type Scanner interface {
	// Scan returns the next page of all records that may need somebody and of
	// all unconfirmed waits, in no order; [Query].Tenant is not looked at. A page
	// may be empty and not the last one. An item that can't be read hides no
	// other: the page comes with an error that is [ErrCorrupt]. It may be
	// behind; nothing is decided from it.
	Scan(ctx context.Context, q Query) (Page, error)
}

// Query asks for a page of unsettled records and waits: of a tenant by
// [Store].Unsettled, of all by [Scanner].Scan.
type Query struct {
	Tenant string
	Cursor string // Page.Next of the page before; "" for the first
	Limit  int    // of records and waits together; defaults to 50

	// Segment, below Segments, is the part of a scan that is asked for; every
	// item is in one of them, so that several can be read at once. Segments 0 is
	// one segment, and 64 the most. Unsettled doesn't look at them.
	Segment, Segments int
}

// MaxSegments is into how many parts a scan can be cut.
const MaxSegments = 64

// Parts returns how many parts the scan has and which one is asked for, or
// [ErrInvalid] if there is no such part.
func (q Query) Parts() (segment, segments int, err error) {
	segments = max(q.Segments, 1)
	if segments > MaxSegments || q.Segments < 0 || q.Segment < 0 || q.Segment >= segments {
		return 0, 0, fmt.Errorf("ledger: %w: segment %d of %d", ErrInvalid, q.Segment, q.Segments)
	}
	return q.Segment, segments, nil
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

	// ConfirmWait marks the wait's bell as rung, with how it ended, and forgets its
	// token. Confirming again keeps the first word; a wait that does not exist is
	// not an error. When it was parked and rung is remembered as long as a settled
	// record is.
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
