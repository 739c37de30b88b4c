package operator

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"

	"github.com/onceward/onceward/internal/runs"
)

// The sizes of a page of runs. Each run's driver is looked up, so they are small.
const (
	DefaultRuns = 20
	MaxRuns     = 50
)

// The filters of a list of runs.
const (
	AnyDriver     = "any"
	MissingDriver = "missing" // runs that nothing is known to drive
)

// RunFilter narrows a list of runs.
type RunFilter struct {
	Driver string // AnyDriver or MissingDriver; "" means AnyDriver
	Limit  int    // 1 to MaxRuns; 0 means DefaultRuns
	Cursor string // RunList.NextCursor of the page before
}

// RunList is a page of the runs that have not ended, the oldest first.
type RunList struct {
	Items      []RunLine `json:"items" nullable:"false"`
	NextCursor string    `json:"next_cursor,omitempty" doc:"Opaque; absent on the last page. A page may hold fewer runs than its limit and still have one."`
}

func (f RunFilter) scope(id Identity) string { return scopeOf("runs", id.Tenant, f.Driver) }

// checked returns the filter with its defaults, or a problem that names every
// wrong part.
func (f RunFilter) checked() (RunFilter, error) {
	var wrong invalid
	if f.Limit == 0 {
		f.Limit = DefaultRuns
	}
	if f.Limit < 0 || f.Limit > MaxRuns {
		wrong.add("query.limit", "want 1 to "+strconv.Itoa(MaxRuns))
	}
	switch f.Driver {
	case "":
		f.Driver = AnyDriver
	case AnyDriver, MissingDriver:
	default:
		wrong.add("query.driver", "want any or missing")
	}
	return f, wrong.problem()
}

// ListRuns returns the runs of the identity's tenant that have not ended, with the
// state of their drivers, looked up now. The list itself comes from an index that
// may be seconds behind; a run that nothing seems to drive is read again.
func (s *Service) ListRuns(ctx context.Context, id Identity, f RunFilter) (RunList, error) {
	if err := id.May(ReadCalls); err != nil {
		return RunList{}, err
	}
	f, err := f.checked()
	if err != nil {
		return RunList{}, err
	}
	cursor, err := unseal(f.scope(id), f.Cursor)
	if err != nil {
		return RunList{}, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	list := RunList{Items: []RunLine{}}
	for range maxStorePages {
		page, err := s.cfg.Runs.Unended(ctx, runs.Query{Tenant: id.Tenant, Cursor: cursor, Limit: f.Limit - len(list.Items)})
		switch {
		case errors.Is(err, runs.ErrInvalid):
			return RunList{}, problem(InvalidCursor, "").because(err)
		case errors.Is(err, runs.ErrCorrupt): // one bad run must not hide the others
			s.cfg.Log.LogAttrs(ctx, slog.LevelError, "a run that has not ended can't be read", slog.Any("error", err))
		case err != nil:
			return RunList{}, problem(Unavailable, "the list could not be read").because(err)
		}
		lines, err := s.linesOf(ctx, id, page.Runs, f)
		if err != nil {
			return RunList{}, err
		}
		list.Items = append(list.Items, lines...)
		if cursor = page.Next; cursor == "" || len(list.Items) >= f.Limit {
			break
		}
	}
	list.NextCursor = seal(f.scope(id), cursor)
	return list, nil
}

// linesOf looks at the drivers of a page's runs, at most maxLoads at a time, and
// returns the lines that the filter wants, in the page's order.
func (s *Service) linesOf(ctx context.Context, id Identity, page []runs.Run, f RunFilter) ([]RunLine, error) {
	lines, errs := make([]*RunLine, len(page)), make([]error, len(page))
	slots := make(chan struct{}, maxLoads)
	var all sync.WaitGroup
	for i, run := range page {
		if run.Tenant != id.Tenant { // the store promises it; another tenant's run must not depend on that
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			stands, state, err := s.lookAtDriver(ctx, run)
			if errors.Is(err, runs.ErrCorrupt) {
				state, err = DriverUnknown, nil
			}
			errs[i] = err
			if stands.Ended() || !stands.Exists() || f.Driver == MissingDriver && state.driven() {
				return
			}
			line := lineOf(stands, state)
			lines[i] = &line
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, problem(Unavailable, "a run could not be read").because(err)
	}
	var wanted []RunLine
	for _, line := range lines {
		if line != nil {
			wanted = append(wanted, *line)
		}
	}
	return wanted, nil
}
