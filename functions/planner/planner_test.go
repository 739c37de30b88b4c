package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/memruns"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/statemachines"
)

const (
	happened   = `This call took effect. Result: {"credit_id":"cr_9"}`
	found      = `This call took effect. Result: {"order":"O-1"}`
	unknown    = "This call is unresolved: it may or may not have taken effect. Do not repeat it."
	notSent    = "This call certainly did not take effect: the credentials have expired."
	refusal    = "This request did nothing, and no earlier one under its key has: bad_arguments: The arguments are not what the tool asks for."
	noSuchTool = "This request did nothing, and no earlier one under its key has: there is no tool of that name."
)

func heard(answer Answer) []string {
	var all []string
	for _, h := range answer.Heard {
		all = append(all, h.Status+": "+h.Says)
	}
	return all
}

// wire is the answer as the state machine sees it.
func wire(t *testing.T, answer Answer) string {
	t.Helper()
	body, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestEventIsAnsweredAsTheContractSays(t *testing.T) {
	t.Parallel()
	event, err := os.ReadFile("testdata/event.json")
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile("testdata/answer.json")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	r.planner.Tools = runs.Tools{"find_order": {Function: "onceward-dev-billing-tools", Class: runs.Read}, "issue_credit": {Function: "onceward-dev-billing-tools", Class: runs.External}}
	var want, got any
	if err := errors.Join(json.Unmarshal(golden, &want), json.Unmarshal([]byte(wire(t, r.plan(t, event))), &got)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// Proves: R120, R121
func TestRunTellsItsModelWhatTheLedgerKnows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy string
		turns  [][]string
		next   Next
		heard  []string
		maps   []string
	}{
		"nothing to do":          {"", nil, Succeed, nil, nil},
		"a read and two credits": {"", [][]string{{"issue_credit", "find_order", "issue_credit"}}, Succeed, []string{"completed: " + happened, "completed: " + found, "completed: " + happened}, []string{"[toolu_02] 1", "[toolu_01 toolu_03] 1"}},
		"two turns":              {"", [][]string{{"find_order"}, {"issue_credit"}}, Succeed, []string{"completed: " + found, "completed: " + happened}, []string{"[toolu_01] 1", "[toolu_02] 1"}},
		"not sent":               {"", [][]string{{"not_sent"}}, Succeed, []string{"failed: " + notSent}, []string{"[toolu_01] 1"}},
		"refused":                {"", [][]string{{"refuse"}}, Succeed, []string{"refused: " + refusal}, []string{"[toolu_01] 1"}},
		"no such tool":           {"", [][]string{{"nothing"}, {"find_order"}}, Succeed, []string{"refused: " + noSuchTool, "completed: " + found}, []string{"[toolu_02] 1"}},
		"refused, before others": {"", [][]string{{"find_order", "refuse", "issue_credit"}}, Succeed, []string{"completed: " + found, "refused: " + refusal, "completed: " + happened}, []string{"[toolu_01] 1", "[toolu_02 toolu_03] 1"}},
		"unknown, tell":          {"tell", [][]string{{"lose_answer"}}, Succeed, []string{"unresolved: " + unknown}, []string{"[toolu_01] 1"}},
		"unknown, fail":          {"fail", [][]string{{"lose_answer", "issue_credit"}, {"issue_credit"}}, Fail, nil, []string{"[toolu_01 toolu_02] 1"}},
		"rounds run out":         {"", [][]string{{"hang"}}, Succeed, []string{"failed: This call certainly did not take effect: nothing ran, and nothing can run any more."}, []string{"[toolu_01] 1", "[toolu_01] 1", "[toolu_01] 1"}},
		"seven reads":            {"", [][]string{{"find_order", "find_order", "find_order", "find_order", "find_order", "find_order", "find_order"}}, Succeed, nil, []string{"[toolu_01 toolu_02 toolu_03 toolu_04 toolu_05 toolu_06] 6", "[toolu_07] 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			answer := r.drive(t, script(c.policy, c.turns...), "e1")
			if answer.Next != c.next {
				t.Fatalf("the run ends with %s", wire(t, answer))
			}
			if diff := cmp.Diff(c.heard, heard(answer)); c.heard != nil && diff != "" {
				t.Errorf("heard (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.maps, r.beside); diff != "" {
				t.Errorf("Maps (-want +got):\n%s", diff)
			}
			for call, n := range r.effects {
				if n != 1 {
					t.Errorf("%s took effect %d times", call, n)
				}
			}
			run, _ := r.runs.Load(t.Context(), runs.ID{Tenant: "acme", Run: "run-1"})
			if !run.Ended() || !r.runs.Expired(run.Key()) {
				t.Errorf("the run is %s, its turns may expire: %v", run.Status, r.runs.Expired(run.Key()))
			}
		})
	}
}

// Proves: R118
func TestPolicyFailEndsTheRunByNameAfterTheMapAndClosesWhatWasNotCalled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	seven := []string{"lose_answer", "issue_credit", "issue_credit", "issue_credit", "issue_credit", "issue_credit", "issue_credit"}
	answer := r.drive(t, script("fail", seven), "e1")
	if answer.Next != Fail || answer.Failure.Error != "Onceward.CallUnresolved" || !strings.Contains(answer.Failure.Cause, "acme/run-1:toolu_01") {
		t.Fatalf("answer %s", wire(t, answer))
	}
	rec, err := r.ledger.Load(t.Context(), ledger.Key{Tenant: "acme", RunID: "run-1", CallID: "toolu_07"})
	if err != nil || rec.Status != ledger.Failed || rec.Outcome.By.Kind != ledger.ByPlanner {
		t.Errorf("the call that was not issued is %s, %v; want it closed", rec.State(), err)
	}
	if len(r.effects) != 6 {
		t.Errorf("%d calls ran, want the 6 of the Map", len(r.effects))
	}
	if again := r.plan(t, request(script("fail", seven), nil, 0, "e1")); wire(t, again) != wire(t, answer) {
		t.Errorf("asked again: %s", wire(t, again))
	}
}

// Proves: R123
func TestCallThatTheModelWasToldDidNothingCannotStartAnyMore(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"refuse", "not_sent", "hang", "nothing"} {
		r := newRig(t)
		r.drive(t, script("", []string{tool}), "e1")
		rec, err := r.ledger.Load(t.Context(), ledger.Key{Tenant: "acme", RunID: "run-1", CallID: "toolu_01"})
		if err != nil {
			t.Fatal(err)
		}
		for attempt := range 4 {
			if _, err := rec.Start(stamp(), ledger.Call{Key: rec.Key}, ledger.Executor{Token: "late", Attempt: attempt}); !errors.Is(err, ledger.ErrNotAllowed) {
				t.Errorf("%s: attempt %d may start from %s", tool, attempt, rec.State())
			}
		}
	}
}

func TestCallThatRanWhileItWasBeingClosedIsToldAsItRan(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := ledger.Key{Tenant: "acme", RunID: "run-1", CallID: "toolu_01"}
	var once sync.Once
	r.ledger.OnMoment(func(m memledger.Moment) { // a delayed invocation wins against the close
		if m.When == "before" && m.Step.Op == memledger.Apply && m.Step.Event == ledger.Close {
			once.Do(func() {
				behaviours["issue_credit"](r, ledger.Call{Key: key, Tool: "refuse", Turn: 1, Fingerprint: "f"})
			})
		}
	})
	answer := r.drive(t, script("", []string{"refuse"}), "e1")
	if diff := cmp.Diff([]string{"completed: " + happened}, heard(answer)); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
}

func TestPersonsGrantIsUsedBeforeTheModelHears(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := ledger.Key{Tenant: "acme", RunID: "run-1", CallID: "toolu_01"}
	granted := false
	r.meddle = func(at string, e Envelope) {
		rec, err := r.ledger.Load(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case at == "after" && !granted:
			granted = true
			r.apply(rec.Resolve(stamp(), ledger.Decision{ID: "d1", Actor: "ada", Reason: "I looked", Version: rec.Version}, ledger.Settlement{Effect: ledger.NoEffect, Retryable: true}))
		case at == "before" && granted:
			rec = r.apply(rec.Start(stamp(), ledger.Call{Key: key, Tool: e.Call.Tool, Turn: 1}, ledger.Executor{Token: "second", Attempt: 1, Deadline: time.Now().Add(time.Minute)}))
			r.apply(rec.Settle(stamp(), "second", ledger.Settlement{Effect: ledger.Happened, Result: []byte(`{"credit_id":"cr_9"}`)}))
		}
	}
	answer := r.drive(t, script("tell", []string{"lose_answer"}), "e1")
	if diff := cmp.Diff([]string{"completed: " + happened}, heard(answer)); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
}

// Proves: R41, R145
func TestAnyLostWriteOfAPlanIsMadeGoodByItsRepetition(t *testing.T) {
	t.Parallel()
	input := script("tell", []string{"find_order", "issue_credit", "not_sent"}, []string{"refuse", "lose_answer", "nothing"})
	calm := newRig(t)
	want := wire(t, calm.drive(t, input, "e1"))
	lose := map[string]func(r *rig, nth int, persisted bool){}
	for op, n := range countOps(calm.runs.Writes()) {
		for nth := range n {
			lose[fmt.Sprintf("%s %d", op, nth+1)] = func(r *rig, _ int, persisted bool) { r.runs.Lose(op, nth+1, persisted) }
		}
	}
	for nth := range 3 { // not_sent, refuse and nothing
		lose[fmt.Sprintf("close %d", nth+1)] = func(r *rig, _ int, persisted bool) {
			r.ledger.Arm(memledger.Fault{Op: memledger.Apply, Event: ledger.Close, Nth: nth + 1, Persist: persisted})
		}
	}
	for name, arm := range lose {
		for _, persisted := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, persisted %v", name, persisted), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				arm(r, 0, persisted)
				got := wire(t, r.drive(t, input, "e1"))
				if got != want {
					t.Errorf("the run ends differently:\n got %s\nwant %s", got, want)
				}
				if diff := cmp.Diff(calm.effects, r.effects); diff != "" {
					t.Errorf("effects (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(calm.asked, r.asked); diff != "" {
					t.Errorf("calls asked (-want +got):\n%s", diff)
				}
				// A run whose turns will not expire ends all the same.
				if r.errors != 1 && !strings.HasPrefix(name, string(memruns.Expire)) {
					t.Errorf("%d plans were repeated, want the one that lost a write", r.errors)
				}
			})
		}
	}
}

func countOps(ops []memruns.Op) map[memruns.Op]int {
	n := make(map[memruns.Op]int)
	for _, op := range ops {
		n[op]++
	}
	return n
}

// Proves: R40, R41
func TestRunSurvivesManyLostWritesRepeatedPlansAndBrokenMaps(t *testing.T) {
	t.Parallel()
	tools := []string{"find_order", "issue_credit", "not_sent", "refuse", "lose_answer", "nothing", "hang", "conflict"}
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		var turns [][]string
		for range rapid.IntRange(1, 3).Draw(rt, "turns") {
			turns = append(turns, rapid.SliceOfN(rapid.SampledFrom(tools), 1, 9).Draw(rt, "tools"))
		}
		input := script("tell", turns...)
		for range rapid.IntRange(0, 6).Draw(rt, "faults") {
			op := rapid.SampledFrom([]memruns.Op{memruns.Save, memruns.PutTurn, memruns.Hear}).Draw(rt, "op")
			r.runs.Lose(op, rapid.IntRange(1, 8).Draw(rt, "nth"), rapid.Bool().Draw(rt, "persisted"))
		}
		var outcomes []runs.Outcome
		told := map[string]string{}
		for range 100 {
			payload := request(input, outcomes, r.broken, "e1")
			answer := r.plan(t, payload)
			if rapid.Bool().Draw(rt, "asked twice") {
				if again := r.plan(t, payload); wire(t, again) != wire(t, answer) {
					rt.Fatalf("asked twice:\n %s\n %s", wire(t, answer), wire(t, again))
				}
			}
			turns, _ := r.runs.Turns(t.Context(), runs.ID{Tenant: "acme", Run: "run-1"}, 1, 0)
			for _, turn := range turns {
				for _, h := range turn.Heard {
					if before, ok := told[h.CallID]; ok && before != h.Says {
						rt.Fatalf("%s was told %q, and then %q", h.CallID, before, h.Says)
					}
					told[h.CallID] = h.Says
				}
			}
			if answer.Next != CallTools {
				if answer.Next != Succeed || len(answer.Heard) != len(told) {
					rt.Fatalf("the run ends with %s", wire(t, answer))
				}
				break
			}
			if len(answer.Calls) == 0 || len(answer.Calls) > statemachines.MaxCalls {
				rt.Fatalf("%d calls in a Map", len(answer.Calls))
			}
			if r.broken < 2 && rapid.IntRange(0, 5).Draw(rt, "the Map breaks") == 0 {
				before := r.maps
				r.callTools(t, Answer{Calls: answer.Calls[:rapid.IntRange(0, len(answer.Calls)).Draw(rt, "calls made")]})
				r.maps, outcomes = before, nil
				r.broken++
				continue
			}
			outcomes = r.callTools(t, answer)
		}
		for call, n := range r.effects {
			if n != 1 {
				rt.Fatalf("%s took effect %d times", call, n)
			}
		}
	})
}

// Proves: R23, R40
func TestTwoPlansAtOnceSayTheSame(t *testing.T) {
	t.Parallel()
	input := script("tell", []string{"find_order", "issue_credit"}, []string{"refuse", "not_sent", "nothing"}, []string{"lose_answer"})
	r := newRig(t)
	var outcomes []runs.Outcome
	for range 50 {
		payload := request(input, outcomes, 0, "e1")
		answers := make([]string, 8)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() {
				answer, err := r.planner.Handle(t.Context(), payload)
				body, _ := json.Marshal(answer)
				answers[i] = string(body) + fmt.Sprint(err)
			})
		}
		all.Wait()
		for _, other := range answers[1:] {
			if other != answers[0] {
				t.Fatalf("one plan says\n%s\nanother\n%s", answers[0], other)
			}
		}
		answer := r.plan(t, payload)
		if answer.Next != CallTools {
			if answer.Next != Succeed {
				t.Fatalf("the run ends with %s", wire(t, answer))
			}
			return
		}
		outcomes = r.callTools(t, answer)
	}
	t.Fatal("the run does not end")
}

// Proves: R40
func TestExecutionThatRunDoesNotNameStandsDown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	input := script("", []string{"issue_credit"})
	first := r.plan(t, request(input, nil, 0, "e1"))
	if second := r.plan(t, request(input, nil, 0, "e2")); second.Next != StandDown {
		t.Errorf("the second execution is told %s", wire(t, second))
	}
	r.callTools(t, first)
	if answer := r.drive(t, input, "e1"); answer.Next != Succeed {
		t.Errorf("the first ends with %s", wire(t, answer))
	}
	if late := r.plan(t, request(input, nil, 0, "e2")); late.Next != StandDown {
		t.Errorf("after the end the second is told %s", wire(t, late))
	}
}

func TestOfManyFirstPlansOneExecutionDrives(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	input := script("", []string{"issue_credit"})
	var mu sync.Mutex
	said := make(map[Next]int)
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			answer, err := r.planner.Handle(t.Context(), request(input, nil, 0, fmt.Sprint("e", i)))
			mu.Lock()
			defer mu.Unlock()
			said[answer.Next]++
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if said[CallTools] != 1 || said[StandDown] != 11 {
		t.Errorf("said %v, want one to call tools and 11 to stand down", said)
	}
}

func TestLongHistoryIsHandedOverAndTheNextExecutionGoesOnWithTheOpenTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var turns [][]string
	r.rounds = 20
	for range 30 {
		turns = append(turns, []string{"find_order", "issue_credit", "issue_credit"})
	}
	input, execution := script("", turns...), "e1"
	var answer Answer
	for generation := 1; generation < 20; generation++ {
		answer = r.drive(t, input, execution)
		if answer.Next != GoOn {
			break
		}
		if again := r.plan(t, request(input, nil, 0, execution)); wire(t, again) != wire(t, answer) {
			t.Errorf("the hand-over, asked again: %s", wire(t, again))
		}
		want := &HandOver{StateMachine: "arn:aws:states:eu-west-1:111122223333:stateMachine:m:7", Name: runs.ExecutionName(runs.ID{Tenant: "acme", Run: "run-1"}, generation+1), Input: json.RawMessage(input)}
		if diff := cmp.Diff(want, answer.HandOver); diff != "" {
			t.Fatalf("hand-over (-want +got):\n%s", diff)
		}
		execution = answer.HandOver.Name
	}
	if answer.Next != Succeed || execution == "e1" {
		t.Fatalf("execution %s ends with %.200s", execution, wire(t, answer))
	}
	if len(r.effects) != 60 {
		t.Errorf("%d credits, want 60", len(r.effects))
	}
	for call, n := range r.effects {
		if n != 1 {
			t.Errorf("%s took effect %d times", call, n)
		}
	}
}

// Proves: R40
func TestPlanOfAnExecutionThatHasGoneOnSinceChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	input := script("", []string{"find_order"}, []string{"issue_credit"})
	first := request(input, nil, 0, "e1")
	outcomes := r.callTools(t, r.plan(t, first))
	open := r.plan(t, request(input, outcomes, 0, "e1"))
	before := len(r.runs.Writes())
	if late := r.plan(t, first); wire(t, late) != wire(t, open) {
		t.Errorf("a plan that comes late is told %s, want what is open", wire(t, late))
	}
	if after := len(r.runs.Writes()); after != before {
		t.Errorf("it wrote %v", r.runs.Writes()[before:])
	}
}

// overheard lets another plan fix what the model hears just before this one.
type overheard struct {
	runs.Store
	says []runs.Heard
}

func (o overheard) Hear(ctx context.Context, id runs.ID, n int, heard []runs.Heard) ([]runs.Heard, error) {
	if _, err := o.Store.Hear(ctx, id, n, o.says); err != nil {
		return nil, err
	}
	return o.Store.Hear(ctx, id, n, heard)
}

func TestPlanGoesOnFromWhatStandsAndNotFromWhatItWouldHaveTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.planner.Runs = overheard{Store: r.runs, says: []runs.Heard{{CallID: "toolu_01", Status: "completed", Says: happened}}}
	answer := r.drive(t, script("fail", []string{"lose_answer"}), "e1")
	if diff := cmp.Diff([]string{"completed: " + happened}, heard(answer)); answer.Next != Succeed || diff != "" {
		t.Errorf("the run ends with %s", wire(t, answer))
	}
}
