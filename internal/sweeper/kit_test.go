package sweeper_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/launch"
	"github.com/onceward/onceward/internal/sweeper"
	"github.com/onceward/onceward/middleware/ledger"
)

// canary is a secret: it must be in no report and no log.
const canary = "CANARY"

var dawn = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// index is a scanner over pages that the test makes.
type index struct {
	mu     sync.Mutex
	pages  [][]ledger.Page // by segment, cyclic
	errs   map[int]error   // by segment, beside each of its pages
	asked  int
	onScan func()
}

// Scan implements ledger.Scanner.
func (x *index) Scan(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	if x.onScan != nil {
		x.onScan()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asked++
	if err := ctx.Err(); err != nil {
		return ledger.Page{}, err
	}
	if q.Segment >= len(x.pages) {
		return ledger.Page{}, x.errs[q.Segment]
	}
	at := 0
	if q.Cursor != "" {
		if _, err := fmt.Sscan(q.Cursor, &at); err != nil {
			return ledger.Page{}, err
		}
	}
	page := x.pages[q.Segment][at]
	if at+1 < len(x.pages[q.Segment]) {
		page.Next = strconv.Itoa(at + 1)
	}
	return page, x.errs[q.Segment]
}

// calls is a Calls that does what the test says and counts.
type calls struct {
	mu   sync.Mutex
	seen map[ledger.Key]int
	tend func(ctx context.Context, key ledger.Key) (operator.Tended, error)
}

// Tend implements sweeper.Calls.
func (c *calls) Tend(ctx context.Context, key ledger.Key) (operator.Tended, error) {
	c.mu.Lock()
	if c.seen == nil {
		c.seen = make(map[ledger.Key]int)
	}
	c.seen[key]++
	c.mu.Unlock()
	if c.tend == nil {
		return operator.Tended{}, nil
	}
	return c.tend(ctx, key)
}

// drivers is a Drivers that does what the test says and counts.
type drivers struct {
	mu   sync.Mutex
	seen map[runs.ID]int
	tend func(ctx context.Context, run runs.Run) (launch.Launched, error)
}

// Tend implements sweeper.Drivers.
func (d *drivers) Tend(ctx context.Context, run runs.Run) (launch.Launched, error) {
	d.mu.Lock()
	if d.seen == nil {
		d.seen = make(map[runs.ID]int)
	}
	d.seen[run.Key()]++
	d.mu.Unlock()
	if d.tend == nil {
		return launch.Launched{Run: run, Driver: executions.Running}, nil
	}
	return d.tend(ctx, run)
}

// unended lists runs, two on a page.
type unended struct {
	all []runs.Run
	err error // beside each page
}

// Unended implements sweeper.Unended.
func (u unended) Unended(ctx context.Context, q runs.Query) (runs.Page, error) {
	if err := ctx.Err(); err != nil {
		return runs.Page{}, err
	}
	at := 0
	if q.Cursor != "" {
		if _, err := fmt.Sscan(q.Cursor, &at); err != nil {
			return runs.Page{}, err
		}
	}
	page := runs.Page{Runs: u.all[at:min(at+2, len(u.all))]}
	if at+2 < len(u.all) {
		page.Next = strconv.Itoa(at + 2)
	}
	return page, u.err
}

func key(n int) ledger.Key {
	return ledger.Key{Tenant: "acme", RunID: "run-1", CallID: fmt.Sprint("call-", n)}
}

func unknown(n int) ledger.Record {
	return ledger.Record{Key: key(n), Status: ledger.Indeterminate, Version: 2, WaitsSince: dawn}
}

func parked(n int) ledger.Wait {
	return ledger.Wait{Key: key(n), ID: "w1", Token: canary, ParkedAt: dawn}
}

func run(n int) runs.Run {
	return runs.Run{
		Tenant: "acme", ID: fmt.Sprint("run-", n), Status: runs.Running, Driver: fmt.Sprintf("run-%d-g1", n), Version: 1,
		StartedAt: dawn, WrittenAt: dawn.Add(time.Minute), Input: []byte(canary),
	}
}

func sweep(t *testing.T, s *sweeper.Sweeper) sweeper.Report {
	t.Helper()
	report, err := s.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func later(d time.Duration) func() time.Time {
	return func() time.Time { return dawn.Add(d) }
}
