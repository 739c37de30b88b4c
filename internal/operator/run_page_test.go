package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/memruns"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

// long has n turns of one call each, the last of them open.
func long(t *testing.T, n int) *story {
	t.Helper()
	s := newStory(t, "")
	for i := range n {
		id := fmt.Sprintf("c%d", i+1)
		s.opens(t, "", id)
		if i < n-1 {
			s.ends(t, id, happened)
			s.hears(t, runs.Heard{CallID: id, Status: "completed"})
		}
	}
	return s
}

func numbers(r operator.Run) (turns []int) {
	for _, turn := range r.Turns {
		turns = append(turns, turn.Number)
	}
	return turns
}

func TestPagesHoldEveryTurnOnceAndEachSaysWhereTheRunStands(t *testing.T) {
	t.Parallel()
	s := long(t, 45)
	s.ends(t, "c45", lost)
	for limit, pages := range map[int]int{0: 3, 1: 45, 22: 3, 45: 1, 50: 1} {
		var all []int
		q, n := operator.RunQuery{Limit: limit}, 0
		for {
			got := s.show(t, q)
			page := numbers(got)
			if len(page) > max(limit, 1) && limit > 0 || limit == 0 && len(page) > operator.DefaultTurns {
				t.Fatalf("limit %d: %d turns", limit, len(page))
			}
			if got.Status != operator.RunAwaitingReconciliation || got.OpenTurn != 45 || len(got.WaitingOn) != 1 || got.WaitingOn[0].Key != "acme/run-1:c45" {
				t.Errorf("limit %d, turns %v: %s on %v", limit, page, got.Status, got.WaitingOn)
			}
			all = append(page, all...)
			if n++; got.NextCursor == "" || n > 45 {
				break
			}
			q.Cursor = got.NextCursor
		}
		var want []int
		for i := range 45 {
			want = append(want, i+1)
		}
		if diff := cmp.Diff(want, all); diff != "" || n != pages {
			t.Errorf("limit %d: %d pages, want %d; turns (-want +got):\n%s", limit, n, pages, diff)
		}
	}
}

func TestATurnThatComesWhileARunIsReadDoesNotLengthenThePage(t *testing.T) {
	t.Parallel()
	s := long(t, 3)
	s.hears(t, runs.Heard{CallID: "c3", Status: "completed"})
	if _, err := s.runs.PutTurn(t.Context(), s.run.Key(), runs.Turn{Number: 4, At: s.now, Calls: []runs.Call{{ID: "c4", Tool: "issue_credit", Arguments: `{}`}}}); err != nil {
		t.Fatal(err)
	}
	got := s.show(t, operator.RunQuery{Limit: 2})
	if page := numbers(got); !slices.Equal(page, []int{3, 4}) || got.OpenTurn != 0 || got.Status != operator.RunRunning {
		t.Errorf("turns %v, open %d, %s", page, got.OpenTurn, got.Status)
	}
	if rest := numbers(s.show(t, operator.RunQuery{Limit: 2, Cursor: got.NextCursor})); !slices.Equal(rest, []int{1, 2}) {
		t.Errorf("then %v", rest)
	}
}

func TestACursorBelongsToItsRun(t *testing.T) {
	t.Parallel()
	s := long(t, 3)
	cursor := s.show(t, operator.RunQuery{Limit: 1}).NextCursor
	ask := func(q operator.RunQuery, who operator.Identity) error {
		_, err := s.service.Run(t.Context(), who, q)
		return err
	}
	wantProblem(t, ask(operator.RunQuery{RunID: "run-2", Cursor: cursor}, ops), operator.InvalidCursor)
	wantProblem(t, ask(operator.RunQuery{RunID: "run-1", Cursor: cursor}, operator.Identity{Tenant: "evil", Actor: "eve", Scopes: ops.Scopes}), operator.InvalidCursor)
	for _, broken := range []string{"x", "e30", cursor[1:], cursor + "A"} {
		wantProblem(t, ask(operator.RunQuery{RunID: "run-1", Cursor: broken}, ops), operator.InvalidCursor)
	}
	for _, limit := range []int{-1, 51} {
		wantProblem(t, ask(operator.RunQuery{RunID: "run-1", Limit: limit}, ops), operator.InvalidRequest)
	}
	if _, err := s.service.List(t.Context(), ops, operator.Filter{Cursor: cursor}); err == nil {
		t.Error("a list took a run's cursor")
	}
}

// counted notes which records are read, and how many at once.
type counted struct {
	*memledger.Store
	now, most, all atomic.Int64
	fail           int64 // the read that fails, from 1
}

func (c *counted) Load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	if n := c.all.Add(1); n == c.fail {
		return ledger.Record{}, errors.New("throttled: CANARY")
	}
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
		return ledger.Record{}, ctx.Err()
	}
	return c.Store.Load(ctx, key)
}

// through is the service with another store or other runs.
func (s *story) through(t *testing.T, store ledger.Store, from runs.Store) *operator.Service {
	t.Helper()
	service, err := operator.New(operator.Config{Store: store, Waits: s.store, Runs: from, Bell: s.bell, Tools: s.tools, Launcher: noLauncher{}, Now: func() time.Time { return s.now }})
	if err != nil {
		t.Fatal(err)
	}
	return service
}

func TestOnlyTheShownTurnsCallsAreReadAndEightAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, "")
		var ids []string
		for i := range 20 {
			ids = append(ids, fmt.Sprintf("c%d", i))
		}
		s.opens(t, "", "first")
		s.ends(t, "first", happened)
		s.hears(t, runs.Heard{CallID: "first", Status: "completed"})
		s.opens(t, "", ids...)
		for page, want := range map[int]int64{1: 20, 2: 21} {
			c := &counted{Store: s.store}
			began := time.Now()
			if _, err := s.through(t, c, s.runs).Run(t.Context(), ops, operator.RunQuery{RunID: "run-1", Limit: page}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); c.all.Load() != want || c.most.Load() != 8 || took != 30*time.Millisecond {
				t.Errorf("%d turns: %d reads, %d at once, in %s", page, c.all.Load(), c.most.Load(), took)
			}
		}
		c := &counted{Store: s.store, fail: 3}
		_, err := s.through(t, c, s.runs).Run(t.Context(), ops, operator.RunQuery{RunID: "run-1"})
		wantProblem(t, err, operator.Unavailable)
		if n := c.all.Load(); n > 9 {
			t.Errorf("%d reads although the third failed", n)
		}
	})
}

func TestARunWhoseLedgerHangsIsAnsweredInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := long(t, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := s.through(t, &hung{Store: s.store, load: true}, s.runs).Run(ctx, ops, operator.RunQuery{RunID: "run-1"})
		wantProblem(t, err, operator.Unavailable)
		if ctx.Err() != nil {
			t.Error("no time was left for the answer")
		}
	})
}

func TestACallThatCannotBeReadHidesNoOther(t *testing.T) {
	t.Parallel()
	s := newStory(t, "")
	s.opens(t, "", "c1", "c2")
	s.ends(t, "c2", lost)
	store := newer{Store: s.store, records: []ledger.Key{{Tenant: "acme", RunID: "run-1", CallID: "c1"}}}
	got, err := s.through(t, store, s.runs).Run(t.Context(), ops, operator.RunQuery{RunID: "run-1"})
	if err != nil {
		t.Fatal(err)
	}
	clean(t, got)
	if c := got.Turns[0].Calls[0]; c.Status != "unreadable" || c.Effect != "unknown" || c.Why != operator.WhyUnreadable {
		t.Errorf("%+v", c)
	}
	if len(got.WaitingOn) != 2 || got.WaitingOn[0].WhatToDo == "" || got.WaitingOn[1].Why != operator.WhyUnknown || got.Status != operator.RunAwaitingReconciliation {
		t.Errorf("%s on %+v", got.Status, got.WaitingOn)
	}
}

// brokenRuns can't read some of what it holds.
type brokenRuns struct {
	*memruns.Store
	load, turns error
}

func (b brokenRuns) Load(ctx context.Context, id runs.ID) (runs.Run, error) {
	r, err := b.Store.Load(ctx, id)
	return r, errors.Join(err, b.load)
}

func (b brokenRuns) Turns(ctx context.Context, id runs.ID, from, to int) ([]runs.Turn, error) {
	turns, err := b.Store.Turns(ctx, id, from, to)
	return turns, errors.Join(err, b.turns)
}

func TestARunThatCannotBeReadIsAProblemAndNeverHalfARun(t *testing.T) {
	t.Parallel()
	s := long(t, 2)
	corrupt, down := fmt.Errorf("CANARY: %w", runs.ErrCorrupt), errors.New("CANARY")
	for _, tt := range []struct {
		from brokenRuns
		want operator.Code
	}{
		{brokenRuns{s.runs, corrupt, nil}, operator.CorruptRecord},
		{brokenRuns{s.runs, nil, corrupt}, operator.CorruptRecord},
		{brokenRuns{s.runs, down, nil}, operator.Unavailable},
		{brokenRuns{s.runs, nil, down}, operator.Unavailable},
	} {
		_, err := s.through(t, s.store, tt.from).Run(t.Context(), ops, operator.RunQuery{RunID: "run-1"})
		wantProblem(t, err, tt.want)
	}
	s.run.Turn++ // of which nothing is stored
	s.save(t)
	_, err := s.service.Run(t.Context(), ops, operator.RunQuery{RunID: "run-1"})
	wantProblem(t, err, operator.CorruptRecord)
}
