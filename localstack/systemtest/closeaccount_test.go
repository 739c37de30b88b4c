package systemtest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/localstack/billing"
)

// What can't be undone is asked for once, whatever is lost on the way, and nobody
// can have it undone.
// Proves: R45, R63, R92
func TestAccountIsClosedOnceAndItsEndIsTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		fault  billing.Fault
		by     string
		closed int
		heard  string
	}{
		{"it lands", billing.FaultNone, "executor", 1, "completed"},
		{"the answer is lost", billing.FaultLoseAnswer, "hook", 1, "completed"},
		{"an error after the effect", billing.FaultError500After, "hook", 1, "completed"},
		{"refused", billing.FaultRefuse422, "executor", 0, "failed"},
		{"the request is lost", billing.FaultDropRequest, "person", 0, "failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := &fullRun{id: ownRun(t)}
			if c.fault != billing.FaultNone {
				if _, err := system.Billing.Arm(t.Context(), billing.Rule{KeyContains: r.id, Operation: billing.OpClose, Fault: c.fault}); err != nil {
					t.Fatal(err)
				}
			}
			r.follow(t, encodeString(t, map[string]any{
				"run_id": r.id, "principal": map[string]any{"subject": "customer-1", "permissions": []string{"accounts:close"}},
				"script": map[string]any{"answer": "Done.", "turns": []any{map[string]any{"calls": []any{
					map[string]any{"id": "call_1", "tool": "close_account", "arguments": map[string]any{"account_id": r.id}},
				}}}},
			}))
			status, output := endOf(t, r.execution)
			if status != "SUCCEEDED" || !strings.Contains(output, heardWords[c.heard]) {
				t.Errorf("%s: %s", status, output)
			}
			closures, err := system.Billing.ClosuresByKey(t.Context(), r.key("call_1"))
			if err != nil || len(closures) != c.closed {
				t.Errorf("%v, %v; want %d", closures, err, c.closed)
			}
			s, effects := show(t, r.id), keyEffects(t, r.id)
			if s.SettledBy.Kind != c.by || s.Status != c.heard || effects.Sends != 1 {
				t.Errorf("%+v after %d requests", s, effects.Sends)
			}
			if status, text := operator(t, "dev::ada", http.MethodPost, callPath(r.id, "compensate"), undoBody(r.id, s.Version)); status != http.StatusConflict || show(t, r.id).Version != s.Version {
				t.Errorf("an undo of it is answered %d: %s", status, text)
			}
		})
	}
}
