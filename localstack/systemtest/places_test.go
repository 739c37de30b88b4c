package systemtest

import (
	"slices"
	"sync"
	"testing"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/faults"
)

// place is a kind of request of which a fault strikes the n-th that a run sends.
type place struct {
	name string
	rule faults.Rule // without what makes it one run's
	// decision places are counted from the moment a person has looked: before
	// that it is they who ask, as often as they like.
	decision bool
	bell     bool // the request names no run, only the task token
}

// drivers are the functions that have a part in a run that goes on by itself or
// by a person's word. What the sweeper does is for the runs that don't.
func drivers() []string {
	return slices.DeleteFunc(names.Functions(), func(name string) bool { return name == names.Sweeper })
}

// lossPlaces are the kinds of exchanges whose request or answer can be lost.
func lossPlaces() []place {
	var all []place
	for _, name := range drivers() {
		function := system.Names.Function(name)
		all = append(all, place{name: "dynamodb from " + name, rule: faults.Rule{Service: faults.DynamoDB, Caller: function}, decision: name == names.Operator})
		if name != names.Operator { // the gateway invokes it, not a client of Lambda's API
			all = append(all, place{name: "invocation of " + name, rule: faults.Rule{Service: faults.Lambda, Operation: "Invoke", Function: function}})
		}
	}
	return append(all,
		place{name: "start", rule: faults.Rule{Service: faults.StepFunctions, Operation: "StartExecution"}},
		place{name: "bell", rule: faults.Rule{Service: faults.StepFunctions, Operation: "SendTaskSuccess"}, decision: true, bell: true},
		place{name: "reconcile", rule: faults.Rule{Service: faults.Operator, Operation: "reconcile"}, decision: true},
		place{name: "resolve", rule: faults.Rule{Service: faults.Operator, Operation: "resolve"}, decision: true},
	)
}

// killPlaces are the kinds of requests at which their sender can be killed.
func killPlaces() []place {
	var all []place
	for _, name := range drivers() {
		function := system.Names.Function(name)
		all = append(all, place{name: name, rule: faults.Rule{Caller: function}, decision: name == names.Operator})
	}
	operator := faults.Rule{Caller: system.Names.Function(names.Operator), Service: faults.StepFunctions}
	return append(all, place{name: names.Operator + " at the bell", rule: operator, decision: true, bell: true})
}

// armAt arms the effect for the run's n-th request of the place, and returns how
// to learn what became of the rule once the run has ended.
func armAt(t *testing.T, r *fullRun, p place, nth int, effect faults.Effect) (seen func() faults.ArmedRule) {
	t.Helper()
	rule := p.rule
	rule.Nth, rule.Effect, rule.Contains = nth, effect, r.id
	var id string
	put := func(t *testing.T) {
		t.Helper()
		if p.bell {
			rule.Contains = bellOf(t, r.id)
		}
		var err error
		if id, err = system.Faults.Arm(rule); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = system.Faults.Disarm(id) })
	}
	take := sync.OnceValue(func() faults.ArmedRule {
		rules := system.Faults.Rules()
		i := slices.IndexFunc(rules, func(a faults.ArmedRule) bool { return a.ID == id })
		if i < 0 || system.Faults.Disarm(id) != nil {
			return faults.ArmedRule{} // it never came to that
		}
		return rules[i]
	})
	if !p.decision {
		put(t)
		return take
	}
	looked, decided := r.looked, r.decided
	r.looked = func(t *testing.T, key string) {
		t.Helper()
		if looked != nil {
			looked(t, key)
		}
		put(t)
	}
	r.decided = func(t *testing.T) {
		t.Helper()
		if decided != nil {
			decided(t)
		}
		take()
	}
	return take
}

// bellOf returns the task token of the run's parked call.
func bellOf(t *testing.T, run string) string {
	t.Helper()
	bell := secrets(t, run)["bell"]
	if bell == "" {
		t.Fatalf("run %s is not parked", run)
	}
	return bell
}

// counted plays a run without faults, twice, and returns how many requests of
// each place it sends at least: on a busy machine some are sent again.
func counted(t *testing.T, places []place) []int {
	t.Helper()
	counts := make([]int, len(places))
	for n := range 2 {
		r := &fullRun{id: ownRun(t)}
		var seen []func() faults.ArmedRule
		for _, p := range places {
			seen = append(seen, armAt(t, r, p, 1_000_000, faults.DropAnswer))
		}
		r.play(t)
		for i := range places {
			if matches := seen[i]().Matches; n == 0 || matches < counts[i] {
				counts[i] = matches
			}
		}
		r.holds(t)
		if c := keyEffects(t, r.key("call_1")).Credits + keyEffects(t, r.key("call_3")).Credits; c != 2 {
			t.Fatalf("without a fault: %d credits", c)
		}
	}
	return counts
}

// each returns the requests to be struck, 1 to n: all of them, or with -short,
// which the race detector runs with, every fourth and the last.
func each(n int) []int {
	step := 1
	if testing.Short() {
		step = 4
	}
	var all []int
	for nth := 1; nth < n; nth += step {
		all = append(all, nth)
	}
	return append(all, n)
}
