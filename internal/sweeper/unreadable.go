package sweeper

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
)

// single returns the errors that err joins, or err alone.
func single(err error) []error {
	if joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// unreadableItems counts what of a page of the index can't be read, and names it
// where the store says whose it is.
func (w *sweep) unreadableItems(ctx context.Context, err error) {
	for _, broken := range single(err) {
		var key ledger.Key
		var since time.Time
		if item, ok := errors.AsType[operator.Unreadable](broken); ok {
			key, since = item.Unreadable()
		}
		w.unreadableCall(ctx, key, since, broken)
	}
}

// unreadableCall counts a call once, though its record, its waits and a read of
// it may all say that it can't be read.
func (w *sweep) unreadableCall(ctx context.Context, key ledger.Key, since time.Time, err error) {
	w.log.LogAttrs(ctx, slog.LevelError, "a call's item can't be read", slog.String("run", key.RunID), slog.String("key_hash", key.Short()), slog.Any("error", err))
	w.tally.add(func(r *Report) {
		if key != (ledger.Key{}) && w.broken[key] {
			return
		}
		w.broken[key] = true
		r.Calls.Unreadable++
		r.Unreadable = append(r.Unreadable, Unreadable{Tenant: key.Tenant, RunID: key.RunID, CallID: key.CallID, Since: since})
	})
}

// unreadableRuns counts the runs that can't be read; the log says which.
func (w *sweep) unreadableRuns(ctx context.Context, err error) {
	for _, broken := range single(err) {
		w.log.LogAttrs(ctx, slog.LevelError, "a run can't be read", slog.Any("error", broken))
		w.tally.add(func(r *Report) { r.Runs.Unreadable++ })
	}
}
