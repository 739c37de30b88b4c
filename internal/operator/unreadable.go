package operator

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// Unreadable is an error of a store about one item of several that it can't
// read. It is a [ledger.ErrCorrupt]; several come joined.
type Unreadable interface {
	error

	// Unreadable returns the call that the item belongs to, the zero Key if it
	// is not certain, and since when the item waits in the list.
	Unreadable() (key ledger.Key, since time.Time)
}

// What to do about an item that can't be read.
const (
	repairRecord = "The call's stored record can't be read by this version of the service: nothing runs on it, and its effect is unknown. " +
		"If a newer version wrote it, ask that version; otherwise have the item repaired. The log says what is wrong with it, under this key's hash."
	repairWait = "A parked run's bell on this call is stored in a form that this version of the service can't read, so that run is not woken. " +
		"If a newer version wrote it, ask that version; otherwise have the item repaired, and then POST reconcile wakes the run. The log says what is wrong with it, under this key's hash."
	repairHistory = "An older decision or piece of evidence is stored in a form that this version of the service can't read, so that only those on the record itself are shown. " +
		"If a newer version wrote it, ask that version; otherwise have the item repaired. The log says what is wrong with it, under this key's hash."
)

// unreadables returns the items that a store's error names.
func unreadables(err error) (found []Unreadable) {
	if joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		for _, one := range joined.Unwrap() {
			found = append(found, unreadables(one)...)
		}
		return found
	}
	if one, ok := errors.AsType[Unreadable](err); ok {
		found = append(found, one)
	}
	return found
}

// waits reads a call's waits; broken reports that there are some which can't be
// read. They don't hide the others.
func (s *Service) waits(ctx context.Context, key ledger.Key) (waits []ledger.Wait, broken bool, _ error) {
	waits, err := s.cfg.Waits.Waits(ctx, key)
	if errors.Is(err, ledger.ErrCorrupt) {
		s.cfg.Log.LogAttrs(ctx, slog.LevelError, "a parked run's wait can't be read", slog.String("key_hash", key.Short()), slog.Any("error", err))
		return waits, true, nil
	}
	return waits, false, err
}

// addUnreadable lists the calls whose items on a page can't be read, once each,
// whatever the filter says of what nobody can read.
func (l *lister) addUnreadable(ctx context.Context, broken []Unreadable, listed func(ledger.Key) bool) ([]line, error) {
	var lines []line
	for _, one := range broken {
		key, since := one.Unreadable()
		l.s.cfg.Log.LogAttrs(ctx, slog.LevelError, "an item of the list can't be read", slog.String("key_hash", key.Short()), slog.Any("error", one))
		if key == (ledger.Key{}) || key.Tenant != l.id.Tenant || l.broken[key] || listed(key) {
			continue
		}
		l.broken[key] = true
		item, err := l.unreadable(ctx, key, since)
		if err != nil {
			return nil, problem(Unavailable, "a call could not be read").because(err)
		}
		if item != nil {
			lines = append(lines, line{since, *item})
		}
	}
	return lines, nil
}

// unreadable reads consistently what of the call can't be read: its record, or
// one of its waits. It returns nil if that is over, or if the call is listed by
// what can be read of it.
func (l *lister) unreadable(ctx context.Context, key ledger.Key, since time.Time) (*Item, error) {
	l.checks--
	item := Item{Key: key.String(), RunID: key.RunID, CallID: key.CallID, Status: unreadableStatus, State: unreadableStatus, Effect: ledger.Unknown.String()}
	r, err := l.s.cfg.Store.Load(ctx, key)
	switch {
	case errors.Is(err, ledger.ErrCorrupt):
		item.WhatToDo = repairRecord
	case err != nil:
		return nil, err
	default:
		waits, broken, err := l.s.waits(ctx, key)
		if err != nil {
			return nil, err
		}
		if !broken || r.Exists() && (!l.filter.matches(r) || l.filter.wants(r, l.id, l.now) || l.s.sleeps(r, waits)) {
			return nil, nil //nolint:nilnil // readable again, listed by itself, or not asked for
		}
		if r.Exists() {
			item = itemOf(r, l.now)
		}
		item.WhatToDo = repairWait
	}
	item.Why, item.WaitingSince, item.WaitingSeconds = WhyUnreadable, stamp(since), int64(max(l.now.Sub(since), 0)/time.Second)
	return &item, nil
}

// unreadableStatus stands for the status of a record that can't be read.
const unreadableStatus = "unreadable"
