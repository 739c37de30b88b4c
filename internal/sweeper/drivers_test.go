package sweeper_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/sweeper"
)

func TestDriversAreLookedAtNoFasterThanThePace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all []runs.Run
		for n := range 100 {
			all = append(all, run(n))
		}
		d := &drivers{}
		s := &sweeper.Sweeper{Scan: &index{}, Calls: &calls{}, Runs: unended{all: all}, Drivers: d, Pace: rate.NewLimiter(2, 10)}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		report, err := s.Sweep(ctx)
		// 10 at once, and 2 a second for as long as something may be begun.
		if err != nil || report.Complete || report.Runs.Tended < 30 || report.Runs.Tended > 46 || report.Runs.Tended+report.Runs.Left != 100 {
			t.Errorf("%v; %+v", err, report.Runs)
		}
	})
}

// glance is a list of what runs.
type glance struct {
	mu    sync.Mutex
	names map[string]map[string]bool
	errs  map[string]error
	asked []string
}

// Running implements sweeper.Running.
func (g *glance) Running(_ context.Context, machine string) (map[string]bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, machine)
	return g.names[machine], g.errs[machine]
}

func TestOnlyDriversThatAreNotSeenToRunAreLookedAt(t *testing.T) {
	t.Parallel()
	const machine, old, gone = "arn:aws:states:eu-west-1:1:stateMachine:m", "arn:aws:states:eu-west-1:1:stateMachine:old", "arn:aws:states:eu-west-1:1:stateMachine:gone"
	var all []runs.Run
	for n, on := range []string{machine + ":7", machine + ":8", machine, old, old, gone} {
		r := run(n)
		r.Machine = on
		all = append(all, r)
	}
	g := &glance{
		names: map[string]map[string]bool{machine: {"run-0-g1": true, "run-1-g1": true, "run-4-g1": true}, old: {"run-3-g1": true}},
		errs:  map[string]error{gone: errors.New("there is no such machine")},
	}
	d := &drivers{}
	report := sweep(t, &sweeper.Sweeper{Scan: &index{}, Calls: &calls{}, Runs: unended{all: all}, Drivers: d, Running: g})
	want := map[runs.ID]int{{Tenant: "acme", Run: "run-2"}: 1, {Tenant: "acme", Run: "run-4"}: 1, {Tenant: "acme", Run: "run-5"}: 1}
	if diff := cmp.Diff(want, d.seen); diff != "" {
		t.Errorf("looked at (-want +got):\n%s", diff)
	}
	if report.Runs.Listed != 6 || report.Runs.Driven != 3 || report.Runs.Tended != 3 || !report.Complete || len(g.asked) != 3 {
		t.Errorf("%+v; asked for %v", report.Runs, g.asked)
	}
}
