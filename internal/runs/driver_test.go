package runs_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/statemachines"
)

func begun() runs.Run {
	return runs.Begin(runs.Start{ID: runs.ID{Tenant: "acme", Run: "run-1"}, Execution: "started-by-hand", At: time.Unix(1, 0)}, "w1")
}

// Proves: R40
func TestOnlyTheExecutionThatRunNamesDrives(t *testing.T) {
	t.Parallel()
	first := begun()
	second := first.MovedOn("w2")
	third := second.MovedOn("w3")
	for _, c := range []struct {
		run       runs.Run
		execution string
		want      runs.Role
	}{
		{first, "started-by-hand", runs.Drives},
		{first, "another", runs.Stranger},
		{first, "", runs.Stranger},
		{second, "started-by-hand", runs.HandedOver},
		{second, second.Driver, runs.Drives},
		{third, "started-by-hand", runs.Stranger},
		{third, second.Driver, runs.HandedOver},
	} {
		if got := c.run.RoleOf(c.execution); got != c.want {
			t.Errorf("generation %d: %q %s, want %s", c.run.Generation, c.execution, got, c.want)
		}
	}
}

func TestExecutionNamesFitStepFunctionsAndDifferByGenerationAndTenant(t *testing.T) {
	t.Parallel()
	fits := regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)
	seen := map[string]bool{}
	for _, tenant := range []string{"", "acme", strings.Repeat("t", 40)} {
		for _, generation := range []int{1, 2, 99_999} {
			name := runs.ExecutionName(runs.ID{Tenant: tenant, Run: strings.Repeat("r", 60)}, generation)
			if !fits.MatchString(name) || seen[name] {
				t.Errorf("name %q of %d characters, seen before: %v", name, len(name), seen[name])
			}
			seen[name] = true
		}
	}
}

func TestNextGenerationNeverHasTheNameOfTheOneBefore(t *testing.T) {
	t.Parallel()
	r := begun()
	r.Driver = runs.ExecutionName(r.Key(), 2)
	if next := r.MovedOn("w2"); next.Driver == r.Driver || next.Generation <= r.Generation {
		t.Errorf("generation %d is driven by %s, as before", next.Generation, next.Driver)
	}
}

func TestEachMapBringsOnePlanWholeOrBroken(t *testing.T) {
	t.Parallel()
	turn := runs.Turn{Number: 1, Calls: []runs.Call{{ID: "a"}, {ID: "b"}}}
	r := begun().Advanced(turn)
	arrive := func(outcomes []runs.Outcome, broken int) int {
		at := r.Step.Where(outcomes, broken)
		r = r.Arrived(turn, at, outcomes).Issued([]int{0, 1}, "w")
		return at.Plan()
	}
	whole := func(n int) []runs.Outcome { return []runs.Outcome{{ID: "a", Turn: n}, {ID: "b", Turn: n}} }
	got := []int{arrive(nil, 0), arrive(whole(1), 0), arrive(nil, 1), arrive(nil, 2), arrive(whole(2), 2)}
	for i, plan := range got {
		if plan != i+1 {
			t.Errorf("plans %v, want 1 to 5", got)
		}
	}
	for _, again := range []struct {
		outcomes []runs.Outcome
		broken   int
		want     int
	}{{whole(2), 2, 5}, {whole(1), 0, 2}, {nil, 0, 1}} {
		if plan := r.Step.Where(again.outcomes, again.broken).Plan(); plan != again.want {
			t.Errorf("a repeated request is plan %d, want %d", plan, again.want)
		}
	}
}

func TestOutcomesAreNotedOnTheirCallsOnly(t *testing.T) {
	t.Parallel()
	turn := runs.Turn{Number: 1, Calls: []runs.Call{{ID: "a"}, {ID: "b"}}}
	r := begun().Advanced(turn).Issued([]int{0}, "w")
	r = r.Arrived(turn, runs.At{Maps: 1}, []runs.Outcome{{ID: "a", Status: "refused", Code: "bad_number", Turn: 1}, {ID: "b", Status: "completed", Turn: 1}, {ID: "?", Turn: 1}})
	if r.Progress[0] != (runs.Progress{Issued: true, Answers: 1, Status: "refused", Code: "bad_number"}) || r.Progress[1] != (runs.Progress{}) {
		t.Errorf("progress %+v; want the call that was issued to have come back, and no other", r.Progress)
	}
}

func TestHandOverIsDueBeforeTheWorstMapCouldOutgrowTheHistory(t *testing.T) {
	t.Parallel()
	turn := runs.Turn{Number: 1, Calls: make([]runs.Call, statemachines.MaxCalls)}
	outcomes := make([]runs.Outcome, statemachines.MaxCalls)
	for i := range turn.Calls {
		turn.Calls[i].ID = string(rune('a' + i))
		outcomes[i] = runs.Outcome{ID: turn.Calls[i].ID, Rounds: statemachines.MaxRounds}
	}
	r := begun().Advanced(turn)
	for maps := 1; !r.HandOverDue(); maps++ {
		outcomes[0].Turn = maps
		r = r.Issued([]int{0, 1, 2, 3, 4, 5}, "w").Arrived(turn, runs.At{Maps: maps}, outcomes)
		if r.Step.Events > statemachines.MaxHistory/2 {
			t.Fatalf("%d events after %d Maps, and no hand-over due", r.Step.Events, maps)
		}
	}
	broken := begun().Advanced(turn).Issued([]int{0, 1, 2, 3, 4, 5}, "w").Arrived(turn, runs.At{Broken: 1}, nil)
	if broken.Step.Events < 6*statemachines.MaxRounds*statemachines.HistoryPerPark {
		t.Errorf("a broken Map counts %d events, want the most it can have written", broken.Step.Events)
	}
	if r.MovedOn("w").HandOverDue() {
		t.Error("the next generation's history is counted anew")
	}
}
