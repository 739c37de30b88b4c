package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/internal/runs"
)

// reads counts how often turns are read.
type reads struct {
	runs.Store
	turns atomic.Int64
}

func (s *reads) Turns(ctx context.Context, id runs.ID, from, to int) ([]runs.Turn, error) {
	s.turns.Add(1)
	return s.Store.Turns(ctx, id, from, to)
}

func TestPlanReadsTheRunsTurnsOnceHoweverManyTurnsIssueNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	counted := &reads{Store: r.runs}
	r.planner.Runs = counted
	turns := make([][]string, 300)
	for n := range turns {
		turns[n] = []string{"nothing"}
	}
	answer := r.plan(t, request(script("", turns...), nil, 0, "e1"))
	if answer.Next != Succeed || len(answer.Heard) != 300 {
		t.Fatalf("the run ends with %.300s", wire(t, answer))
	}
	if n := counted.turns.Load(); n != 1 {
		t.Errorf("turns were read %d times, want once", n)
	}
	if again := r.plan(t, request(script("", turns...), nil, 0, "e1")); wire(t, again) != wire(t, answer) {
		t.Errorf("asked again, from the store: %.300s", wire(t, again))
	}
}

// slow is a model that takes its time and asks for a tool that doesn't exist.
type slow struct {
	takes time.Duration
	turns int
}

func (m slow) Next(ctx context.Context, turn int, _ Past) (runs.Proposal, error) {
	select {
	case <-ctx.Done():
		return runs.Proposal{}, ctx.Err()
	case <-time.After(m.takes):
	}
	if turn > m.turns {
		return runs.Proposal{Says: "I give up."}, nil
	}
	return runs.Proposal{Calls: []runs.ProposedCall{{Tool: "nothing", Arguments: "{}"}}}, nil
}

// functionTimeout is what Lambda gives the function.
const functionTimeout = 20 * time.Second

// timed asks as Lambda does, and fails the test if there is no answer in time.
func (r *rig) timed(t *testing.T, payload []byte) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), functionTimeout)
	defer cancel()
	answer, err := r.planner.Handle(ctx, payload)
	if err != nil || ctx.Err() != nil {
		t.Fatalf("the planner had not answered in time: %v", err)
	}
	return answer
}

func TestModelThatKeepsNamingAToolThatDoesNotExistIsGoneOnWithInFreshExecutions(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{700 * time.Millisecond, 3 * time.Second, 11 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.planner.ModelFor = func(runs.Input) (Model, error) { return slow{takes: takes, turns: 60}, nil }
			execution, executions := "e1", 1
			var answer Answer
			for ; executions < 100; executions++ {
				payload := request(plain(), nil, 0, execution)
				answer = r.timed(t, payload)
				if again := r.timed(t, payload); wire(t, again) != wire(t, answer) {
					t.Fatalf("asked again: %.300s", wire(t, again))
				}
				if answer.Next != GoOn {
					break
				}
				execution = answer.HandOver.Name
			}
			if answer.Next != Succeed || len(answer.Heard) != 60 || answer.Answer != "I give up." || executions == 1 {
				t.Errorf("%s a turn: after %d executions the run ends with %.300s", takes, executions, wire(t, answer))
			}
			turns, err := r.runs.Turns(t.Context(), theRun, 1, 0)
			if err != nil || len(turns) != 61 {
				t.Errorf("%d turns, %v; want each asked for once", len(turns), err)
			}
		})
	}
}

// stuck can't expire anything.
type stuck struct{ runs.Store }

func (stuck) Expire(ctx context.Context, _ runs.Run) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestRunEndsInTimeThoughItsTurnsWillNotExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.planner.Runs = stuck{r.runs}
		if answer := r.timed(t, request(script("", []string{"nothing"}), nil, 0, "e1")); answer.Next != Succeed {
			t.Errorf("the run ends with %s", wire(t, answer))
		}
		if !strings.Contains(r.logs.String(), "turns will not expire") {
			t.Errorf("logs do not say so:\n%s", r.logs.String())
		}
	})
}

func TestEndOfARunWithThousandsOfCallsTellsWhatFitsAndCountsTheRest(t *testing.T) {
	t.Parallel()
	var turns []runs.Turn
	const calls = 75 * 64
	for n := range 75 {
		turn := runs.Turn{Number: n + 1}
		for i := range 64 {
			id := fmt.Sprintf("toolu_%030d", n*64+i)
			turn.Calls = append(turn.Calls, runs.Call{ID: id})
			turn.Heard = append(turn.Heard, runs.Heard{CallID: id, Status: "completed", Says: "This call took effect. Result: {\"a\":\"<&>\"}"})
		}
		turns = append(turns, turn)
	}
	turns = append(turns, runs.Turn{Number: 76, Final: true, Says: strings.Repeat("x", runs.MaxSays-2)})
	answer, err := succeeded(runs.Run{ID: "run-1"}, turns)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(wire(t, answer)); n > maxOutput+1<<10 || n < maxOutput-4<<10 {
		t.Errorf("an answer of %d bytes, want just below %d", n, maxOutput)
	}
	told := 0
	for i, h := range answer.Heard {
		if h.CallID != fmt.Sprintf("toolu_%030d", i) {
			t.Fatalf("heard[%d] is of %s: an entry before it is left out", i, h.CallID)
		}
		if h.Says != "" {
			told++
		}
	}
	if told == 0 || told == len(answer.Heard) || answer.HeardCut != calls-told {
		t.Errorf("%d entries, %d with words, %d cut of %d", len(answer.Heard), told, answer.HeardCut, calls)
	}
}

// tired takes long to write down what was heard.
type tired struct{ runs.Store }

func (s tired) Hear(ctx context.Context, id runs.ID, n int, heard []runs.Heard) ([]runs.Heard, error) {
	<-time.After(functionTimeout * 3 / 5)
	return s.Store.Hear(ctx, id, n, heard)
}

func TestRunIsNotHandedOverBeforeItsModelWasAskedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		input := script("", []string{"find_order"}, []string{"issue_credit"})
		outcomes := r.callTools(t, r.plan(t, request(input, nil, 0, "e1")))
		r.planner.Runs = tired{r.runs}
		if answer := r.timed(t, request(input, outcomes, 0, "e1")); answer.Next != CallTools {
			t.Errorf("the planner says %s", wire(t, answer))
		}
	})
}

func TestPlanWithoutTimeLimitGoesOnAsLongAsTheModelDoes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.planner.ModelFor = func(runs.Input) (Model, error) { return slow{turns: 20}, nil }
	if answer := r.plan(t, request(plain(), nil, 0, "e1")); answer.Next != Succeed || len(answer.Heard) != 20 {
		t.Errorf("the run ends with %s", wire(t, answer))
	}
}

func TestTurnThatIsMissingIsAnErrorWheneverItIsReadAndStartsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.planner.Runs = holes{r.runs}
	_, err := r.planner.Handle(t.Context(), request(script("", []string{"find_order"}), nil, 0, "e1"))
	if !errors.Is(err, runs.ErrCorrupt) || len(r.asked) > 0 {
		t.Errorf("err = %v, asked %v", err, r.asked)
	}
}

// holes has lost the first turn.
type holes struct{ runs.Store }

func (holes) Turns(context.Context, runs.ID, int, int) ([]runs.Turn, error) {
	return []runs.Turn{{Number: 2}}, nil
}
