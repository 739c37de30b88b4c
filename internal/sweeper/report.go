package sweeper

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/executions"
)

// Report is what one sweep saw and did, as its function answers.
type Report struct {
	StartedAt time.Time `json:"started_at"`
	Seconds   float64   `json:"seconds"`

	// Complete is false if something could not be listed or was not got to. The
	// counts then speak of what was.
	Complete bool `json:"complete"`

	Calls         CallCounts   `json:"calls"`
	Runs          RunCounts    `json:"runs"`
	WithoutDriver []Driverless `json:"without_driver"` // at most 100, the longest waiting first
	Unreadable    []Unreadable `json:"unreadable"`     // at most 100, the longest waiting first
}

// CallCounts counts calls.
type CallCounts struct {
	Listed        int   `json:"listed"`
	InFlight      int   `json:"in_flight"` // of them, an executor has time left and nobody is parked
	Tended        int   `json:"tended"`
	Failed        int   `json:"failed"` // the next sweep tries again
	Left          int   `json:"left"`   // not got to
	Orphaned      int   `json:"orphaned"`
	Expired       int   `json:"expired"`
	LookedUp      int   `json:"looked_up"`
	UndoInvoked   int   `json:"undo_invoked"`
	UndoClosed    int   `json:"undo_closed"`
	Rung          int   `json:"rung"` // bells, not calls
	Unreadable    int   `json:"unreadable"`
	NeedSomebody  int   `json:"need_somebody"`
	OldestSeconds int64 `json:"oldest_seconds"` // how long the longest of them has waited
}

// RunCounts counts runs.
type RunCounts struct {
	Listed        int   `json:"listed"`
	Driven        int   `json:"driven"` // of them, the driver was seen to run at a glance
	Tended        int   `json:"tended"`
	Failed        int   `json:"failed"`
	Left          int   `json:"left"`
	Started       int   `json:"started"` // executions that were named and missing
	Unreadable    int   `json:"unreadable"`
	WithoutDriver int   `json:"without_driver"`
	OldestSeconds int64 `json:"oldest_seconds"` // of a run without a driver
}

// Driverless is a run that has not ended and that no execution drives. POST
// /v1/runs/{run_id}/resume starts its next generation.
type Driverless struct {
	Tenant    string           `json:"tenant"`
	RunID     string           `json:"run_id"`
	Execution string           `json:"execution"` // the one that it names
	State     executions.State `json:"state"`
	Since     time.Time        `json:"since"` // when the run was last written
}

// Unreadable is a stored item that this version can't read. Nothing runs on it.
type Unreadable struct {
	Tenant string    `json:"tenant"`
	RunID  string    `json:"run_id"`  // "" if the item doesn't say
	CallID string    `json:"call_id"` // "" for a run
	Since  time.Time `json:"since,omitzero"`
}

// maxNamed is how many runs, and how many items that can't be read, a report names.
const maxNamed = 100

// tally is a report that is being written. It is safe for concurrent use.
type tally struct {
	mu       sync.Mutex
	r        Report
	cutShort bool // a list is not whole
}

func (t *tally) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cutShort = true
}

func (t *tally) add(to func(r *Report)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	to(&t.r)
}

// report closes the tally.
func (t *tally) report(now time.Time) Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.r
	r.Seconds = max(0, now.Sub(r.StartedAt)).Seconds()
	r.Complete = !t.cutShort && r.Calls.Left == 0 && r.Runs.Left == 0
	slices.SortFunc(r.WithoutDriver, func(a, b Driverless) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.RunID, b.RunID))
	})
	slices.SortFunc(r.Unreadable, func(a, b Unreadable) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.CallID, b.CallID))
	})
	r.WithoutDriver, r.Unreadable = first(r.WithoutDriver), first(r.Unreadable)
	return r
}

// first returns what of a list is named; an empty list is [] in JSON.
func first[T any](all []T) []T { return append([]T{}, all[:min(len(all), maxNamed)]...) }

// log writes one line with the counts, by which alarms are set, and one for each
// run without a driver that the report names.
func (r Report) log(ctx context.Context, log *slog.Logger) {
	for _, d := range r.WithoutDriver {
		log.LogAttrs(ctx, slog.LevelWarn, "run without a driver", slog.String("tenant", d.Tenant), slog.String("run", d.RunID),
			slog.String("execution", d.Execution), slog.String("state", string(d.State)), slog.Time("since", d.Since))
	}
	level := slog.LevelInfo
	if !r.Complete {
		level = slog.LevelWarn
	}
	c, u := r.Calls, r.Runs
	log.LogAttrs(ctx, level, "sweep", slog.Bool("complete", r.Complete), slog.Float64("seconds", r.Seconds),
		slog.Group("calls", slog.Int("listed", c.Listed), slog.Int("in_flight", c.InFlight), slog.Int("tended", c.Tended), slog.Int("failed", c.Failed),
			slog.Int("left", c.Left), slog.Int("orphaned", c.Orphaned), slog.Int("expired", c.Expired), slog.Int("looked_up", c.LookedUp),
			slog.Int("undo_invoked", c.UndoInvoked), slog.Int("undo_closed", c.UndoClosed), slog.Int("rung", c.Rung), slog.Int("unreadable", c.Unreadable),
			slog.Int("need_somebody", c.NeedSomebody), slog.Int64("oldest_seconds", c.OldestSeconds)),
		slog.Group("runs", slog.Int("listed", u.Listed), slog.Int("driven", u.Driven), slog.Int("tended", u.Tended), slog.Int("failed", u.Failed), slog.Int("left", u.Left),
			slog.Int("started", u.Started), slog.Int("unreadable", u.Unreadable), slog.Int("without_driver", u.WithoutDriver), slog.Int64("oldest_seconds", u.OldestSeconds)))
}
