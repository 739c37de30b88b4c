package operator

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// What one list reads at most before it answers with fewer calls than asked for:
// the store's pages, and calls that are read for an unconfirmed wait.
const (
	maxStorePages = 20
	maxWaitChecks = 200
)

// lister collects one page of a list. It is used by one goroutine.
type lister struct {
	s      *Service
	id     Identity
	filter Filter
	now    time.Time
	checks int                 // that may still be made
	broken map[ledger.Key]bool // listed as unreadable
	items  []Item
}

// line is an item in its place.
type line struct {
	since time.Time
	item  Item
}

// read goes on from cursor and returns where the next page does.
func (l *lister) read(ctx context.Context, cursor string) (string, error) {
	for range maxStorePages {
		// A line of the store's page costs at most one check, so that none has
		// to be left out in its middle.
		limit := min(l.filter.Limit-len(l.items), l.checks)
		if limit <= 0 {
			break
		}
		page, err := l.s.cfg.Store.Unsettled(ctx, ledger.Query{Tenant: l.id.Tenant, Cursor: cursor, Limit: limit})
		if errors.Is(err, ledger.ErrInvalid) {
			return "", problem(InvalidCursor, "").because(err)
		}
		if err != nil && !errors.Is(err, ledger.ErrCorrupt) {
			return "", problem(Unavailable, "the list could not be read").because(err)
		}
		broken := unreadables(err)
		if err != nil && len(broken) == 0 {
			l.s.cfg.Log.LogAttrs(ctx, slog.LevelError, "an item of the list can't be read, and it is not known whose", slog.Any("error", err))
		}
		if err := l.add(ctx, page, broken); err != nil {
			return "", err
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	return cursor, nil
}

// add takes a page's records and waits, and what of them can't be read, in the
// order in which they are stored.
func (l *lister) add(ctx context.Context, page ledger.Page, broken []Unreadable) error {
	lines, err := l.addUnreadable(ctx, broken, func(key ledger.Key) bool { return l.needsSomebody(page.Records, key) })
	if err != nil {
		return err
	}
	for _, r := range page.Records {
		if l.filter.wants(r, l.id, l.now) {
			lines = append(lines, line{r.WaitsSince, itemOf(r, l.now)})
		}
	}
	for _, w := range page.Waits {
		if w.Key.Tenant != l.id.Tenant || l.needsSomebody(page.Records, w.Key) {
			continue
		}
		item, err := l.sleeper(ctx, w)
		if err != nil {
			return problem(Unavailable, "a parked run's call could not be read").because(err)
		}
		if item != nil {
			lines = append(lines, line{w.ParkedAt, *item})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.since.Compare(b.since) })
	for _, line := range lines {
		l.items = append(l.items, line.item)
	}
	return nil
}

// needsSomebody spares a read: the wait of a call that is listed by itself says
// nothing new.
func (l *lister) needsSomebody(records []ledger.Record, key ledger.Key) bool {
	return slices.ContainsFunc(records, func(r ledger.Record) bool { return r.Key == key && r.NeedsSomebody(l.now) })
}

// sleeper returns the call of an unconfirmed wait if it needs nobody and its run
// is still not woken, read consistently; nil otherwise. Of a call with several
// waits it is the first that stands for all, so that pages hold the call once.
func (l *lister) sleeper(ctx context.Context, w ledger.Wait) (*Item, error) {
	l.checks--
	r, err := l.s.cfg.Store.Load(ctx, w.Key)
	if errors.Is(err, ledger.ErrCorrupt) {
		l.s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "a parked run's call can't be read", slog.String("key_hash", w.Key.Short()), slog.Any("error", err))
		return nil, nil //nolint:nilnil // one bad record must not hide the others
	}
	if err != nil {
		return nil, err
	}
	if !r.Exists() || r.NeedsSomebody(l.now) || !l.filter.matches(r) || l.filter.wants(r, l.id, l.now) {
		return nil, nil //nolint:nilnil // listed as a record, or not at all
	}
	waits, _, err := l.s.waits(ctx, w.Key)
	if err != nil {
		return nil, err
	}
	first := firstUnrung(waits)
	if !l.s.sleeps(r, waits) || waits[first].ID != w.ID {
		return nil, nil //nolint:nilnil // woken meanwhile, or told at another wait
	}
	item := itemOf(r, l.now)
	item.WaitingSince, item.WaitingSeconds = stamp(w.ParkedAt), int64(max(l.now.Sub(w.ParkedAt), 0)/time.Second)
	item.Why, item.WhatToDo = WhyNotWoken, wakeIt
	return &item, nil
}
