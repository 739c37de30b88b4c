package runstest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/runs"
)

// running saves n runs of a tenant, each a minute younger than the one before.
func running(t *testing.T, store runs.Store, tenant string, n int) []runs.Run {
	t.Helper()
	var all []runs.Run
	for i := range n {
		r := begin(tenant)
		r.StartedAt = r.StartedAt.Add(time.Duration(i) * time.Minute)
		all = append(all, mustSave(t, store, r))
	}
	return all
}

func anyTenant() string { return "t-" + strings.ToLower(rand.Text()[:12]) }

// list reads all pages.
func list(t *testing.T, store runs.Store, q runs.Query) []runs.Run {
	t.Helper()
	var all []runs.Run
	for range 10_000 {
		page, err := store.Unended(t.Context(), q)
		if err != nil && (!q.AllTenants || !errors.Is(err, runs.ErrCorrupt)) { // other tests spoil items of their own
			t.Fatalf("list: %v", err)
		}
		if len(page.Runs) > max(q.Limit, runs.DefaultPage) || q.Limit > 0 && len(page.Runs) > q.Limit {
			t.Fatalf("a page of %d runs, want at most %d", len(page.Runs), q.Limit)
		}
		all = append(all, page.Runs...)
		if page.Next == "" {
			return all
		}
		q.Cursor = page.Next
	}
	t.Fatal("the list does not end")
	return nil
}

func unendedAreListed(t *testing.T, store runs.Store) {
	t.Helper()
	tenant := anyTenant()
	all := running(t, store, tenant, 7)
	running(t, store, anyTenant(), 2)
	ended := all[3].Done(runs.Failure{}, all[3].StartedAt.Add(time.Hour), rand.Text())
	mustSave(t, store, ended)
	moved := mustSave(t, store, all[5].MovedOn(rand.Text()))
	want := slices.Delete(slices.Clone(all), 3, 4)
	want[4] = moved
	for _, limit := range []int{0, 1, 2, 6, 7, 1000} {
		got := list(t, store, runs.Query{Tenant: tenant, Limit: limit})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d: listed, the oldest first (-want +got):\n%s", limit, diff)
		}
	}
}

func unendedOfAllTenantsAreListed(t *testing.T, store runs.Store) {
	t.Helper()
	want := map[string]bool{}
	for _, tenant := range []string{anyTenant(), anyTenant(), ""} {
		for _, r := range running(t, store, tenant, 3) {
			want[r.Key().String()] = true
		}
	}
	seen := map[string]int{}
	for _, r := range list(t, store, runs.Query{AllTenants: true, Tenant: "ignored", Limit: 4}) {
		seen[r.Key().String()]++
		if r.Driver == "" {
			t.Errorf("%s is listed without its driver", r.Key())
		}
	}
	for run := range want {
		if seen[run] != 1 {
			t.Errorf("%s is listed %d times, want once", run, seen[run])
		}
	}
}

func noneIsListed(t *testing.T, store runs.Store) {
	t.Helper()
	tenant := anyTenant()
	r := running(t, store, tenant, 1)[0]
	mustSave(t, store, r.Done(runs.Failure{}, r.StartedAt, rand.Text()))
	for _, tenant := range []string{tenant, anyTenant()} {
		page, err := store.Unended(t.Context(), runs.Query{Tenant: tenant})
		if err != nil || len(page.Runs) > 0 || page.Next != "" {
			t.Errorf("page = %+v, %v; want none", page, err)
		}
	}
}

func strangeCursorIsRefused(t *testing.T, store runs.Store) {
	t.Helper()
	for _, cursor := range []string{"x", "e30", "bnVsbA", strings.Repeat("A", 400)} {
		for _, all := range []bool{true, false} {
			if _, err := store.Unended(t.Context(), runs.Query{AllTenants: all, Cursor: cursor}); !errors.Is(err, runs.ErrInvalid) {
				t.Errorf("cursor %q, all tenants %v: err = %v, want ErrInvalid", cursor, all, err)
			}
		}
	}
}

func turnsEndWhereAsked(t *testing.T, store runs.Store) {
	t.Helper()
	id := begin("acme").Key()
	for n := 1; n <= 6; n++ {
		putTurn(t, store, id, turnOf(n, fmt.Sprint("turn ", n)))
	}
	for _, c := range []struct{ from, to, first, n int }{{2, 4, 2, 3}, {3, 3, 3, 1}, {5, 0, 5, 2}, {5, 99, 5, 2}, {4, 3, 0, 0}, {0, 2, 1, 2}, {7, 0, 0, 0}} {
		turns, err := store.Turns(t.Context(), id, c.from, c.to)
		if err != nil || len(turns) != c.n || c.n > 0 && turns[0].Number != c.first {
			t.Errorf("from %d to %d: %d turns, %v; want %d from %d on", c.from, c.to, len(turns), err, c.n, c.first)
		}
	}
}
