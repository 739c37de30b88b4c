package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/memruns"
	"github.com/onceward/onceward/middleware/ledger"
)

var theRun = runs.ID{Tenant: "acme", Run: "run-1"}

// modelFunc is a model that answers as it is told.
type modelFunc func(history []runs.Turn) (runs.Proposal, error)

func (f modelFunc) Next(ctx context.Context, turn int, past Past) (runs.Proposal, error) {
	history, err := past(ctx)
	if err != nil {
		return runs.Proposal{}, err
	}
	if len(history) != turn-1 {
		return runs.Proposal{}, fmt.Errorf("%d turns before turn %d", len(history), turn)
	}
	return f(history)
}

func (r *rig) ask(model modelFunc) {
	r.planner.ModelFor = func(runs.Input) (Model, error) { return model, nil }
}

// restart replaces the planner's process; what it does not find stored is gone.
func (r *rig) restart(now func() time.Time) {
	p := *r.planner
	p.Now = now
	r.planner = &p
}

// plain is an input without a script.
func plain() string { return `{"run_id": "run-1", "tenant": "acme"}` }

func credits(ids ...string) runs.Proposal {
	var p runs.Proposal
	for _, id := range ids {
		p.Calls = append(p.Calls, runs.ProposedCall{ID: id, Tool: "issue_credit", Arguments: `{"account":"A1","cents":5}`})
	}
	return p
}

// Providers number calls from zero in each answer, or not at all. Equal ids and
// equal arguments are calls of their own all the same.
// Proves: R11
func TestEqualIDsOfTwoAnswersAreTwoCallsWithKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		turns [][]string
		keys  []string
	}{
		"numbered from zero in each answer": {[][]string{{"call-0"}, {"call-0"}}, []string{"call-0", "~t2-0"}},
		"the same id twice in one answer":   {[][]string{{"call-0", "call-0"}}, []string{"call-0", "~t1-1"}},
		"no ids":                            {[][]string{{"", ""}, {""}}, []string{"~t1-0", "~t1-1", "~t2-0"}},
		"null, as text":                     {[][]string{{"null"}, {"null"}}, []string{"null", "~t2-0"}},
		"not a well-formed id":              {[][]string{{"bash:0"}, {"a/b"}}, []string{"~t1-0", "~t2-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.ask(func(history []runs.Turn) (runs.Proposal, error) {
				if len(history) == len(c.turns) {
					return runs.Proposal{Says: "Done."}, nil
				}
				return credits(c.turns[len(history)]...), nil
			})
			answer := r.drive(t, plain(), "e1")
			if answer.Next != Succeed {
				t.Fatalf("the run ends with %s", wire(t, answer))
			}
			if diff := cmp.Diff(c.keys, r.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			for _, id := range c.keys {
				if r.effects[id] != 1 {
					t.Errorf("%s took effect %d times", id, r.effects[id])
				}
			}
			if len(answer.Heard) != len(c.keys) {
				t.Errorf("heard %+v", answer.Heard)
			}
		})
	}
}

// The model never says the same twice: each answer has new ids and new amounts.
// Proves: R10, R13, R46
func TestAnswerThatIsMadeAgainNeverReplacesOneWhoseCallsMayHaveRun(t *testing.T) {
	t.Parallel()
	for _, persisted := range []bool{true, false} {
		t.Run(fmt.Sprintf("the lost turn was stored: %t", persisted), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			model := modelFunc(func(history []runs.Turn) (runs.Proposal, error) {
				if len(history) == 2 {
					return runs.Proposal{Says: "Done."}, nil
				}
				return runs.Proposal{Calls: []runs.ProposedCall{{ID: "toolu_" + rand.Text(), Tool: "issue_credit", Arguments: `{"nonce":"` + rand.Text() + `"}`}}}, nil
			})
			r.ask(model)
			r.runs.Lose(memruns.PutTurn, 1, persisted)
			r.runs.Lose(memruns.PutTurn, 3, persisted)
			r.meddle = func(at string, e Envelope) {
				turns, err := r.runs.Turns(t.Context(), theRun, 1, 0)
				if err != nil || len(turns) != e.Call.Turn || turns[e.Call.Turn-1].Calls[0].ID != e.Call.ID || turns[e.Call.Turn-1].Calls[0].Arguments != e.Call.ArgumentsJSON {
					t.Errorf("%s call %s the stored turns are %+v, %v", at, e.Call.ID, turns, err)
				}
			}
			var outcomes []runs.Outcome
			for range 10 {
				payload := request(plain(), outcomes, 0, "e1")
				first := r.plan(t, payload)
				for range 3 { // the step is entered again, by other processes
					r.restart(time.Now)
					if again := r.plan(t, payload); wire(t, again) != wire(t, first) {
						t.Fatalf("entered again:\n%s\n%s", wire(t, first), wire(t, again))
					}
				}
				if first.Next == Succeed {
					break
				}
				outcomes = r.callTools(t, first)
			}
			if r.errors == 0 || len(r.asked) != 2 || len(r.effects) != 2 || r.effects[r.asked[0]] != 1 || r.effects[r.asked[1]] != 1 {
				t.Errorf("asked %v, effects %v", r.asked, r.effects)
			}
		})
	}
}

func TestModelThatFailsLaterMakesNoFinishedCallRunAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fails := 0
	r.ask(func(history []runs.Turn) (runs.Proposal, error) {
		switch {
		case len(history) == 0:
			return credits("toolu_1", "toolu_2"), nil
		case fails < 5:
			fails++
			return runs.Proposal{}, errors.New("400: prompt is too long")
		}
		return runs.Proposal{Says: "Done."}, nil
	})
	answer := r.drive(t, plain(), "e1")
	if answer.Next != Succeed || r.errors != 5 || len(answer.Heard) != 2 {
		t.Fatalf("%d errors, the run ends with %s", r.errors, wire(t, answer))
	}
	if diff := cmp.Diff(map[string]int{"toolu_1": 1, "toolu_2": 1}, r.effects); diff != "" || len(r.asked) != 2 {
		t.Errorf("asked %v, effects (-want +got):\n%s", r.asked, diff)
	}
}

// A Map that broke is made again whole; the ledger answers for what has run.
func TestAllCallsOfATurnRunOnceAndAreToldBeforeTheModelGoesOn(t *testing.T) {
	t.Parallel()
	for made := range 3 {
		t.Run(fmt.Sprintf("the Map breaks after %d calls", made), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var toldModel []string
			r.ask(func(history []runs.Turn) (runs.Proposal, error) {
				if len(history) == 0 {
					return credits("toolu_1", "toolu_2", "toolu_3"), nil
				}
				for _, h := range history[0].Heard {
					toldModel = append(toldModel, h.CallID+": "+h.Says)
				}
				return runs.Proposal{Says: "Done."}, nil
			})
			answer := r.plan(t, request(plain(), nil, 0, "e1"))
			r.callTools(t, Answer{Calls: answer.Calls[:made]})
			if len(r.effects) != made {
				t.Fatalf("%d effects after %d calls", len(r.effects), made)
			}
			answer = r.plan(t, request(plain(), nil, 1, "e1"))
			if answer.Next != CallTools || len(toldModel) != 0 {
				t.Fatalf("the model went on: %v, %s", toldModel, wire(t, answer))
			}
			r.maps = 0 // a Map that broke is not counted
			outcomes := r.callTools(t, answer)
			answer = r.plan(t, request(plain(), outcomes, 1, "e1"))
			if answer.Next != Succeed {
				t.Fatalf("the run ends with %s", wire(t, answer))
			}
			if diff := cmp.Diff(map[string]int{"toolu_1": 1, "toolu_2": 1, "toolu_3": 1}, r.effects); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
			if want := []string{"toolu_1: " + happened, "toolu_2: " + happened, "toolu_3: " + happened}; !slices.Equal(toldModel, want) {
				t.Errorf("the model was told %q", toldModel)
			}
		})
	}
}

// Proves: R42
func TestRunThatWaitedForHoursGoesOnInAnotherProcessFromTheLedger(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := ledger.Key{Tenant: "acme", RunID: "run-1", CallID: "toolu_02"}
	later := time.Now()
	waited := false
	r.meddle = func(at string, e Envelope) {
		if e.Call.ID != key.CallID || at != "after" || waited {
			return
		}
		waited = true // the machine parks; six hours later somebody settles it
		later = later.Add(6 * time.Hour)
		r.restart(func() time.Time { return later })
		rec, err := r.ledger.Load(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		r.apply(rec.Resolve(ledger.Stamp{At: later, WriteID: "w"}, ledger.Decision{ID: "d1", Actor: "ada", Reason: "seen", Version: rec.Version}, ledger.Settlement{Effect: ledger.Happened, Result: []byte(`{"credit_id":"cr_9"}`)}))
		if out := r.invoke(t, e); out.Status != "completed" { // the tool is asked again when the bell rings
			t.Errorf("after the wait it is %+v", out)
		}
	}
	answer := r.drive(t, script("", []string{"issue_credit"}, []string{"lose_answer"}, []string{"issue_credit"}), "e1")
	if answer.Next != Succeed || !waited {
		t.Fatalf("waited %t, the run ends with %s", waited, wire(t, answer))
	}
	if diff := cmp.Diff(map[string]int{"toolu_01": 1, "toolu_02": 1, "toolu_03": 1}, r.effects); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"completed: " + happened, "completed: " + happened, "completed: " + happened}, heard(answer)); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
}

// A second process with the same run but another definition changes nothing.
func TestExecutionWithAnotherInputUnderTheSameRunDrivesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := script("", []string{"issue_credit"})
	r.plan(t, request(first, nil, 0, "e1"))
	other := strings.Replace(script("", []string{"issue_credit", "issue_credit"}), "toolu_", "other_", 2)
	if answer := r.plan(t, request(other, nil, 0, "e2")); answer.Next != StandDown {
		t.Errorf("the other is told %s", wire(t, answer))
	}
	if answer := r.drive(t, first, "e1"); answer.Next != Succeed || len(answer.Heard) != 1 {
		t.Errorf("the first ends with %s", wire(t, answer))
	}
	run, err := r.runs.Load(t.Context(), theRun)
	if err != nil || !json.Valid(run.Input) || string(run.Input) != first || len(r.effects) != 1 {
		t.Errorf("the run's input is %s, %v; effects %v", run.Input, err, r.effects)
	}
}
