package dynamoledger

import (
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
)

// CorruptItemError is one stored item that can't be read, of several that can.
// It is a [ledger.ErrCorrupt]. Nothing may run on the item.
type CorruptItemError struct {
	key   ledger.Key
	since time.Time
	err   error
}

// Error implements error. The text names the item and no attribute's value that
// could be secret.
func (e *CorruptItemError) Error() string { return e.err.Error() }

// Unwrap returns what is wrong with the item.
func (e *CorruptItemError) Unwrap() error { return e.err }

// Unreadable returns the call that the item belongs to, the zero Key if that is
// not certain, and since when the item waits in the list, zero if it doesn't say.
func (e *CorruptItemError) Unreadable() (ledger.Key, time.Time) { return e.key, e.since }

// corruptItem names the call of tenant that the item is of, by its key alone:
// nothing else of it can be relied on. Another tenant's call is not named.
func corruptItem(of string, it item, err error) *CorruptItemError {
	d := decoder{it: it}
	_, run, _ := strings.Cut(d.str(names.AttrPartition), "#")
	_, call, _ := strings.Cut(d.str(names.AttrSort), "#") // behind the kind
	call, _, _ = strings.Cut(call, "#")                   // a wait's id follows
	found := &CorruptItemError{err: err}
	if key := (ledger.Key{Tenant: of, RunID: run, CallID: call}); key.Check() == nil && partition(key) == d.str(names.AttrPartition) {
		found.key = key
	}
	digits, _, _ := strings.Cut(d.str(names.AttrIndexSort), "#")
	if ms, err := strconv.ParseInt(digits, 10, 64); err == nil {
		found.since = time.UnixMilli(ms).UTC()
	}
	return found
}
