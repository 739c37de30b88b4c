package runs

import (
	"context"
	"errors"
)

// ErrStale reports that somebody wrote the run since it was read. Nothing was
// stored; the run that stands is returned with it.
var ErrStale = errors.New("runs: run has moved")

// ErrCorrupt reports a stored item that does not say what it must. Nothing may
// be planned on it.
var ErrCorrupt = errors.New("runs: stored item is corrupt")

// Store keeps runs and their turns. Implementations must be safe for concurrent
// use and pass runstest.Exercise; every read is strongly consistent.
//
// A nil error means durable. Any error but [ErrStale] leaves it open whether a
// write was stored; to repeat it, also from another process, is always safe.
type Store interface {
	// Load returns the run, or the zero Run if there is none.
	Load(ctx context.Context, id ID) (Run, error)

	// Save stores r as the successor of version r.Version-1; version 1 only if
	// there is no run. If somebody else was first it returns the run that stands
	// and ErrStale, unless r.LastWrite says that it is this very write. A run
	// that has not ended never expires and is listed among what is unsettled.
	Save(ctx context.Context, r Run) (Run, error)

	// Turns returns the run's turns numbered from to to, both included, in their
	// order; to 0 is no upper bound.
	Turns(ctx context.Context, id ID, from, to int) ([]Turn, error)

	// PutTurn stores the turn, without what was heard, if there is none of its
	// number, and returns the one that stands.
	PutTurn(ctx context.Context, id ID, t Turn) (Turn, error)

	// Hear fixes what the model hears of the calls of turn n, once, and returns
	// what stands. The turn must be stored.
	Hear(ctx context.Context, id ID, n int, heard []Heard) ([]Heard, error)

	// Expire lets the turns of a run that has ended go when its retention is
	// over.
	Expire(ctx context.Context, r Run) error

	// Unended returns the next page of the runs that have not ended, of one
	// tenant or of all, each partition's oldest first. It may be behind: a run
	// may be missing, or be there in an older version; nothing is decided from
	// it. Runs that can't be read are left out and named in an [ErrCorrupt] beside
	// the page. A cursor that is none of this store's is [ErrInvalid].
	Unended(ctx context.Context, q Query) (Page, error)
}

// ErrInvalid reports a query that can't be asked. Nothing was read.
var ErrInvalid = errors.New("runs: query is wrong")

// Query asks for a page of the runs that have not ended.
type Query struct {
	Tenant     string // ignored with AllTenants
	AllTenants bool
	Cursor     string // Page.Next of the page before; "" for the first
	Limit      int    // defaults to 50; more than 500 are taken as 500
}

// The limits of a page.
const (
	DefaultPage = 50
	MaxPage     = 500
)

// Page is one page of runs. Input may be left out of them where it does not lie
// in the index; Next is "" on the last page.
type Page struct {
	Runs []Run
	Next string
}
