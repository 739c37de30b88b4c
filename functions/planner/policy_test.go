package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// settlements are what may become of an unknown call once nobody waits for it.
var settlements = map[string]func(rec ledger.Record) (ledger.Move, error){
	"a person says that it happened": func(rec ledger.Record) (ledger.Move, error) {
		return rec.Resolve(stamp(), decision(rec), ledger.Settlement{Effect: ledger.Happened, Result: []byte(`{"credit_id":"cr_9"}`)})
	},
	"a person says that it did not": func(rec ledger.Record) (ledger.Move, error) {
		return rec.Resolve(stamp(), decision(rec), ledger.Settlement{Effect: ledger.NoEffect})
	},
	"a person grants another attempt": func(rec ledger.Record) (ledger.Move, error) {
		return rec.Resolve(stamp(), decision(rec), ledger.Settlement{Effect: ledger.NoEffect, Retryable: true})
	},
	"a look-up finds it": func(rec ledger.Record) (ledger.Move, error) {
		return rec.Look(stamp(), time.Now(), true, ledger.Settlement{Effect: ledger.Happened, ExternalID: "cr_9"})
	},
	"its executor reports late": func(rec ledger.Record) (ledger.Move, error) {
		return rec.Settle(stamp(), rec.Attempt.Token, ledger.Settlement{Effect: ledger.Happened, ExternalID: "cr_9"})
	},
}

func decision(rec ledger.Record) ledger.Decision {
	return ledger.Decision{ID: "d-" + stamp().WriteID, Actor: "ada", Reason: "I looked", Version: rec.Version}
}

// Proves: R121, R123
func TestLaterSettlementOfACallThatWasToldAsUnresolvedIsRecordKeepingOnly(t *testing.T) {
	t.Parallel()
	for name, settle := range settlements {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var turnsSeen [][]string // what the model reads before each of its turns
			r.ask(func(history []runs.Turn) (runs.Proposal, error) {
				var seen []string
				for _, turn := range history {
					for _, h := range turn.Heard {
						seen = append(seen, h.Status+": "+h.Says)
					}
				}
				turnsSeen = append(turnsSeen, seen)
				if len(history) < 3 {
					tool := []string{"lose_answer", "issue_credit", "issue_credit"}[len(history)]
					return runs.Proposal{Calls: []runs.ProposedCall{{ID: fmt.Sprint("call_", len(history)), Tool: tool, Arguments: "{}"}}}, nil
				}
				return runs.Proposal{Says: "Done."}, nil
			})
			settled := false
			r.meddle = func(at string, e Envelope) {
				if at == "before" && e.Call.Turn == 2 && !settled {
					settled = true
					rec, err := r.ledger.Load(t.Context(), theRun.Call("call_0"))
					if err != nil {
						t.Fatal(err)
					}
					r.apply(settle(rec))
				}
			}
			input := strings.Replace(plain(), "{", `{"tool_policy": {"on_indeterminate": "tell"}, `, 1)
			answer := r.drive(t, input, "e1")
			first := "unresolved: " + unknown
			want := [][]string{nil, {first}, {first, "completed: " + happened}, {first, "completed: " + happened, "completed: " + happened}}
			if diff := cmp.Diff(want, turnsSeen); diff != "" || !settled {
				t.Errorf("the model read (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want[3], heard(answer)); answer.Next != Succeed || diff != "" {
				t.Errorf("the run ends with %s", wire(t, answer))
			}
			turns, err := r.runs.Turns(t.Context(), theRun, 1, 1)
			if err != nil || turns[0].Heard[0].Status != runs.Unresolved || turns[0].Heard[0].Says != unknown {
				t.Errorf("what was heard is stored as %+v, %v", turns, err)
			}
			if diff := cmp.Diff([]string{"call_0", "call_1", "call_2"}, r.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// Proves: R26, R121, R123
func TestWhoeverHearsThatACallDidNothingIsRightAndStaysRight(t *testing.T) {
	t.Parallel()
	tools := []string{"find_order", "issue_credit", "not_sent", "refuse", "lose_answer", "hang", "conflict", "reserve", "nothing", "phantom"}
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		var turns [][]string
		for range rapid.IntRange(1, 3).Draw(rt, "turns") {
			turns = append(turns, rapid.SliceOfN(rapid.SampledFrom(tools), 1, 8).Draw(rt, "tools"))
		}
		policy := rapid.SampledFrom([]string{"pause", "tell", "fail"}).Draw(rt, "policy")
		r.meddle = func(string, Envelope) {
			if rapid.IntRange(0, 4).Draw(rt, "somebody settles") > 0 {
				return
			}
			call := rapid.SampledFrom([]string{"toolu_01", "toolu_02", "toolu_03", "toolu_04"}).Draw(rt, "call")
			rec, err := r.ledger.Load(t.Context(), theRun.Call(call))
			if err != nil {
				rt.Fatal(err)
			}
			name := rapid.SampledFrom([]string{"a person says that it happened", "a look-up finds it", "its executor reports late"}).Draw(rt, "how")
			if move, err := settlements[name](rec); err == nil {
				r.apply(move, nil)
			}
		}
		answer := r.drive(t, script(policy, turns...), "e1")
		if answer.Next == Fail && (policy != "fail" || answer.Failure.Error != "Onceward.CallUnresolved") {
			rt.Fatalf("under the policy %s the run ends with %s", policy, wire(t, answer))
		}
		stored, err := r.runs.Turns(t.Context(), theRun, 1, 0)
		if err != nil {
			rt.Fatal(err)
		}
		for _, turn := range stored {
			if !turn.Closed() {
				rt.Fatalf("turn %d is not closed", turn.Number)
			}
			for i, h := range turn.Heard {
				rec, err := r.ledger.Load(t.Context(), theRun.Call(h.CallID))
				if err != nil || !rec.Exists() {
					rt.Fatalf("%s was told as %s, and is not on record: %v", h.CallID, h.Status, err)
				}
				nothing := h.Status == "failed" || h.Status == "refused" || strings.Contains(h.Says, "did not take effect")
				_, err = rec.Start(stamp(), ledger.Call{Key: rec.Key}, ledger.Executor{Token: "late", Attempt: rec.Attempt.Number + 1, Deadline: time.Now()})
				if nothing && (r.effects[h.CallID] != 0 || !errors.Is(err, ledger.ErrNotAllowed)) {
					rt.Fatalf("%s of %s was told %q; it took effect %d times, and may start: %v", h.CallID, turn.Calls[i].Tool, h.Says, r.effects[h.CallID], err == nil)
				}
				if h.Status == "completed" && r.effects[h.CallID] == 0 && turn.Calls[i].Tool != "find_order" && !settledByHand(rec) {
					rt.Fatalf("%s of %s was told to have taken effect", h.CallID, turn.Calls[i].Tool)
				}
			}
		}
	})
}

// settledByHand reports whether the test itself said that the call happened.
func settledByHand(rec ledger.Record) bool {
	return rec.Outcome.By.Kind == ledger.ByPerson || rec.Outcome.By.Kind == ledger.ByHook || rec.Outcome.ExternalID == "cr_9"
}

// Proves: R120
func TestPolicyFailEndsTheRunAfterTheMapWithTheRestClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	input := script("fail", []string{"lose_answer", "issue_credit", "issue_credit", "issue_credit", "issue_credit", "issue_credit", "issue_credit"}, []string{"issue_credit"})
	answer := r.drive(t, input, "e1")
	if answer.Next != Fail || answer.Failure.Error != "Onceward.CallUnresolved" || !strings.Contains(answer.Failure.Cause, "acme/run-1:toolu_01") {
		t.Fatalf("the run ends with %s", wire(t, answer))
	}
	if len(r.beside) != 1 || len(r.effects) != 6 {
		t.Errorf("Maps %v, effects %v; want the siblings of the unknown call and no more", r.beside, r.effects)
	}
	turns, err := r.runs.Turns(t.Context(), theRun, 1, 0)
	if err != nil || len(turns) != 1 || turns[0].Heard[0].Status != runs.Unresolved || turns[0].Heard[6].Says != closedUnseen {
		t.Errorf("stored %+v, %v", turns, err)
	}
}

// A tool that says that it did something of which no ledger that we know of has
// a record, as one that was set up with another table would.
func TestCallOfWhichItsToolSpeaksAndNothingIsOnRecordIsListedAsUnknownBeforeItIsTold(t *testing.T) {
	t.Parallel()
	for _, persisted := range []bool{true, false} {
		for nth := range 3 {
			r := newRig(t)
			input := strings.Replace(script("", []string{"phantom"}, []string{"issue_credit"}), "toolu_02", "toolu_01", 1)
			if nth > 0 {
				r.planner.Ledger = &cut{Ledger: r.ledger, nth: nth, persisted: persisted}
			}
			answer := r.drive(t, input, "e1")
			if diff := cmp.Diff([]string{"unresolved: " + unknown, "completed: " + happened}, heard(answer)); answer.Next != Succeed || diff != "" {
				t.Errorf("write %d lost: heard (-want +got):\n%s", nth, diff)
			}
			if diff := cmp.Diff(map[string]int{"~t2-0": 1}, r.effects); diff != "" {
				t.Errorf("write %d lost: the id was used again; effects (-want +got):\n%s", nth, diff)
			}
			page, err := r.ledger.Unsettled(t.Context(), ledger.Query{Tenant: "acme"})
			if err != nil || len(page.Records) != 1 || page.Records[0].Key.CallID != "toolu_01" || page.Records[0].Tool != "phantom" || !page.Records[0].NeedsSomebody(time.Now()) {
				t.Errorf("write %d lost: listed %+v, %v", nth, page.Records, err)
			}
		}
	}
}

// cut loses the nth move, from 1.
type cut struct {
	Ledger
	nth       int
	persisted bool
}

func (c *cut) Apply(ctx context.Context, m ledger.Move) (ledger.Record, error) {
	if c.nth--; c.nth != 0 {
		return c.Ledger.Apply(ctx, m)
	}
	if c.persisted {
		if _, err := c.Ledger.Apply(ctx, m); err != nil {
			return ledger.Record{}, err
		}
	}
	return ledger.Record{}, errors.New("connection reset")
}
