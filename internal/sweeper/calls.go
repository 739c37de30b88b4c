package sweeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
)

// How much is done at once. A slow call may have its tool's function invoked,
// which takes up to half a minute: these must not keep the quick ones waiting.
const (
	segments    = 16 // of the index; taken in another order each time
	listAtOnce  = 4
	quickAtOnce = 8
	slowAtOnce  = 4
	pageOfCalls = 200
)

// listedCall is a call of the index with what the index says of it.
type listedCall struct {
	key      ledger.Key
	inFlight bool // its executor has time left
	slow     bool // it may be looked up, or its undo invoked
	parked   bool // a run waits on it
}

func (w *sweep) calls(ctx context.Context) error {
	found, err := w.listCalls(ctx)
	var quick, slow []listedCall
	inFlight := 0
	for _, c := range found {
		switch {
		case c.inFlight && !c.parked:
			inFlight++ // nothing is overdue, and what happened since is the next sweep's
		case c.slow:
			slow = append(slow, *c)
		default:
			quick = append(quick, *c)
		}
	}
	work, cancel := within(ctx, w.until.work)
	defer cancel()
	var group sync.WaitGroup
	var quickLeft, slowLeft int
	tend := func(c listedCall) { w.tendCall(work, c.key) }
	group.Go(func() { quickLeft = each(shuffled(quick), quickAtOnce, func() bool { return w.mayBegin(work) }, tend) })
	group.Go(func() { slowLeft = each(shuffled(slow), slowAtOnce, func() bool { return w.mayBegin(work) }, tend) })
	group.Wait()
	w.tally.add(func(r *Report) {
		r.Calls.Listed, r.Calls.InFlight = len(found), inFlight
		r.Calls.Left += quickLeft + slowLeft
	})
	return err
}

// listCalls reads the whole index before anything is tended, since the way
// through it is the same each time: whoever tended on the way and ran out of
// time would never come to its end.
func (w *sweep) listCalls(ctx context.Context) (map[ledger.Key]*listedCall, error) {
	ctx, cancel := within(ctx, w.until.listing)
	defer cancel()
	var parts []int
	for n := range segments {
		parts = append(parts, n)
	}
	var mu sync.Mutex
	found := make(map[ledger.Key]*listedCall)
	var errs []error
	left := each(shuffled(parts), listAtOnce, func() bool { return ctx.Err() == nil }, func(part int) {
		err := w.scan(ctx, part, func(page ledger.Page) {
			mu.Lock()
			defer mu.Unlock()
			w.note(found, page)
		})
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	})
	if err := errors.Join(errs...); err != nil || left > 0 {
		w.tally.cut()
		if ctx.Err() == nil {
			return found, fmt.Errorf("sweeper: calls could not be listed: %w", err)
		}
	}
	return found, nil
}

func (w *sweep) scan(ctx context.Context, part int, note func(ledger.Page)) error {
	q := ledger.Query{Segment: part, Segments: segments, Limit: pageOfCalls}
	for {
		page, err := w.s.Scan.Scan(ctx, q)
		if err != nil && !errors.Is(err, ledger.ErrCorrupt) {
			return err
		}
		if err != nil {
			w.unreadableItems(ctx, err)
		}
		note(page)
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

func (w *sweep) note(found map[ledger.Key]*listedCall, page ledger.Page) {
	at := func(key ledger.Key) *listedCall {
		if found[key] == nil {
			found[key] = &listedCall{key: key}
		}
		return found[key]
	}
	now := w.now()
	for _, r := range page.Records {
		c := at(r.Key)
		c.inFlight = r.Status == ledger.Started && !r.NeedsSomebody(now)
		c.slow = r.Status == ledger.Indeterminate || r.Status == ledger.Started || r.Flags.Has(ledger.UndoOpen)
	}
	for _, wait := range page.Waits {
		at(wait.Key).parked = true
	}
}

// tendCall lets one call be tended, whatever becomes of it.
func (w *sweep) tendCall(ctx context.Context, key ledger.Key) {
	done, err := guarded(func() (operator.Tended, error) { return w.s.Calls.Tend(ctx, key) })
	corrupt, over := errors.Is(err, ledger.ErrCorrupt), err != nil && !w.mayBegin(ctx)
	now := w.now()
	w.tally.add(func(r *Report) { // what was done before an error stands
		c := &r.Calls
		c.Tended += one(!corrupt && !over)
		c.Left += one(!corrupt && over)
		c.Failed += one(err != nil && !corrupt && !over)
		c.Orphaned += one(done.Orphaned)
		c.Expired += one(done.Expired)
		c.LookedUp += one(done.LookedUp)
		c.UndoInvoked += one(done.UndoInvoked)
		c.UndoClosed += one(done.UndoClosed)
		c.Rung += done.Rung
		if done.NeedsSomebody {
			c.NeedSomebody++
			c.OldestSeconds = max(c.OldestSeconds, age(now, done.WaitingSince))
		}
	})
	switch {
	case corrupt:
		w.unreadableCall(ctx, key, time.Time{}, err)
	case err != nil:
		w.log.LogAttrs(ctx, slog.LevelWarn, "call not tended", slog.String("run", key.RunID), slog.String("key_hash", key.Short()), slog.Any("error", err))
	}
}

func one(so bool) int {
	if so {
		return 1
	}
	return 0
}

// age returns for how many whole seconds something has waited, 0 if it isn't known.
func age(now, since time.Time) int64 {
	if since.IsZero() {
		return 0
	}
	return int64(max(0, now.Sub(since)) / time.Second)
}
