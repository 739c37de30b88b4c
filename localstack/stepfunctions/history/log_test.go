package history

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPagesHoldEachEventOnceInEitherOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		count, limit, reverse := rapid.IntRange(1, 40).Draw(t, "count"), rapid.IntRange(1, 12).Draw(t, "limit"), rapid.Bool().Draw(t, "reverse")
		log := NewLog(time.Now)
		for i := range count {
			log.Append(int64(i), TaskStarted, Begun{})
		}
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

func TestNothingFollowsTheLastEvent(t *testing.T) {
	t.Parallel()
	log := NewLog(time.Now)
	if !log.Seal(0, ExecutionAborted, Ended{Type: ExecutionAborted}) {
		t.Fatal("not sealed")
	}
	if _, ok := log.Append(1, TaskStarted, Begun{}); ok || log.Full() {
		t.Error("an event was added behind the last")
	}
	if log.Seal(1, ExecutionFailed, Ended{Type: ExecutionFailed}) {
		t.Error("sealed twice")
	}
}

func TestTheLastPlaceIsKeptForTheLastEvent(t *testing.T) {
	t.Parallel()
	log := NewLog(time.Now)
	for range MaxEvents - 1 {
		if _, ok := log.Append(0, TaskStarted, Begun{}); !ok {
			t.Fatal("full too early")
		}
	}
	if _, ok := log.Append(0, TaskStarted, Begun{}); ok || !log.Full() {
		t.Error("not full")
	}
	if !log.Seal(0, ExecutionFailed, Ended{Type: ExecutionFailed}) {
		t.Error("no place for the end")
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
