package faults_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/localstack/faults"
)

// answered sends a request and reports whether it was handled; if not, its
// connection was closed.
func answered(t *testing.T, plan *faults.Plan, target string) (handled bool) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			if err, ok := v.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("panicked: %v", v)
			}
			if handled {
				t.Error("handled, and its connection closed")
			}
		}
	}()
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	r.Header.Set("X-Amz-Target", target)
	plan.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled = true })).
		ServeHTTP(httptest.NewRecorder(), r)
	return handled
}

func TestOutageLastsFromTheNthMatchUntilItsTimeHasPassed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := faults.NewPlan(faults.Options{})
		_, err := plan.Arm(faults.Rule{ID: "down", Service: faults.DynamoDB, Nth: 2, Effect: faults.Outage, Milliseconds: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			after  time.Duration
			target string
			want   bool
		}{
			{0, putItem, true},
			{time.Hour, "AWSStepFunctions.StartExecution", true}, // not its service: starts no clock
			{0, putItem, false},
			{0, "AWSStepFunctions.StartExecution", true},
			{500 * time.Millisecond, "DynamoDB_20120810.GetItem", false},
			{499 * time.Millisecond, putItem, false},
			{time.Millisecond, putItem, true},
			{time.Hour, putItem, true},
		} {
			time.Sleep(c.after)
			if got := answered(t, plan, c.target); got != c.want {
				t.Errorf("%+v: handled %v", c, got)
			}
		}
		want := []faults.ArmedRule{{
			Rule:    faults.Rule{ID: "down", Service: faults.DynamoDB, Nth: 2, Effect: faults.Outage, Milliseconds: 1000},
			Matches: 4, Hits: 3,
		}}
		if diff := cmp.Diff(want, plan.Rules()); diff != "" {
			t.Errorf("rules (-want +got):\n%s", diff)
		}
	})
}

func TestOutageWithoutATimeLastsUntilItsRuleIsTakenOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := faults.NewPlan(faults.Options{})
		if _, err := plan.Arm(faults.Rule{Effect: faults.Outage}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if answered(t, plan, putItem) {
				t.Error("handled during the outage")
			}
			time.Sleep(1000 * time.Hour)
		}
		plan.Clear()
		if !answered(t, plan, putItem) {
			t.Error("not handled after the outage")
		}
	})
}

// TestOutageBeginsThoughAnotherRuleStrikesFirst: what is down is down, whoever
// refuses the request that would have noticed first.
func TestOutageBeginsThoughAnotherRuleStrikesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := faults.NewPlan(faults.Options{})
		for _, rule := range []faults.Rule{{Effect: faults.DropRequest}, {Effect: faults.Outage, Milliseconds: 1000}} {
			if _, err := plan.Arm(rule); err != nil {
				t.Fatal(err)
			}
		}
		if answered(t, plan, putItem) {
			t.Error("the dropped request was handled")
		}
		time.Sleep(time.Second)
		if !answered(t, plan, putItem) {
			t.Error("the outage outlasted its time")
		}
	})
}

func TestRacingRequestsOfAnOutageAreAllStruckFromTheNthOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := faults.NewPlan(faults.Options{})
		if _, err := plan.Arm(faults.Rule{Nth: 5, Effect: faults.Outage, Milliseconds: 1000}); err != nil {
			t.Fatal(err)
		}
		var handled atomic.Int64
		race := func() {
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					if answered(t, plan, putItem) {
						handled.Add(1)
					}
				})
			}
			wg.Wait()
		}
		race()
		if handled.Load() != 4 || plan.Rules()[0].Hits != 60 {
			t.Errorf("%d handled, %d struck, want 4 and 60", handled.Load(), plan.Rules()[0].Hits)
		}
		time.Sleep(time.Second)
		race()
		if handled.Load() != 68 {
			t.Errorf("%d handled, want all 64 after the outage too", handled.Load())
		}
	})
}
