package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/memruns"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

var dawn = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// limited is the input with a limit to the time at work.
func limited(input string, limit time.Duration) string {
	return strings.Replace(input, `"run_id"`, fmt.Sprintf(`"limits": {"active_seconds": %d}, "run_id"`, int(limit.Seconds())), 1)
}

// clocked lets the planner's time stand still until the test moves it.
func (r *rig) clocked() (now *time.Time) {
	at := dawn
	r.planner.Now = func() time.Time { return at }
	return &at
}

// waits parks the call and rings it after some time.
func (r *rig) waits(t *testing.T, call, id string, now *time.Time, parked, rung time.Duration) {
	t.Helper()
	w := ledger.Wait{Key: theRun.Call(call), ID: id, Token: "t", ParkedAt: now.Add(parked)}
	if err := errors.Join(r.ledger.SaveWait(t.Context(), w), r.ledger.ConfirmWait(t.Context(), w, "rung", now.Add(rung))); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) stored(t *testing.T) runs.Run {
	t.Helper()
	run, err := r.runs.Load(t.Context(), theRun)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestTimeThatARunWaitsForPeopleIsNotTimeAtWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rounds int
		waits  func(r *rig, now *time.Time)
		takes  time.Duration // the Map, waits included
		active time.Duration
		next   Next
	}{
		"20 days": {1, func(r *rig, now *time.Time) { r.waits(t, "toolu_01", "w1", now, time.Minute, 20*day) }, 20*day + time.Minute, 2 * time.Minute, Succeed},
		"two at once, counted once": {1, func(r *rig, now *time.Time) {
			r.waits(t, "toolu_01", "w1", now, time.Minute, 5*day)
			r.waits(t, "toolu_02", "w2", now, day, 6*day)
		}, 6*day + time.Hour - time.Minute, time.Hour, Succeed},
		"one after the other": {2, func(r *rig, now *time.Time) {
			r.waits(t, "toolu_01", "w1", now, 0, day)
			r.waits(t, "toolu_01", "w2", now, day+time.Minute, 2*day)
		}, 2*day + time.Second, time.Minute + time.Second, Succeed},
		"an hour is over":      {1, func(r *rig, now *time.Time) { r.waits(t, "toolu_01", "w1", now, time.Hour, 2*time.Hour) }, 2*time.Hour + time.Millisecond, time.Hour + time.Millisecond, Fail},
		"no wait, a slow tool": {0, func(*rig, *time.Time) {}, time.Hour + time.Millisecond, time.Hour + time.Millisecond, Fail},
		"just in time":         {0, func(*rig, *time.Time) {}, time.Hour, time.Hour, Succeed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			now := r.clocked()
			r.rounds = c.rounds
			input := limited(script("", []string{"issue_credit", "issue_credit"}), time.Hour)
			outcomes := r.callTools(t, r.plan(t, request(input, nil, 0, "e1")))
			c.waits(r, now)
			*now = now.Add(c.takes)
			answer := r.plan(t, request(input, outcomes, 0, "e1"))
			if run := r.stored(t); answer.Next != c.next || run.Active != c.active || run.ActiveLimit != time.Hour {
				t.Errorf("after %s at work: %s; want %s after %s", run.Active, wire(t, answer), c.next, c.active)
			}
			if c.next == Fail && (answer.Failure.Error != "Onceward.DeadlineExceeded" || !strings.Contains(answer.Failure.Cause, "1h0m0.001s")) {
				t.Errorf("it fails as %+v", answer.Failure)
			}
		})
	}
}

// The plans of 30 turns take two hours in all, and 20 days pass between any two
// executions.
func TestTimeBetweenExecutionsIsNotTimeAtWork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now := r.clocked()
	r.rounds = 20
	var turns [][]string
	for range 30 {
		turns = append(turns, []string{"issue_credit", "issue_credit", "issue_credit"})
	}
	input, execution, executions := limited(script("", turns...), 2*time.Hour), "e1", 0
	var outcomes []runs.Outcome
	for answer := r.plan(t, request(input, nil, 0, execution)); ; answer = r.plan(t, request(input, outcomes, 0, execution)) {
		if answer.Next == GoOn {
			*now = now.Add(20 * day)
			execution, outcomes, r.maps = answer.HandOver.Name, nil, 0
			executions++
			continue
		}
		if answer.Next != CallTools {
			if answer.Next != Succeed {
				t.Errorf("the run ends with %s", wire(t, answer))
			}
			break
		}
		outcomes = r.callTools(t, answer)
		*now = now.Add(4 * time.Minute)
	}
	if run := r.stored(t); run.Active != 2*time.Hour || executions < 2 {
		t.Errorf("%s at work in %d hand-overs, want 2h0m0s in some", run.Active, executions)
	}
	// A run that is resumed has no step either.
	r = newRig(t)
	now = r.clocked()
	r.plan(t, request(input, nil, 0, "e1"))
	moved := r.stored(t).MovedOn("resume")
	if _, err := r.runs.Save(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	*now = now.Add(20 * day)
	if answer := r.plan(t, request(input, nil, 0, moved.Driver)); answer.Next != CallTools || r.stored(t).Active != 0 {
		t.Errorf("resumed, after %s at work: %s", r.stored(t).Active, wire(t, answer))
	}
}

// overdue lets a run's first Map take too long: of its six calls one completed,
// one is unknown, one was not sent, one was refused, one hung without a record
// and one waits for an approval; a seventh was never issued.
func overdue(t *testing.T, r *rig) (input string, late []byte) {
	t.Helper()
	now := r.clocked()
	input = limited(script("pause", []string{"issue_credit", "lose_answer", "not_sent", "refuse", "hang", "reserve", "issue_credit"}, []string{"issue_credit"}), time.Hour)
	outcomes := r.callTools(t, r.plan(t, request(input, nil, 0, "e1")))
	*now = now.Add(2 * time.Hour)
	return input, request(input, outcomes, 0, "e1")
}

const (
	closedUnseen = "This call certainly did not take effect: nothing ran, and nothing can run any more."
	awaits       = "This call has not run. It waits for a person's approval. Do not repeat it."
)

// Proves: R121, R123
func TestPastTheDeadlineNothingMoreRunsAndTheModelIsToldTheTruth(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	asked := 0
	models := r.planner.ModelFor
	r.planner.ModelFor = func(in runs.Input) (Model, error) { asked++; return models(in) }
	input, late := overdue(t, r)
	answer := r.plan(t, late)
	if answer.Next != Fail || answer.Failure.Error != "Onceward.DeadlineExceeded" || !strings.Contains(answer.Failure.Cause, "2h0m0s, its waits not counted; its limit is 1h0m0s") {
		t.Fatalf("the run ends with %s", wire(t, answer))
	}
	turns, err := r.runs.Turns(t.Context(), theRun, 1, 0)
	if err != nil || len(turns) != 1 {
		t.Fatalf("%d turns, %v; want no other asked of the model", len(turns), err)
	}
	var told []string
	for _, h := range turns[0].Heard {
		told = append(told, h.Status+": "+h.Says)
	}
	want := []string{"completed: " + happened, "unresolved: " + unknown, "failed: " + notSent, "refused: " + refusal, "failed: " + closedUnseen, "unresolved: " + awaits, "failed: " + closedUnseen}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	for _, call := range turns[0].Calls {
		rec, err := r.ledger.Load(t.Context(), theRun.Call(call.ID))
		if err != nil || !rec.Exists() {
			t.Fatalf("%s: %+v, %v; want each told call on record", call.ID, rec, err)
		}
		if _, err := rec.Start(stamp(), ledger.Call{Key: rec.Key}, ledger.Executor{Token: "late", Attempt: rec.Attempt.Number + 1}); !errors.Is(err, ledger.ErrNotAllowed) {
			t.Errorf("%s may start from %s", call.ID, rec.State())
		}
	}
	if diff := cmp.Diff(map[string]int{"toolu_01": 1, "toolu_02": 1}, r.effects); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	for _, again := range [][]byte{late, request(input, nil, 0, "e1")} {
		if got := r.plan(t, again); wire(t, got) != wire(t, answer) {
			t.Errorf("asked again: %s", wire(t, got))
		}
	}
	if run := r.stored(t); run.Status != runs.Failed || run.Failure != *answer.Failure {
		t.Errorf("the run is %+v", run)
	}
}

// Proves: R41, R145
func TestRunPastItsDeadlineEndsTheSameWhicheverWriteIsLost(t *testing.T) {
	t.Parallel()
	calm := newRig(t)
	_, late := overdue(t, calm)
	want := wire(t, calm.plan(t, late))
	lose := map[string]func(r *rig, persisted bool){
		"hear": func(r *rig, persisted bool) { r.runs.Lose(memruns.Hear, 1, persisted) },
		"end":  func(r *rig, persisted bool) { r.runs.Lose(memruns.Save, 1, persisted) },
	}
	for nth := 1; nth <= 4; nth++ { // not_sent, refuse, hang and the one that was never issued
		lose[fmt.Sprint("close ", nth)] = func(r *rig, persisted bool) {
			r.ledger.Arm(memledger.Fault{Op: memledger.Apply, Event: ledger.Close, Nth: nth, Persist: persisted})
		}
	}
	for name, arm := range lose {
		for _, persisted := range []bool{true, false} {
			r := newRig(t)
			_, late := overdue(t, r)
			arm(r, persisted)
			if got := wire(t, r.plan(t, late)); got != want || r.errors != 1 {
				t.Errorf("%s, persisted %v: after %d errors %s", name, persisted, r.errors, got)
			}
			if diff := cmp.Diff(calm.effects, r.effects); diff != "" {
				t.Errorf("%s, persisted %v: effects (-want +got):\n%s", name, persisted, diff)
			}
		}
	}
}

func TestDeadlineOfARunWhoseTurnsCallNothingIsItsNumberOfTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.clocked()
	var turns [][]string
	for range 20 {
		turns = append(turns, []string{"nothing"})
	}
	if answer := r.plan(t, request(limited(script("", turns...), time.Second), nil, 0, "e1")); answer.Next != Succeed || r.stored(t).Active != 0 {
		t.Errorf("the run ends with %s", wire(t, answer))
	}
}

func TestWaitThatCannotBeReadIsCountedAsWorkAndAnUnreachableLedgerAsNothing(t *testing.T) {
	t.Parallel()
	for err, fails := range map[error]bool{ledger.ErrCorrupt: false, errors.New("throttled"): true} {
		r := newRig(t)
		now := r.clocked()
		r.rounds = 1
		input := script("", []string{"issue_credit"})
		outcomes := r.callTools(t, r.plan(t, request(input, nil, 0, "e1")))
		r.planner.Ledger = deaf{r.ledger, err}
		*now = now.Add(time.Hour)
		before := len(r.runs.Writes())
		answer, got := r.planner.Handle(t.Context(), request(input, outcomes, 0, "e1"))
		if (got != nil) != fails || fails && len(r.runs.Writes()) != before || !fails && (answer.Next != Succeed || r.stored(t).Active != time.Hour) {
			t.Errorf("%v: %s, %v", err, wire(t, answer), got)
		}
	}
}

// deaf can't read waits.
type deaf struct {
	Ledger
	err error
}

func (d deaf) Waits(context.Context, ledger.Key) ([]ledger.Wait, error) { return nil, d.err }

func TestLimitOfARunIsThatOfItsInputHoweverItWasBegun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	input := limited(script("", []string{"issue_credit"}), time.Minute)
	r.plan(t, request(input, nil, 0, "e1"))
	if run := r.stored(t); run.ActiveLimit != time.Minute || !json.Valid(run.Input) {
		t.Errorf("the run is %+v", run)
	}
}
