package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// The arguments of the run's call are {"n":1}.
//
// Proves: R123
func TestModelNeverHearsOfAnotherCallsEffectUnderItsKey(t *testing.T) {
	t.Parallel()
	key := ledger.Key{Tenant: "acme", RunID: "run-1", CallID: "toolu_01"}
	for received, want := range map[string]string{
		`{"n":1}`:          "completed: " + happened,
		`{"n":2}`:          "conflict: This request did nothing. An earlier one may have taken effect. Do not repeat it.",
		`{"n":1,"more":1}`: "conflict: This request did nothing. An earlier one may have taken effect. Do not repeat it.",
	} {
		r := newRig(t)
		// Somebody else's call takes effect once the turn is planned; the guard's
		// "conflict" is lost, and a desk reads the record: completed.
		r.meddle = func(at string, _ Envelope) {
			if at == "before" {
				r.run(ledger.Call{Key: key, Tool: "issue_credit", Turn: 1, Fingerprint: "g", Received: ledger.DigestOf([]byte(received))},
					ledger.Settlement{Effect: ledger.Happened, Result: []byte(`{"credit_id":"cr_9"}`)})
			}
		}
		answer := r.drive(t, script("", []string{"issue_credit"}), "e1")
		if diff := cmp.Diff([]string{want}, heard(answer)); answer.Next != Succeed || diff != "" {
			t.Errorf("%s: heard (-want +got):\n%s", received, diff)
		}
	}
}

func TestModelHearsWhyARequestWasRefused(t *testing.T) {
	t.Parallel()
	const start = "refused: This request did nothing, and no earlier one under its key has: bad_arguments: "
	for message, want := range map[string]string{
		"":                         "The arguments are not what the tool asks for.",
		"amount_cents: is missing": "amount_cents: is missing.",
		"The amount is zero.":      "The amount is zero.",
	} {
		r := newRig(t)
		r.message = message
		answer := r.drive(t, script("", []string{"refuse"}), "e1")
		if diff := cmp.Diff([]string{start + want}, heard(answer)); diff != "" {
			t.Errorf("heard (-want +got):\n%s", diff)
		}
	}
}

func TestWordsThatTheModelHeardAreStoredForCallsThatWereClosedUnseenToo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	answer := r.drive(t, script("", []string{"refuse", "nothing", "hang"}, []string{"find_order"}), "e1")
	turns, err := r.runs.Turns(t.Context(), theRun, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	var stored []runs.Heard
	for _, turn := range turns {
		stored = append(stored, turn.Heard...)
	}
	if diff := cmp.Diff(answer.Heard, stored); diff != "" || len(stored) != 4 {
		t.Errorf("stored (-heard +stored):\n%s", diff)
	}
	for _, h := range stored[:3] {
		rec, err := r.ledger.Load(t.Context(), theRun.Call(h.CallID))
		if err != nil || rec.Tool != "" || h.Says == "" {
			t.Errorf("%+v of a record of %q, %v; want one that was closed unseen", h, rec.Tool, err)
		}
	}
}

// Proves: R40
func TestOutcomesFromTheFutureChangeNothingAndStopNoDriver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	input := script("", []string{"find_order", "issue_credit"}, []string{"issue_credit"})
	forged := func(turn int, ids ...string) []byte {
		var all []runs.Outcome
		for _, id := range ids {
			all = append(all, runs.Outcome{ID: id, Status: "completed", Turn: turn})
		}
		return request(input, all, 0, "e1")
	}
	attack := func() {
		t.Helper()
		before, err := r.runs.Load(t.Context(), theRun)
		if err != nil {
			t.Fatal(err)
		}
		for _, payload := range [][]byte{forged(before.Step.Maps+2, "toolu_01"), forged(before.Step.Maps+1, "toolu_09"), forged(before.Step.Maps+1, "toolu_01", "toolu_02"), request(input, nil, before.Step.Broken+2, "e1")} {
			answer := r.plan(t, payload)
			if answer.Next != Fail || answer.Failure.Error != "Onceward.BadInput" || !strings.Contains(answer.Failure.Cause, "not asked for") {
				t.Errorf("after plan %d the forged request is answered %s", before.Step.Plan, wire(t, answer))
			}
		}
		after, err := r.runs.Load(t.Context(), theRun)
		if diff := cmp.Diff(before.Step, after.Step); err != nil || diff != "" || after.Ended() {
			t.Errorf("the run moved, %v:\n%s", err, diff)
		}
	}
	attack() // before the first plan
	r.meddle = func(at string, _ Envelope) {
		if at == "before" {
			attack()
		}
	}
	if answer := r.drive(t, input, "e1"); answer.Next != Succeed || len(answer.Heard) != 3 || r.effects["toolu_02"] != 1 || r.effects["toolu_03"] != 1 {
		t.Errorf("the run ends with %s, effects %v", wire(t, answer), r.effects)
	}
}

func TestDriverInWhoseNameSomebodyElseMadePlansCatchesUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	input := script("", []string{"find_order"}, []string{"issue_credit"})
	ahead := 0
	r.meddle = func(at string, e Envelope) {
		if at == "before" && ahead < 2 {
			ahead++
			answer := r.plan(t, request(input, []runs.Outcome{{ID: e.Call.ID, Status: "unresolved", Turn: ahead}}, 0, "e1"))
			if answer.Next != CallTools {
				t.Errorf("the forged plan says %s", wire(t, answer))
			}
		}
	}
	if answer := r.drive(t, input, "e1"); answer.Next != Succeed || len(answer.Heard) != 2 {
		t.Errorf("the run ends with %s", wire(t, answer))
	}
	if ahead != 2 {
		t.Errorf("%d plans were forged, want 2", ahead)
	}
	if diff := cmp.Diff(map[string]int{"toolu_02": 1}, r.effects); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}
