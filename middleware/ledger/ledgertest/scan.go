package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/onceward/onceward/middleware/ledger"
)

func (s *suite) scan(t *testing.T) {
	scanner, ok := s.store.(ledger.Scanner)
	if !ok {
		s.lacks(t, "a scan of all tenants")
	}
	w := scanSuite{s, scanner}
	t.Run("of all tenants, page by page, each once", w.allTenants)
	t.Run("each item is in one segment", w.bySegment)
	t.Run("waits are in it until confirmed", w.waits)
	t.Run("a segment that there is not is refused", w.noSuchSegment)
	t.Run("a cursor of another list is refused", w.foreignCursor)
}

type scanSuite struct {
	*suite
	scanner ledger.Scanner
}

// scanned returns what one segment holds of the tenants, and in how many pages.
func (s scanSuite) scanned(t *testing.T, q ledger.Query, tenants []string) (calls, waits []string, pages int) {
	t.Helper()
	for {
		page, err := s.scanner.Scan(t.Context(), q)
		if err != nil {
			t.Fatalf("scan: %v", err)
		}
		if q.Limit > 0 && len(page.Records)+len(page.Waits) > q.Limit {
			t.Fatalf("limit %d: a page holds %d", q.Limit, len(page.Records)+len(page.Waits))
		}
		for _, r := range page.Records {
			if slices.Contains(tenants, r.Key.Tenant) {
				calls = append(calls, r.Key.String())
			}
		}
		for _, w := range page.Waits {
			if slices.Contains(tenants, w.Key.Tenant) {
				waits = append(waits, w.Key.String()+"#"+w.ID)
			}
		}
		pages++
		if page.Next == "" {
			return calls, waits, pages
		}
		if pages > 100_000 {
			t.Fatal("scan: the pages don't end")
		}
		q.Cursor = page.Next
	}
}

// towns stores unsettled and settled calls of several tenants and returns the
// tenants and the keys of what is unsettled.
func (s scanSuite) towns(t *testing.T) (tenants, want []string) {
	t.Helper()
	for range 4 {
		tenant := freshTenant()
		tenants = append(tenants, tenant)
		want = append(want, s.crowd(t, tenant, 7)...)
	}
	return tenants, sorted(want)
}

func (s scanSuite) allTenants(t *testing.T) {
	t.Parallel()
	tenants, want := s.towns(t)
	for _, limit := range []int{3, 20, 500, 0} {
		s.eventually(t, func() string {
			got, _, pages := s.scanned(t, ledger.Query{Tenant: "nobody", Limit: limit}, tenants)
			if slices.Sort(got); !slices.Equal(got, want) {
				return fmt.Sprintf("limit %d: got %d calls in %d pages, want each of %d once", limit, len(got), pages, len(want))
			}
			return ""
		})
	}
}

func (s scanSuite) bySegment(t *testing.T) {
	t.Parallel()
	tenants, want := s.towns(t)
	for _, segments := range []int{1, 2, 16, ledger.MaxSegments} {
		s.eventually(t, func() string {
			var all []string
			for n := range segments {
				got, _, _ := s.scanned(t, ledger.Query{Segment: n, Segments: segments, Limit: 50}, tenants)
				all = append(all, got...)
			}
			if slices.Sort(all); !slices.Equal(all, want) {
				return fmt.Sprintf("%d segments: got %d calls, want each of %d once", segments, len(all), len(want))
			}
			return ""
		})
	}
}

func (s scanSuite) waits(t *testing.T) {
	t.Parallel()
	waits, ok := s.store.(ledger.Waits)
	if !ok {
		s.lacks(t, "waits")
	}
	w := wait(freshKey(), "wait-1")
	if err := waits.SaveWait(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	holds := func(want ...string) {
		t.Helper()
		s.eventually(t, func() string {
			if _, got, _ := s.scanned(t, ledger.Query{}, []string{w.Key.Tenant}); !slices.Equal(got, want) {
				return fmt.Sprintf("got %v, want %v", got, want)
			}
			return ""
		})
	}
	holds(w.Key.String() + "#" + w.ID)
	if err := waits.ConfirmWait(t.Context(), w, "rung", dawn); err != nil {
		t.Fatal(err)
	}
	holds()
}

func (s scanSuite) noSuchSegment(t *testing.T) {
	t.Parallel()
	for _, q := range []ledger.Query{
		{Segment: 1}, {Segment: -1}, {Segments: -1}, {Segment: 2, Segments: 2}, {Segments: ledger.MaxSegments + 1},
	} {
		if _, err := s.scanner.Scan(t.Context(), q); !errors.Is(err, ledger.ErrInvalid) {
			t.Errorf("segment %d of %d: got %v, want ErrInvalid", q.Segment, q.Segments, err)
		}
	}
}

func (s scanSuite) foreignCursor(t *testing.T) {
	t.Parallel()
	for _, cursor := range []string{"?", "e30"} { // the second is {}
		if _, err := s.scanner.Scan(t.Context(), ledger.Query{Cursor: cursor}); !errors.Is(err, ledger.ErrInvalid) {
			t.Errorf("cursor %q: got %v, want ErrInvalid", cursor, err)
		}
	}
}
