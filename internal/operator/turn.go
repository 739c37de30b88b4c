package operator

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// maxLoads is how many records are read at a time for one request.
const maxLoads = 8

// Turn is one answer of the model and what became of the calls in it.
type Turn struct {
	Number int        `json:"number"`
	At     string     `json:"at" format:"date-time" doc:"When it was stored"`
	Says   string     `json:"says,omitempty" doc:"The model's words beside its calls, cut after 2 KiB; of a final turn its answer"`
	Final  bool       `json:"final" doc:"The model asked for nothing more"`
	Closed bool       `json:"closed" doc:"It is fixed what the model hears of the calls"`
	Calls  []TurnCall `json:"calls" nullable:"false" doc:"In the order in which the model asked for them"`
}

// TurnCall is one call of a turn, without arguments and result; the call itself
// is shown under its key.
type TurnCall struct {
	ID     string `json:"id"`
	Key    string `json:"key" doc:"[tenant/]run:call"`
	Tool   string `json:"tool" doc:"As the model named it"`
	Status string `json:"status" doc:"The ledger's word; none while nothing is recorded, conflict if the key belongs to another call, unreadable if the record can't be read"`
	Effect string `json:"effect" doc:"What is known of the call: none, happened, unknown or undone"`
	Heard  string `json:"heard,omitempty" doc:"In one word what the model heard: completed, failed, compensated, unresolved, refused, conflict or expired; absent until it has"`
	Why    Why    `json:"why,omitempty" doc:"Why the call needs somebody, or is in_flight or approved; absent otherwise"`
}

// What is said instead of a status where no record speaks for the call.
const conflictStatus = "conflict"

// callState is a call of a turn with its record, as it was read.
type callState struct {
	call       runs.Call
	key        ledger.Key
	record     ledger.Record
	conflict   bool // the record is another call's
	unreadable bool
	now        time.Time
}

// callsOf reads the records of the calls of the page's turns and of the open
// turn, by turn.
func (s *Service) callsOf(ctx context.Context, run runs.Run, page turnPage) (map[int][]callState, error) {
	turns := page.shown
	if page.open != nil && !slices.ContainsFunc(turns, func(t runs.Turn) bool { return t.Number == page.open.Number }) {
		turns = append(slices.Clip(turns), *page.open)
	}
	now, calls := s.cfg.Now(), make(map[int][]callState, len(turns))
	var all []*callState
	for _, turn := range turns {
		states := make([]callState, len(turn.Calls))
		for i, call := range turn.Calls {
			states[i] = callState{call: call, key: run.Key().Call(call.ID), now: now}
			all = append(all, &states[i])
		}
		calls[turn.Number] = states
	}
	if err := s.loadCalls(ctx, all); err != nil {
		return nil, problem(Unavailable, "a call of the run could not be read").because(err)
	}
	for _, turn := range turns {
		for i := range calls[turn.Number] {
			calls[turn.Number][i].compare(turn, progressAt(run, turn, i))
		}
	}
	return calls, nil
}

// loadCalls fills in the records, at most maxLoads at a time. After the first
// error nothing more is read.
func (s *Service) loadCalls(ctx context.Context, calls []*callState) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan *callState)
	var loaders sync.WaitGroup
	for range min(maxLoads, len(calls)) {
		loaders.Go(func() {
			for c := range next {
				if err := s.loadCall(ctx, c); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, c := range calls {
		if ctx.Err() != nil {
			break
		}
		next <- c
	}
	close(next)
	loaders.Wait()
	return context.Cause(ctx)
}

func (s *Service) loadCall(ctx context.Context, c *callState) error {
	r, err := s.cfg.Store.Load(ctx, c.key)
	if errors.Is(err, ledger.ErrCorrupt) { // one bad record must not hide the others
		s.cfg.Log.LogAttrs(ctx, slog.LevelError, "a call of a run can't be read", slog.String("key_hash", c.key.Short()), slog.Any("error", err))
		c.unreadable = true
		return nil
	}
	c.record = r
	return err
}

// progressAt is known of the open turn only.
func progressAt(run runs.Run, turn runs.Turn, i int) runs.Progress {
	if turn.Number != run.Turn || i >= len(run.Progress) {
		return runs.Progress{}
	}
	return run.Progress[i]
}

// compare asks the planner's own rule whether the record is another call's.
func (c *callState) compare(turn runs.Turn, progress runs.Progress) {
	if c.unreadable {
		return
	}
	open := runs.Open{Call: c.call, Turn: turn.Number, Known: true, Progress: progress, Record: c.record}
	c.conflict = open.Heard(nil, runs.HeardBudget(1)).Status == conflictStatus
}

// why is "" where there is nothing to say, and of another call's record.
func (c *callState) why() Why {
	switch {
	case c.unreadable:
		return WhyUnreadable
	case c.conflict:
		return ""
	}
	return whyOf(c.record, c.now)
}

// holdsUp reports whether the call's outcome is unknown, and nobody is at work
// on it.
func (c *callState) holdsUp() bool {
	if c.conflict {
		return false
	}
	r := c.record
	return r.Status == ledger.Indeterminate || r.Status == ledger.Started && c.now.After(r.Attempt.Deadline)
}

func (c *callState) asksApproval() bool {
	return !c.conflict && c.record.Status == ledger.Reserved && !c.record.Flags.Has(ledger.Approved)
}

func (c *callState) awaited() Awaited {
	a := Awaited{Key: c.key.String(), Tool: c.call.Tool, Why: c.why(), WaitingSince: stamp(c.record.WaitsSince)}
	if c.unreadable {
		a.WhatToDo = repairRecord
	}
	return a
}

func turnOf(turn runs.Turn, calls []callState) Turn {
	v := Turn{Number: turn.Number, At: stamp(turn.At), Says: ledger.Shorten(turn.Says, maxShownSays), Final: turn.Final, Closed: turn.Closed(), Calls: []TurnCall{}}
	heard := make(map[string]string, len(turn.Heard))
	for _, h := range turn.Heard {
		heard[h.CallID] = h.Status // its words may hold a result
	}
	for i := range calls {
		v.Calls = append(v.Calls, calls[i].view(heard[calls[i].call.ID]))
	}
	return v
}

func (c *callState) view(heard string) TurnCall {
	v := TurnCall{ID: c.call.ID, Key: c.key.String(), Tool: c.call.Tool, Status: c.record.Status.String(), Effect: c.record.Effect().String(), Heard: heard, Why: c.why()}
	switch {
	case c.unreadable:
		v.Status, v.Effect = unreadableStatus, ledger.Unknown.String()
	case c.conflict:
		v.Status = conflictStatus
	}
	return v
}
