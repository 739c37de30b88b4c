package memruns

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/onceward/onceward/internal/cursor"
	"github.com/onceward/onceward/internal/runs"
)

// place is a run's place in the list.
type place struct {
	Tenant string `json:"t"`
	Since  int64  `json:"s"`
	Run    string `json:"r"`
}

func placeOf(r runs.Run) place {
	return place{Tenant: r.Tenant, Since: r.StartedAt.UnixMilli(), Run: r.ID}
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.Tenant, q.Tenant), cmp.Compare(p.Since, q.Since), cmp.Compare(p.Run, q.Run))
}

// Unended implements [runs.Store]; it is never behind.
func (s *Store) Unended(_ context.Context, q runs.Query) (runs.Page, error) {
	from, err := parseCursor(q.Cursor)
	if err != nil {
		return runs.Page{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []runs.Run
	for _, r := range s.runs {
		if !r.Ended() && (q.AllTenants || r.Tenant == q.Tenant) && (q.Cursor == "" || placeOf(r).compare(from) > 0) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b runs.Run) int { return placeOf(a).compare(placeOf(b)) })
	limit := min(cmp.Or(max(q.Limit, 0), runs.DefaultPage), runs.MaxPage)
	if len(found) <= limit {
		return runs.Page{Runs: found}, nil
	}
	return runs.Page{Runs: found[:limit], Next: cursor.Encode(placeOf(found[limit-1]))}, nil
}

func parseCursor(given string) (place, error) {
	if given == "" {
		return place{}, nil
	}
	p, err := cursor.Decode[place](given)
	if err != nil || p.Run == "" {
		return place{}, fmt.Errorf("%w: cursor", runs.ErrInvalid)
	}
	return p, nil
}
