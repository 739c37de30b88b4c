package runs_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/statemachines"
)

var twoCalls = runs.Turn{Number: 1, Calls: []runs.Call{{ID: "a"}, {ID: "b"}, {ID: "c"}}}

// issued is a run whose driver was told by its second plan to call b and c.
func issued() runs.Run {
	r := runs.Run{Version: 1}.Advanced(twoCalls)
	r.Step = runs.Step{Plan: 2, Maps: 1}
	return r.Issued([]int{1, 2}, "w")
}

// Proves: R40
func TestOutcomesThatTheDriverCannotHaveAreRefused(t *testing.T) {
	t.Parallel()
	outcomes := func(turn int, ids ...string) (all []runs.Outcome) {
		for _, id := range ids {
			all = append(all, runs.Outcome{ID: id, Status: "completed", Turn: turn})
		}
		return all
	}
	mixed := append(outcomes(2, "b"), outcomes(3, "c")...)
	fresh := runs.Run{Version: 1}
	for name, c := range map[string]struct {
		run      runs.Run
		outcomes []runs.Outcome
		broken   int
		ok       bool
	}{
		"the beginning":                    {fresh, nil, 0, true},
		"of a first Map before any plan":   {fresh, outcomes(1, "a"), 0, false},
		"a broken Map before any plan":     {fresh, nil, 1, false},
		"of the Map that was asked for":    {issued(), outcomes(2, "b", "c"), 0, true},
		"the Map broke":                    {issued(), nil, 1, true},
		"two Maps broke at once":           {issued(), nil, 2, false},
		"of a Map too far":                 {issued(), outcomes(3, "b", "c"), 0, false},
		"of many Maps too far":             {issued(), outcomes(400, "b", "c"), 0, false},
		"of a Map, and one broke":          {issued(), outcomes(2, "b", "c"), 1, false},
		"of another call":                  {issued(), outcomes(2, "b", "a"), 0, false},
		"in another order":                 {issued(), outcomes(2, "c", "b"), 0, false},
		"of fewer calls":                   {issued(), outcomes(2, "b"), 0, false},
		"of more calls":                    {issued(), outcomes(2, "b", "c", "a"), 0, false},
		"of two Maps":                      {issued(), mixed, 0, false},
		"of a Map as they came before":     {issued(), outcomes(1, "b", "c"), 1, false},
		"of a Map that ran less than none": {issued(), outcomes(-1, "b", "c"), 3, false},
	} {
		err := c.run.CheckArrival(twoCalls, c.run.Step.Where(c.outcomes, c.broken), c.outcomes)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, runs.ErrNotAsked) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDriverThatGoesOnFromItsStepArrives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, maps, broken := runs.Run{Version: 1}.Advanced(twoCalls), 0, 0
		var outcomes []runs.Outcome
		for range rapid.IntRange(1, 12).Draw(t, "plans") {
			at := r.Step.Where(outcomes, broken)
			if err := r.CheckArrival(twoCalls, at, outcomes); err != nil || at.Plan() != r.Step.Plan+1 {
				t.Fatalf("after %d Maps and %d broken: plan %d, %v", maps, broken, at.Plan(), err)
			}
			r = r.Arrived(twoCalls, at, outcomes).Issued([]int{rapid.IntRange(0, 2).Draw(t, "call")}, "w")
			outcomes = nil
			if rapid.Bool().Draw(t, "breaks") {
				broken++
				continue
			}
			maps++
			for _, i := range r.Step.Calls {
				outcomes = append(outcomes, runs.Outcome{ID: twoCalls.Calls[i].ID, Status: "unresolved", Turn: maps})
			}
		}
	})
}

// Nobody tells the planner whether a round was parked, which costs more events
// than a plain one: an estimate below the real history would hand over too late.
func TestHistoryOfCallsThatWereParkedIsNotEstimatedTooShort(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := runs.Run{Version: 1}.Advanced(twoCalls).Issued([]int{1, 2}, "w")
		written := 0
		for turn := range rapid.IntRange(1, 5).Draw(t, "Maps") {
			written += statemachines.HistoryPerTurn
			var outcomes []runs.Outcome
			for _, id := range []string{"b", "c"} {
				parks, rounds := rapid.IntRange(0, 12).Draw(t, "parks"), rapid.IntRange(0, 12).Draw(t, "plain rounds")
				written += statemachines.HistoryPerCall + parks*statemachines.HistoryPerPark + rounds*statemachines.HistoryPerRound
				outcomes = append(outcomes, runs.Outcome{ID: id, Status: "completed", Rounds: parks + rounds, Turn: turn + 1})
			}
			r = r.Arrived(twoCalls, runs.At{Maps: turn + 1}, outcomes)
			if r.Step.Events < written {
				t.Fatalf("after %d Maps: estimated %d events, written %d", turn+1, r.Step.Events, written)
			}
			r = r.Issued([]int{1, 2}, "w")
		}
	})
	parked := issued().Arrived(twoCalls, runs.At{Maps: 2}, []runs.Outcome{{ID: "b", Status: "completed", Rounds: 3, Turn: 2}})
	if want := statemachines.HistoryPerTurn + statemachines.HistoryPerCall + 3*statemachines.HistoryPerPark; parked.Step.Events < want {
		t.Errorf("three parks: estimated %d events, written %d", parked.Step.Events, want)
	}
}

func TestReasonIsKeptOfARequestThatDidNothingUntilTheCallIsIssuedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status string
		kept   bool
	}{{"refused", true}, {"expired", true}, {"completed", false}, {"failed", false}, {"conflict", false}, {"indeterminate", false}} {
		arrived := issued().Arrived(twoCalls, runs.At{Maps: 2}, []runs.Outcome{
			{ID: "b", Status: c.status, Code: "bad_arguments", Message: strings.Repeat("é", 500), Turn: 2},
		})
		got := arrived.Progress[1]
		if c.kept != (got.Message != "") || len(got.Message) > ledger.MaxMessage || got.Code != "bad_arguments" {
			t.Errorf("%s: %+v", c.status, got)
		}
		if again := arrived.Issued([]int{1}, "w").Progress; !slices.Equal(again, []runs.Progress{{}, {Issued: true, Answers: 1}, {Issued: true}}) {
			t.Errorf("%s, issued again: %+v", c.status, again)
		}
	}
}
