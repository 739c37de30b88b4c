package systemtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/faults"
)

// adversarial are the ids that a model gives its tool uses, answer by answer, as
// JSON; "" is a tool use without one.
var adversarial = [][]string{
	{`"call_0"`, `"call_0"`, `"call_0"`, `"call_0"`, `"call_0"`, `"call_0"`, `"call_0"`, `"call_0"`}, // more than one Map holds
	{`"call_0"`, `"call_1"`}, // numbered anew
	{"", "", `""`, `null`},
	{`7`, `{"id": "call_0"}`, `["call_1"]`, `true`},
	{`"a b"`, `"a/b"`, `"a:b"`, `"a#b"`, `"é"`, `"\u0000"`},
	{`"~t1-0"`, `"~t6-1"`, `"call_0~undo1"`, `"` + strings.Repeat("x", 129) + `"`},
	{`"call_1"`, `"RUN"`, `"TURN#000001"`, `"` + strings.Repeat("x", 128) + `"`},
	{`"` + strings.Repeat("x", 128) + `"`},
}

// conversedInput is a run whose model has answered so through Bedrock's Converse,
// each tool use a credit of another amount. intents is how many there are.
func conversedInput(run, account string) (input string, intents int) {
	var answers []string
	for _, ids := range adversarial {
		content := []string{`{"text": "And on."}`}
		for _, id := range ids {
			intents++
			if id != "" {
				id = `"toolUseId": ` + id + `, `
			}
			content = append(content, fmt.Sprintf(`{"toolUse": {%s"name": "issue_credit", "input": {"account_id": %q, "amount_cents": %d}}}`, id, account, intents))
		}
		answers = append(answers, fmt.Sprintf(`{"output": {"message": {"role": "assistant", "content": [%s]}}, "stopReason": "tool_use"}`, strings.Join(content, ", ")))
	}
	answers = append(answers, `{"output": {"message": {"role": "assistant", "content": [{"text": "Done."}]}}, "stopReason": "end_turn"}`)
	return fmt.Sprintf(`{"run_id": %q, "principal": {"subject": "customer-1", "permissions": ["credits:write"]}, "script": {"converse": [%s]}}`, run, strings.Join(answers, ", ")), intents
}

// Proves: R3, R6, R11, R14
func TestEachIntentOfAModelPaysOnceWhateverIDsItGives(t *testing.T) {
	t.Parallel()
	tools, planner := system.Names.Function(names.BillingTools), system.Names.Function(names.Planner)
	for name, rules := range map[string][]faults.Rule{
		"no fault":                   nil,
		"answers of tools are lost":  {{Service: faults.Lambda, Function: tools, Nth: 2, Times: 9, Effect: faults.DropAnswer}},
		"answers of plans are lost":  {{Service: faults.Lambda, Function: planner, Nth: 2, Times: 4, Effect: faults.DropAnswer}},
		"planners are killed":        {{Caller: planner, Nth: 12, Times: 3, Effect: faults.KillCallerAfter}},
		"tools are killed in settle": {{Service: faults.DynamoDB, Operation: "UpdateItem", Caller: tools, Nth: 3, Times: 2, Effect: faults.KillCallerAfter}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := ownRun(t)
			for _, rule := range rules {
				rule.Contains = run
				arm(t, rule)
			}
			input, intents := conversedInput(run, run)
			r := &fullRun{id: run}
			r.follow(t, input)
			status, output := endOf(t, r.execution)
			var told struct {
				Answer string `json:"answer"`
				Heard  []struct {
					CallID string `json:"call_id"`
					Status string `json:"status"`
				} `json:"heard"`
			}
			if err := json.Unmarshal([]byte(output), &told); err != nil || status != "SUCCEEDED" || told.Answer != "Done." || len(told.Heard) != intents {
				t.Fatalf("%s, %d heard of %d: %s", status, len(told.Heard), intents, output)
			}
			if len(rules) > 0 && struck(run) == 0 {
				t.Error("no fault struck")
			}
			keys, unpaid := map[string]bool{}, 0
			for _, h := range told.Heard {
				keys[h.CallID] = true
				effects := keyEffects(t, run+":"+h.CallID)
				if want, _ := statusOf(effects); h.Status != want || effects.Credits > 1 {
					t.Errorf("%s: the model hears %s, billing has %d credits", h.CallID, h.Status, effects.Credits)
				}
				if effects.Credits == 0 {
					unpaid++
				}
			}
			// On a machine that is too busy a request may never have left.
			if unpaid > 0 && (unpaid > 2 || len(rules) == 0) {
				t.Errorf("%d of %d intents came to nothing", unpaid, intents)
			}
			paid, err := system.Billing.CreditsByAccount(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			var amounts []int64
			for _, credit := range paid {
				amounts = append(amounts, credit.AmountCents)
			}
			slices.Sort(amounts)
			if len(keys) != intents || len(amounts) != intents-unpaid || len(slices.Compact(amounts)) != intents-unpaid {
				t.Errorf("%d intents, %d keys, paid %v", intents, len(keys), amounts)
			}
		})
	}
}
