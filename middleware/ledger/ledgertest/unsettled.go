package ledgertest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

func (s *suite) unsettled(t *testing.T) {
	t.Run("oldest first, page by page, each once", s.pages)
	t.Run("another tenant sees nothing", s.isolation)
	t.Run("waits are in it until confirmed", s.listedWaits)
}

// pages lists calls of several ages, some of one age, in pages of every size.
func (s *suite) pages(t *testing.T) {
	t.Parallel()
	tenant := freshTenant()
	want := s.crowd(t, tenant, 23)
	for _, limit := range []int{1, 3, 10, 22, 23, 24, 0} {
		s.eventually(t, func() string {
			records, _, pages := s.listed(t, tenant, limit)
			if got := keys(records); !slices.Equal(sorted(got), sorted(want)) {
				return fmt.Sprintf("limit %d: got %d calls, want each of %d once", limit, len(got), len(want))
			}
			if !slices.IsSortedFunc(records, func(a, b ledger.Record) int { return a.WaitsSince.Compare(b.WaitsSince) }) {
				return fmt.Sprintf("limit %d: not oldest first", limit)
			}
			for i, p := range pages {
				if limit > 0 && len(p.Records)+len(p.Waits) > limit {
					return fmt.Sprintf("limit %d: page %d holds %d", limit, i, len(p.Records))
				}
			}
			return ""
		})
	}
}

// crowd stores n started calls of a tenant and as many that are settled, and
// returns the keys of those that are not.
func (s *suite) crowd(t *testing.T, tenant string, n int) []string {
	t.Helper()
	var want []string
	for i := range n {
		y := s.storyIn(t)
		y.key = ledger.Key{Tenant: tenant, RunID: "run-1", CallID: fmt.Sprint("call-", i)}
		y.now = dawn.Add(time.Duration(-i/4) * time.Minute) // later ones are older; four of one age
		y.does("start", 0)
		want = append(want, y.key.String())
		z := s.storyIn(t)
		z.key = ledger.Key{Tenant: tenant, RunID: "run-2", CallID: fmt.Sprint("call-", i)}
		z.does("start", soon)
		z.does("settle as happened", soon)
	}
	return want
}

func keys(records []ledger.Record) []string {
	var all []string
	for _, r := range records {
		all = append(all, r.Key.String())
	}
	return all
}

func sorted(names []string) []string {
	return slices.Sorted(slices.Values(names))
}

func (s *suite) isolation(t *testing.T) {
	t.Parallel()
	mine, theirs := s.storyIn(t), s.storyIn(t)
	mine.does("start", soon)
	theirs.does("start", soon)
	for _, y := range []*story{mine, theirs} {
		s.eventually(t, func() string {
			records, _, _ := s.listed(t, y.key.Tenant, 0)
			if got := keys(records); !slices.Equal(got, []string{y.key.String()}) {
				return fmt.Sprintf("tenant %s sees %v", y.key.Tenant, got)
			}
			return ""
		})
	}
	other := mine.key
	other.Tenant = theirs.key.Tenant
	other.CallID = "mine-alone"
	if r := s.load(t, other); r.Exists() {
		t.Fatal("a call is found under another tenant")
	}
	_, _, pages := s.listed(t, mine.key.Tenant, 1)
	if page, err := s.store.Unsettled(t.Context(), ledger.Query{Tenant: freshTenant(), Cursor: pages[0].Next}); err != nil || len(page.Records) != 0 {
		t.Fatalf("a tenant without calls sees %v, %v", keys(page.Records), err)
	}
}

func (s *suite) listedWaits(t *testing.T) {
	t.Parallel()
	waits, ok := s.store.(ledger.Waits)
	if !ok {
		s.lacks(t, "waits")
	}
	y := s.storyIn(t)
	y.does("start", soon)
	w := wait(y.key, "wait-1")
	w.ParkedAt = y.r.WaitsSince // of one age with its call
	if err := waits.SaveWait(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 0} {
		s.eventually(t, func() string {
			records, listed, _ := s.listed(t, y.key.Tenant, limit)
			if len(records) != 1 || len(listed) != 1 || listed[0].ID != w.ID || listed[0].Token != w.Token {
				return fmt.Sprintf("limit %d: %d calls and %d waits, want one of each", limit, len(records), len(listed))
			}
			return ""
		})
	}
	y.does("settle as happened", soon)
	s.seesWaits(t, y.key.Tenant, 1)
	if err := waits.ConfirmWait(t.Context(), w, "rung", dawn); err != nil {
		t.Fatal(err)
	}
	s.seesWaits(t, y.key.Tenant, 0)
}

func (s *suite) seesWaits(t *testing.T, tenant string, want int) {
	t.Helper()
	s.eventually(t, func() string {
		if _, listed, _ := s.listed(t, tenant, 0); len(listed) != want {
			return fmt.Sprintf("%d waits are listed, want %d", len(listed), want)
		}
		return ""
	})
}
