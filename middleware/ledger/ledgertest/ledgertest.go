// Package ledgertest is the contract that every [ledger.Store] and
// [ledger.Waits] keeps. A store's own tests call [Exercise] and [ExerciseWaits];
// what they check is derived from the ledger's table, so that a new row, field
// or flag is tested before anybody thinks of it. An ability that a store says it
// lacks is a skip with a name, and the skips are counted in the log.
package ledgertest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/middleware/ledger"
)

// Harness says how to reach the store under test.
type Harness struct {
	// New returns the store. It may be one that others use too: the suite makes
	// tenants of its own.
	New func(testing.TB) ledger.Store

	// Lossy returns the same store with answers lost at random below it, so that
	// its own retries meet its own writes. Nil if that can't be arranged.
	Lossy func(t testing.TB, seed uint64) ledger.Store

	// Verify is called with a record after it was written, to look at what is
	// stored with other eyes. Nil for none.
	Verify func(testing.TB, ledger.Record)

	// Behind is how long the list may be behind. 0 is 5 seconds.
	Behind time.Duration

	// Histories is how many concurrent histories are checked, at most 2 with
	// -short. 0 is 4.
	Histories int
}

// Historian is a store that also returns entries which a record no longer holds.
type Historian interface {
	History(ctx context.Context, key ledger.Key) ([]ledger.Entry, error)
}

// Exercise runs the contract of [ledger.Store].
func Exercise(t *testing.T, h Harness) {
	t.Helper()
	s := &suite{Harness: h, store: h.New(t)}
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"rows", s.rows},
		{"own writes", s.ownWrites},
		{"fields", s.fields},
		{"results", s.results},
		{"lists", s.lists},
		{"unsettled", s.unsettled},
		{"scan", s.scan},
		{"races", s.races},
		{"histories", s.histories},
		{"refusals", s.refusals},
	} {
		t.Run(part.name, part.run)
	}
	s.report(t)
}

type suite struct {
	Harness
	store   ledger.Store
	mu      sync.Mutex
	missing []string
}

// lacks skips the test because the store has not the named ability.
func (s *suite) lacks(t *testing.T, ability string) {
	t.Helper()
	s.mu.Lock()
	s.missing = append(s.missing, ability)
	s.mu.Unlock()
	t.Skipf("this store lacks: %s", ability)
}

func (s *suite) report(t *testing.T) {
	t.Helper()
	if len(s.missing) > 0 {
		t.Logf("%d abilities lacking, their checks skipped: %s", len(s.missing), strings.Join(s.missing, ", "))
	}
}

// freshKey returns a key in a tenant that nobody else has.
func freshKey() ledger.Key {
	return ledger.Key{Tenant: freshTenant(), RunID: "run-1", CallID: "call-1"}
}

func freshTenant() string { return "t" + rand.Text() }

// apply stores m and requires that it did to current, the record that stands,
// what the rules say.
func (s *suite) apply(t *testing.T, current ledger.Record, m ledger.Move) ledger.Record {
	t.Helper()
	want := s.send(t, current, m)
	s.stands(t, want)
	return want
}

// send is apply without a look at what is stored.
func (s *suite) send(t *testing.T, current ledger.Record, m ledger.Move) ledger.Record {
	t.Helper()
	want, err := m.On(current)
	got, gotErr := s.store.Apply(t.Context(), m)
	switch {
	case err == nil && gotErr != nil:
		t.Fatalf("%s on %s: %v", m.Event(), current.State(), gotErr)
	case err != nil && !errors.Is(gotErr, ledger.ErrStale):
		t.Fatalf("%s on %s: got error %v, want ErrStale", m.Event(), current.State(), gotErr)
	}
	same(t, m, got, want)
	return want.Kept()
}

// stands requires that want is what the store holds.
func (s *suite) stands(t *testing.T, want ledger.Record) {
	t.Helper()
	got, err := s.store.Load(t.Context(), want.Key)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	if diff := gocmp.Diff(want.Kept(), got); diff != "" {
		t.Fatalf("stored record differs (-want +got):\n%s", diff)
	}
	if s.Verify != nil && want.Exists() {
		s.Verify(t, got)
	}
}

func (s *suite) load(t *testing.T, key ledger.Key) ledger.Record {
	t.Helper()
	r, err := s.store.Load(t.Context(), key)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return r
}

func same(t *testing.T, m ledger.Move, got, want ledger.Record) {
	t.Helper()
	if diff := gocmp.Diff(want.Kept(), got); diff != "" {
		t.Fatalf("%s: returned record differs (-want +got):\n%s", m.Event(), diff)
	}
}

// listed returns every page of a tenant's list.
func (s *suite) listed(t *testing.T, tenant string, limit int) (records []ledger.Record, waits []ledger.Wait, pages []ledger.Page) {
	t.Helper()
	q := ledger.Query{Tenant: tenant, Limit: limit}
	for {
		page, err := s.store.Unsettled(t.Context(), q)
		if err != nil {
			t.Fatalf("unsettled: %v", err)
		}
		records, waits, pages = append(records, page.Records...), append(waits, page.Waits...), append(pages, page)
		if page.Next == "" {
			return records, waits, pages
		}
		if len(pages) > 1000 {
			t.Fatal("unsettled: the pages don't end")
		}
		q.Cursor = page.Next
	}
}

// eventually repeats check until it returns "", for as long as a list may be
// behind.
func (s *suite) eventually(t *testing.T, check func() string) {
	t.Helper()
	behind := cmp.Or(s.Behind, 5*time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(behind)
	for {
		wrong := check()
		if wrong == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(wrong)
		}
	}
}
