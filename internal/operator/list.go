package operator

import (
	"context"
	"slices"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// The sizes of a list's page.
const (
	DefaultLimit = 50
	MaxLimit     = 200
)

// Filter narrows a list.
type Filter struct {
	Status string // one of the ledger's; with "started" the list also holds calls that are in flight
	Tool   string
	Limit  int    // 1 to MaxLimit; 0 means DefaultLimit
	Cursor string // List.NextCursor of the page before
}

// Item is one call that needs somebody, or whose run is not woken yet although it
// does not. One that can't be read has only its key, why and what to do.
type Item struct {
	Key            string `json:"key" doc:"[tenant/]run:call"`
	RunID          string `json:"run_id"`
	CallID         string `json:"call_id"`
	Tool           string `json:"tool"`
	Agent          string `json:"agent"`
	Status         string `json:"status"`
	State          string `json:"state" doc:"The status with its flags"`
	Effect         string `json:"effect" doc:"none, happened, unknown or undone"`
	Turn           int    `json:"turn"`
	Summary        string `json:"summary" doc:"The arguments, redacted"`
	WaitingSince   string `json:"waiting_since" format:"date-time"`
	WaitingSeconds int64  `json:"waiting_seconds" doc:"Whole seconds, never negative"`
	Why            Why    `json:"why" doc:"contradicted, undo_open, unknown_outcome, executor_overdue, in_flight, awaiting_approval, approved, unused_grant, run_not_woken or unreadable"`
	WhatToDo       string `json:"what_to_do,omitempty" doc:"Present with run_not_woken: nobody has to decide, and POST reconcile wakes the run; with undo_open: how to carry the undo on, and its own key; and with unreadable: how to get the stored item repaired"`
	Version        int64  `json:"version"`
}

// List is one page of calls, the longest-waiting first.
type List struct {
	Items      []Item `json:"items" nullable:"false"`
	NextCursor string `json:"next_cursor,omitempty" doc:"Opaque; absent on the last page. A page may hold fewer calls than its limit and still have one."`
}

// List returns the calls of the identity's tenant that need somebody, and those
// that do not but whose parked run is not woken yet. What can't be read hides
// nothing else: it is listed by its key, as [WhyUnreadable]. The list comes from
// an index that may be seconds behind; nothing may be decided from it.
func (s *Service) List(ctx context.Context, id Identity, f Filter) (List, error) {
	if err := id.May(ReadCalls); err != nil {
		return List{}, err
	}
	if f.Limit == 0 {
		f.Limit = DefaultLimit
	}
	var wrong invalid
	if f.Limit < 0 || f.Limit > MaxLimit {
		wrong.add("query.limit", "want 1 to 200")
	}
	if f.Status != "" && !slices.Contains(Listed(), f.Status) {
		wrong.add("query.status", "not a status")
	}
	if err := wrong.problem(); err != nil {
		return List{}, err
	}
	cursor, err := unseal(f.scope(id), f.Cursor)
	if err != nil {
		return List{}, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	l := lister{s: s, id: id, filter: f, now: s.cfg.Now(), checks: maxWaitChecks, broken: map[ledger.Key]bool{}, items: []Item{}}
	if cursor, err = l.read(ctx, cursor); err != nil {
		return List{}, err
	}
	return List{Items: l.items, NextCursor: seal(f.scope(id), cursor)}, nil
}

func (f Filter) wants(r ledger.Record, id Identity, now time.Time) bool {
	if r.Key.Tenant != id.Tenant { // the store promises it; another tenant's call must not depend on that
		return false
	}
	return f.matches(r) && (r.NeedsSomebody(now) || f.Status == string(ledger.Started))
}

func (f Filter) matches(r ledger.Record) bool {
	return (f.Tool == "" || f.Tool == r.Tool) && (f.Status == "" || f.Status == string(r.Status))
}

func itemOf(r ledger.Record, now time.Time) Item {
	waited := max(now.Sub(r.WaitsSince), 0)
	item := Item{
		Key: r.Key.String(), RunID: r.Key.RunID, CallID: r.Key.CallID, Tool: r.Tool, Agent: r.Agent, Status: r.Status.String(), State: r.State().String(),
		Effect: r.Effect().String(), Turn: r.Turn, Summary: r.Summary, WaitingSince: stamp(r.WaitsSince), WaitingSeconds: int64(waited / time.Second),
		Why: whyOf(r, now), Version: r.Version,
	}
	if item.Why == WhyUndoOpen {
		item.WhatToDo = undoIsOpen + r.Key.Undo(r.Undo.N).String() + "."
	}
	return item
}

// Listed returns the statuses that a list can be narrowed to.
func Listed() []string {
	var words []string
	for _, status := range ledger.Statuses() {
		if status != ledger.Follower { // it has no status of its own
			words = append(words, string(status))
		}
	}
	return words
}

// scope binds a cursor to the tenant and the filters.
func (f Filter) scope(id Identity) string { return scopeOf(id.Tenant, f.Status, f.Tool) }
