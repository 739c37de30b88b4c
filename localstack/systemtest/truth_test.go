package systemtest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/onceward/onceward/localstack/billing"
)

// keyEffects counts in billing's own database what took effect under a key.
func keyEffects(t *testing.T, key string) billing.Effects {
	t.Helper()
	effects, err := system.Billing.KeyEffects(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return effects
}

// statusOf is the only settled status that is true of these effects, and its
// word for the effect.
func statusOf(e billing.Effects) (status, effect string) {
	switch {
	case e.Voids > 0:
		return "compensated", "undone"
	case e.Credits > 0:
		return "completed", "happened"
	}
	return "failed", "none"
}

// agrees fails if somebody was told of a call what billing denies. That nobody
// knows is always true.
func agrees(t *testing.T, who, status, effect string, e billing.Effects) {
	t.Helper()
	switch status {
	case "completed", "failed", "compensated":
	default:
		if effect != "unknown" && (effect != "none" || e.Credits > 0) {
			t.Errorf("%s: %s, effect %s; billing has %d credits, %d voids", who, status, effect, e.Credits, e.Voids)
		}
		return
	}
	if wantStatus, wantEffect := statusOf(e); status != wantStatus || effect != wantEffect {
		t.Errorf("%s: %s, effect %s; billing has %d credits, %d voids", who, status, effect, e.Credits, e.Voids)
	}
}

// heardWords are how the model is told of an effect.
var heardWords = map[string]string{
	"completed": "This call took effect.", "failed": "This call certainly did not take effect", "compensated": "was undone",
}

// holds checks, at the end of the run, what was told to the model and what the
// operator's API says against billing's own database.
func (r *fullRun) holds(t *testing.T) {
	t.Helper()
	ended, err := machines().DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &r.execution})
	if err != nil {
		t.Fatal(err)
	}
	var told struct {
		Answer string `json:"answer"`
		Heard  []struct {
			CallID string `json:"call_id"`
			Status string `json:"status"`
			Says   string `json:"says"`
		} `json:"heard"`
	}
	output := aws.ToString(ended.Output)
	if err := json.Unmarshal([]byte(output), &told); err != nil || ended.Status != "SUCCEEDED" || told.Answer != "Done." || len(told.Heard) != 4 {
		t.Fatalf("%s: %s %s %s", ended.Status, output, aws.ToString(ended.Error), aws.ToString(ended.Cause))
	}
	page := r.page(t)
	if page.Status != "succeeded" || len(page.WaitingOn) != 0 || len(page.Turns) != 3 {
		t.Errorf("the operator's API says of the run: %+v", page)
	}
	heard := map[string]string{}
	for _, h := range told.Heard {
		heard[h.CallID] = h.Status
		if strings.HasPrefix(h.CallID, "call_") && (h.CallID == "call_0" || h.CallID == "call_2") {
			if h.Status != "completed" {
				t.Errorf("the model hears of the read %s: %s %q", h.CallID, h.Status, h.Says)
			}
			continue
		}
		want, _ := statusOf(keyEffects(t, r.key(h.CallID)))
		if h.Status != want || !strings.Contains(h.Says, heardWords[want]) {
			t.Errorf("the model hears of %s: %s %q; it is %s", h.CallID, h.Status, h.Says, want)
		}
	}
	for _, turn := range page.Turns {
		for _, call := range turn.Calls {
			if call.Heard != heard[call.ID] || call.Status != call.Heard || !turn.Closed {
				t.Errorf("the run's page says of %s: %+v; the model heard %q", call.ID, call, heard[call.ID])
			}
		}
	}
	r.recorded(t)
}

// recorded checks each credit's record, and that nothing else was recorded.
func (r *fullRun) recorded(t *testing.T) {
	t.Helper()
	for _, id := range credited {
		key := r.key(id)
		effects, s := keyEffects(t, key), showKey(t, key)
		agrees(t, "the record of "+key, s.Status, s.Effect, effects)
		if effects.Credits > 1 || effects.Voids > 0 || s.Attempt > 1 {
			t.Errorf("%s: %d credits, %d voids, attempt %d", key, effects.Credits, effects.Voids, s.Attempt)
		}
		if person := s.SettledBy.Kind == "person"; person != (len(s.Decisions) == 1) {
			t.Errorf("%s is settled by %s, decisions %+v", key, s.SettledBy.Kind, s.Decisions)
		}
	}
	items := itemsOf(t, r.id)
	if len(items["RUN"]) != 1 || len(items["TURN"]) != 3 || len(items["CALL"]) != 4 {
		t.Errorf("the run's partition holds %v", items)
	}
	if inList(t, `"`+r.id+`:`, "") {
		t.Errorf("%s is in the list of what needs somebody", r.id)
	}
}
