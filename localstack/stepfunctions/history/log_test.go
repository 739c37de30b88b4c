package history

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPagesHoldEachEventOnceInEitherOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		count, limit, reverse := rapid.IntRange(1, 40).Draw(t, "count"), rapid.IntRange(1, 12).Draw(t, "limit"), rapid.Bool().Draw(t, "reverse")
		log := logOf(count)
		var ids []int64
		for after, more := int64(0), true; more; {
			var page []Event
			page, more = log.Page(after, limit, reverse)
			for _, e := range page {
				ids = append(ids, e.ID)
			}
			after = page[len(page)-1].ID
		}
		if len(ids) != count {
			t.Fatalf("%d events of %d", len(ids), count)
		}
		for i, id := range ids {
			if want := int64(i + 1); !reverse && id != want || reverse && id != int64(count)-want+1 {
				t.Errorf("event %d has id %d", i, id)
			}
		}
	})
}

// logOf holds count events.
func logOf(count int) *Log {
	log := &Log{}
	for i := range count {
		e := Event{Previous: int64(i), Type: TaskStarted, Details: Begun{}}
		log.Number(time.Unix(int64(i), 0), &e)
		log.Add(e)
	}
	return log
}

func TestTheLastPlaceIsKeptForTheLastEvent(t *testing.T) {
	t.Parallel()
	log := logOf(MaxEvents - 2)
	if !log.Room(1) || log.Room(2) {
		t.Error("with two places free, one is to be had")
	}
	log = logOf(MaxEvents - 1)
	if log.Room(1) {
		t.Error("the last place was given away")
	}
}

func TestEventsOfOneEntryAreNumberedInARow(t *testing.T) {
	t.Parallel()
	log := logOf(3)
	first, second, third := Event{Previous: 2}, Event{Previous: Chain}, Event{Previous: Chain}
	log.Number(time.Unix(9, 0), &first, &second, &third)
	for i, e := range []Event{first, second, third} {
		if want := int64(4 + i); e.ID != want || e.Previous != []int64{2, 4, 5}[i] || !e.At.Equal(time.Unix(9, 0)) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if log.Len() != 3 {
		t.Error("numbering added events")
	}
}

func TestStoredEventComesBackAsItWas(t *testing.T) {
	t.Parallel()
	resource := Resource{ResourceType: "lambda", Resource: "invoke"}
	at := time.Date(2026, 11, 30, 1, 2, 3, 456_789_123, time.UTC)
	for _, e := range []Event{
		{Type: ExecutionStarted, Details: Started{Input: "{}", InputDetails: Whole(), RoleARN: "r"}},
		{Type: ExecutionSucceeded, Details: Succeeded{Output: "1", OutputDetails: Whole()}},
		{Type: ExecutionFailed, Details: Ended{Type: ExecutionFailed, Error: "E", Cause: "c"}},
		{Type: ExecutionTimedOut, Details: Ended{Type: ExecutionTimedOut}},
		{Type: ExecutionRedriven, Details: Redriven{Count: 2}},
		{Type: Entered("Pass"), Details: StateEntered{Name: "P", Input: "<>", InputDetails: Whole()}},
		{Type: Exited("Pass"), Details: StateExited{Name: "P", Output: "9007199254740993", OutputDetails: Whole()}},
		{Type: TaskScheduled, Details: Scheduled{Resource: resource, Region: "r", Parameters: "{}", TimeoutInSeconds: 3}},
		{Type: TaskStarted, Details: Begun{Resource: resource}},
		{Type: TaskSubmitted, Details: Result{Resource: resource, Type: TaskSubmitted, Output: "1"}},
		{Type: TaskTimedOut, Details: Problem{Resource: resource, Type: TaskTimedOut, Error: "States.Timeout"}},
		{Type: MapStateStarted, Details: MapStarted{Length: 3}},
		{Type: MapIterationAborted, Details: Iteration{Type: MapIterationAborted, Name: "M", Index: 1}},
		{Type: MapStateSucceeded},
		{Type: Aborted("Task")},
	} {
		e.ID, e.Previous, e.At = 7, 6, at
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back Event
		if err := json.Unmarshal(text, &back); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(e, back); diff != "" {
			t.Errorf("%s: %s", e.Type, diff)
		}
	}
	for _, unknown := range []string{`{"type":"Strange","details":{}}`, `{"type":"MapStateFailed","details":{}}`, `{"type":"TaskStarted","details":[]}`} {
		if err := json.Unmarshal([]byte(unknown), &Event{}); err == nil {
			t.Errorf("%s was read", unknown)
		}
	}
}

func TestWithoutDataNoInputOrOutputIsSent(t *testing.T) {
	t.Parallel()
	const canary = "canary"
	for _, details := range []Details{
		Started{Input: canary, InputDetails: Whole()},
		Succeeded{Output: canary, OutputDetails: Whole()},
		StateEntered{Input: canary, InputDetails: Whole()},
		StateExited{Output: canary, OutputDetails: Whole()},
		Scheduled{Parameters: canary},
		Result{Type: TaskSubmitted, Output: canary, OutputDetails: Whole()},
	} {
		for _, withData := range []bool{true, false} {
			text, err := json.Marshal(Event{Type: TaskStarted, Details: details}.Wire(withData))
			if err != nil {
				t.Fatal(err)
			}
			if found := json.Valid(text) && strings.Contains(string(text), canary); found != withData {
				t.Errorf("with data %v: %s", withData, text)
			}
		}
	}
}
