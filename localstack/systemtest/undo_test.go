package systemtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/billing"
	"github.com/onceward/onceward/localstack/faults"
)

// undone is what a request for an undo is answered with.
type undone struct {
	Record        shown `json:"record"`
	RecordKeeping bool  `json:"record_keeping"`
	Undo          struct {
		Key    string `json:"key"`
		N      int    `json:"n"`
		Status string `json:"status"`
		Effect string `json:"effect"`
		Open   bool   `json:"open"`
	} `json:"undo"`
}

// isTrue fails if the answer says of the call or its undo what billing denies.
func (u undone) isTrue(t *testing.T, run string) {
	t.Helper()
	effects := keyEffects(t, run+":call_1")
	var wrong bool
	switch u.Record.Status {
	case "compensated":
		wrong = effects.Voids != 1
	case "completed":
		wrong = effects.Credits != 1 || effects.Voids != 0 && !u.Undo.Open
	default:
		wrong = true
	}
	if wrong || u.Undo.Effect == "happened" && effects.Voids != 1 || u.Undo.Status == "failed" && effects.Voids != 0 {
		t.Errorf("told %+v; billing has %d credits, %d voids", u, effects.Credits, effects.Voids)
	}
}

// paid returns a run whose one call has completed, asked for directly.
func paid(t *testing.T) (run string) {
	t.Helper()
	run = ownRun(t)
	if a := mustInvoke(t, envelope("invoke", run, run)); a.Status != "completed" {
		t.Fatalf("%+v", a)
	}
	return run
}

func undoBody(run string, version int64) map[string]any {
	return map[string]any{"reason": run + ": the wrong customer", "expected_version": version}
}

// followUndo does what people do until the call's undo has ended: they ask how it
// is, and if nobody knows they look into billing and say what is there.
func followUndo(t *testing.T, run string) shown {
	t.Helper()
	key := run + ":call_1"
	var s shown
	poll(t, time.Minute, 100*time.Millisecond, "the undo ends", func() bool {
		if s = showKey(t, key); !s.open() {
			return true
		}
		undoKey := fmt.Sprintf("%s~undo%d", key, s.Undo.Number)
		status, text := operator(t, "dev::ada", http.MethodGet, keyPath(undoKey), nil)
		var u shown
		if status == http.StatusOK && json.Unmarshal(text, &u) == nil && u.Status == "indeterminate" {
			outcome := "failed"
			if keyEffects(t, undoKey).Voids > 0 {
				outcome = "completed"
			}
			untilHeard(t, undoKey, "resolve", map[string]any{"outcome": outcome, "reason": run + ": looked", "expected_version": u.Version}, &struct{}{})
			return false
		}
		(&fullRun{id: run}).lookUp(t, key) // any further request carries it on
		return false
	})
	return s
}

// Proves: R106, R112
func TestUndoAskedByTwoAtOnceVoidsOnce(t *testing.T) {
	t.Parallel()
	run := paid(t)
	body := undoBody(run, show(t, run).Version)
	statuses, texts := make([]int, 2), make([]string, 2)
	errs := make([]error, 2)
	var both sync.WaitGroup
	for i, actor := range []string{"ada", "bob"} {
		both.Go(func() {
			var text []byte
			statuses[i], text, errs[i] = tryOperator(t.Context(), "dev::"+actor, http.MethodPost, callPath(run, "compensate"), body)
			texts[i] = string(text)
		})
	}
	both.Wait()
	won := 0
	if statuses[1] == http.StatusOK {
		won = 1
	}
	if err := errors.Join(errs...); err != nil || statuses[won] != http.StatusOK || statuses[1-won] != http.StatusConflict {
		t.Fatalf("%v, %v: %v", err, statuses, texts)
	}
	if winner := []string{"ada", "bob"}[won]; !strings.Contains(texts[1-won], winner) {
		t.Errorf("the loser does not hear that %s asked: %s", winner, texts[1-won])
	}
	s := followUndo(t, run)
	if effects := keyEffects(t, run+":call_1"); s.Status != "compensated" || s.Undo.Number != 1 || effects.Credits != 1 || effects.Voids != 1 || len(s.Decisions) != 1 {
		t.Errorf("%+v, %+v", s, effects)
	}
}

// Proves: R111, R112
func TestFailedUndoCanBeAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault billing.Fault
		voids int // after the first
		first string
	}{
		{billing.FaultRefuse422, 0, "completed"},
		{billing.FaultExpired401, 0, "completed"},
		{billing.FaultDropRequest, 0, "completed"},
		{billing.FaultLoseAnswer, 1, "compensated"},
		{billing.FaultError500After, 1, "compensated"},
	} {
		t.Run(string(c.fault), func(t *testing.T) {
			t.Parallel()
			run := paid(t)
			if _, err := system.Billing.Arm(t.Context(), billing.Rule{KeyContains: run, Operation: billing.OpVoid, Fault: c.fault}); err != nil {
				t.Fatal(err)
			}
			var told undone
			untilHeard(t, run+":call_1", "compensate", undoBody(run, show(t, run).Version), &told)
			told.isTrue(t, run)
			if told.Undo.Open && !listed(t, run, "") {
				t.Error("an undo that nobody knows of is not listed")
			}
			s := followUndo(t, run)
			if effects := keyEffects(t, run+":call_1"); s.Status != c.first || effects.Voids != c.voids {
				t.Fatalf("after the first: %+v, %+v", s, effects)
			}
			if s.Status == "compensated" {
				if status, text := operator(t, "dev::bob", http.MethodPost, callPath(run, "compensate"), undoBody(run, s.Version)); status != http.StatusConflict {
					t.Errorf("undone, and undone again: %d: %s", status, text)
				}
				return
			}
			status, text := operator(t, "dev::bob", http.MethodPost, callPath(run, "compensate"), undoBody(run, s.Version))
			if err := json.Unmarshal(text, &told); err != nil || status != http.StatusOK || told.Undo.N != 2 {
				t.Fatalf("%d, %v: %s", status, err, text)
			}
			told.isTrue(t, run)
			s = followUndo(t, run)
			if effects := keyEffects(t, run+":call_1"); s.Status != "compensated" || effects.Voids != 1 {
				t.Errorf("after the second: %+v, %+v", s, effects)
			}
		})
	}
}

// Proves: R116
func TestUndoOfAnUnknownCallNeedsTheWordThatItIsUnknown(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	mustInvoke(t, envelope("invoke", run, run+"-lose-answer-lookup-down"))
	before := show(t, run)
	for _, c := range []struct {
		more map[string]any
		want int
	}{
		{nil, http.StatusUnprocessableEntity},
		{map[string]any{"knows_unknown": false}, http.StatusUnprocessableEntity},
		{map[string]any{"knows_unknown": true}, http.StatusConflict}, // its request may still travel
	} {
		body := undoBody(run, before.Version)
		maps.Copy(body, c.more)
		if status, text := operator(t, "dev::ada", http.MethodPost, callPath(run, "compensate"), body); status != c.want {
			t.Errorf("%v: %d: %s", c.more, status, text)
		}
	}
	if s, effects := show(t, run), keyEffects(t, run+":call_1"); s.Version != before.Version || s.Status != "indeterminate" || effects.Voids != 0 {
		t.Errorf("%+v, %+v", s, effects)
	}
}

// Proves: R112
func TestUndoAfterTheRunIsRecordKeepingAndVoidsOnce(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	if status, output := endOf(t, startRun(t, run, runInput(t, run, run, "pause"))); status != "SUCCEEDED" {
		t.Fatalf("%s: %s", status, output)
	}
	var told undone
	untilHeard(t, run+":call_1", "compensate", undoBody(run, show(t, run).Version), &told)
	told.isTrue(t, run)
	if !told.RecordKeeping || told.Record.Status != "compensated" {
		t.Errorf("%+v", told)
	}
	page := (&fullRun{id: run}).page(t)
	if call := page.Turns[0].Calls[0]; call.Status != "compensated" || call.Effect != "undone" || call.Heard != "completed" {
		t.Errorf("%+v", call)
	}
	if again := mustInvoke(t, envelope("invoke", run, run)); again.Status != "compensated" || again.Effect != "undone" || keyEffects(t, run+":call_1").Credits != 1 {
		t.Errorf("asked again it says %+v", again)
	}
}

// undoPlaces are the kinds of exchanges of an undo that can be lost, and of
// requests at which their sender can be killed.
func undoPlaces() (losses, kills []place) {
	tools, desk := system.Names.Function(names.BillingTools), system.Names.Function(names.Operator)
	losses = []place{
		{name: "dynamodb from operator", rule: faults.Rule{Service: faults.DynamoDB, Caller: desk}},
		{name: "dynamodb from billing-tools", rule: faults.Rule{Service: faults.DynamoDB, Caller: tools}},
		{name: "invocation of billing-tools", rule: faults.Rule{Service: faults.Lambda, Function: tools}},
		{name: "compensate", rule: faults.Rule{Service: faults.Operator, Operation: "compensate"}},
	}
	kills = []place{
		{name: "operator", rule: faults.Rule{Caller: desk}},
		{name: "billing-tools", rule: faults.Rule{Caller: tools}},
	}
	return losses, kills
}

// undoneAt asks for the undo of a completed call, with the effect at the n-th
// request of each of the places, and returns how many requests of each there were.
func undoneAt(t *testing.T, places []place, nth int, effect faults.Effect) (run string, matches []int, hits int) {
	t.Helper()
	run = paid(t)
	body := undoBody(run, show(t, run).Version)
	ids := make([]string, len(places))
	for i, p := range places {
		rule := p.rule
		rule.Nth, rule.Effect, rule.Contains = nth, effect, run
		var err error
		if ids[i], err = system.Faults.Arm(rule); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = system.Faults.Disarm(ids[i]) })
	}
	var told undone
	untilHeard(t, run+":call_1", "compensate", body, &told)
	told.isTrue(t, run)
	for _, r := range system.Faults.Rules() {
		for _, id := range ids {
			if r.ID == id {
				matches, hits = append(matches, r.Matches), hits+r.Hits
			}
		}
	}
	return run, matches, hits
}

// Proves: R45, R112, R144
func TestLosingOrKillingAnythingDuringAnUndoVoidsAtMostOnceAndTheRecordIsRight(t *testing.T) {
	t.Parallel()
	losses, kills := undoPlaces()
	for _, c := range []struct {
		places  []place
		effects []faults.Effect
		voids   int // at least
	}{
		{losses, []faults.Effect{faults.DropRequest, faults.DropAnswer}, 1},
		{kills, []faults.Effect{faults.KillCallerBefore, faults.KillCallerAfter}, 0},
	} {
		calm, counts, _ := undoneAt(t, c.places, 1_000_000, faults.DropAnswer)
		if s := show(t, calm); s.Status != "compensated" || keyEffects(t, calm+":call_1").Voids != 1 {
			t.Fatalf("without a fault: %+v", s)
		}
		for i, p := range c.places {
			if counts[i] == 0 {
				t.Errorf("%s: no request", p.name)
			}
			for _, nth := range each(counts[i]) {
				for _, effect := range c.effects {
					t.Run(fmt.Sprintf("%s %d of %d %s", p.name, nth, counts[i], effect), func(t *testing.T) {
						t.Parallel()
						run, sent, hits := undoneAt(t, []place{p}, nth, effect)
						if !struckOnce(hits, sent[0], nth) {
							t.Errorf("the fault struck %d times at %d requests", hits, sent[0])
						}
						s, effects := followUndo(t, run), keyEffects(t, run+":call_1")
						agrees(t, "the record", s.Status, s.Effect, effects)
						if effects.Credits != 1 || effects.Voids > 1 || effects.Voids < c.voids {
							t.Errorf("%d credits, %d voids; %+v", effects.Credits, effects.Voids, s)
						}
						if len(s.Decisions) != 1 || s.Decisions[0].By != "ada" {
							t.Errorf("%+v", s.Decisions)
						}
						if listed(t, run, "") {
							t.Error("it is still listed")
						}
					})
				}
			}
		}
	}
}
