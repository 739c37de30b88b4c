package statemachines_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/middleware/once"
	"github.com/onceward/onceward/statemachines"
)

// The numbers that the planner adds up are the ones that a history shows.
func TestRunnerMeasuresTheHistoryCosts(t *testing.T) {
	t.Parallel()
	length := func(text string) int {
		told := play(t, story{definition: agentRun(t), input: "{}", text: text})
		if told.end.Status != "SUCCEEDED" {
			t.Fatalf("%s: %+v", text, told.end)
		}
		return told.events
	}
	none := length("planner: succeed")
	one := length("planner: call a\ntool a invoke: done completed\nplanner: succeed")
	two := length("planner: call a b\ntool a invoke: done completed\ntool b invoke: done completed\nplanner: succeed")
	again := length("planner: call a\ntool a invoke: again\ntool a invoke: done completed\nplanner: succeed")
	park := length("planner: call a\ntool a invoke: park\ndesk a park: rings after 1h\ntool a invoke: done completed\nplanner: succeed")
	got := map[string]int{"turn": one - none - (two - one), "call": two - one, "round": again - one, "park": park - one}
	want := map[string]int{
		"turn": statemachines.HistoryPerTurn, "call": statemachines.HistoryPerCall,
		"round": statemachines.HistoryPerRound, "park": statemachines.HistoryPerPark,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

var jsonBlock = regexp.MustCompile("(?s)```json\n(.*?)```")

// examples returns the JSON of README.md: the planner's request, its answers,
// and a tool's request.
func examples(t *testing.T) []map[string]any {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	for _, m := range jsonBlock.FindAllSubmatch(text, -1) {
		var o map[string]any
		if err := json.Unmarshal(m[1], &o); err != nil {
			t.Fatalf("%v in %s", err, m[1])
		}
		out = append(out, o)
	}
	return out
}

func TestEveryAnswerInTheContractIsUnderstood(t *testing.T) {
	t.Parallel()
	arrives := map[string]string{
		"call_tools": "CallTools", "succeed": "RunSucceeded", "fail": "RunFailed", "stand_down": "StoodDown", "hand_over": "HandOver",
	}
	for _, answer := range examples(t) {
		next, ok := answer["next"].(string)
		if !ok {
			continue
		}
		t.Run(next, func(t *testing.T) {
			t.Parallel()
			script := "planner: raw " + string(encode(answer))
			if next == "call_tools" {
				script += "\nonceward-dev-billing-tools toolu_01 invoke: done completed\nplanner: succeed"
			}
			told := play(t, story{definition: agentRun(t), input: "{}", text: script}).ways
			way := strings.Fields(told[0])
			if next == "call_tools" {
				if !slices.Contains(told, "  toolu_01: Ask > Answer > CallDone") {
					t.Errorf("the calls were not made: %q", told)
				}
			} else if !slices.ContainsFunc(way, func(state string) bool { return strings.HasPrefix(state, arrives[next]) }) {
				t.Errorf("%s was not reached: %q", arrives[next], told)
			}
		})
	}
}

// fields lists the names in v with their places; what the example leaves open
// ("…", or an empty object) has none.
func fields(at string, v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if k != "…" {
				out = append(append(out, at+"."+k), fields(at+"."+k, v[k])...)
			}
		}
	case []any:
		for _, e := range v {
			out = append(out, fields(at+"[]", e)...)
		}
	}
	return out
}

// everyMode plays a story in which each mode is asked for once at least, and
// returns the last request of each.
func everyMode(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	return play(t, story{definition: agentRun(t), input: `{"run_id":"run-1"}`, text: `planner: call c1
tool c1 invoke: error Lambda.ServiceException
desk c1 inspect: look
tool c1 reconcile: park
desk c1 park: rings after 1h
tool c1 invoke: done completed
planner: succeed`}).sent
}

// What the machine sends is read by the guard's own strict decoder, with nothing
// lost on the way: not an id, not a digit of the arguments.
//
// Proves: R3
func TestToolAndDeskAreSentEnvelopesThatTheGuardReads(t *testing.T) {
	t.Parallel()
	sent := everyMode(t)
	for _, mode := range []once.Mode{once.ModeInvoke, once.ModeReconcile, once.ModeInspect, once.ModePark} {
		got, err := once.DecodeEnvelope(sent[string(mode)])
		if err != nil {
			t.Errorf("%s: %v", mode, err)
			continue
		}
		if got.Token != "" != (mode == once.ModePark) || got.From.EnteredAt.IsZero() || got.From.Execution == "" {
			t.Errorf("%s: token %t, from %+v", mode, got.Token != "", got.From)
		}
		want := once.Envelope{
			Onceward: 1, Mode: mode, Reply: once.ReplyBrief, Tenant: "acme",
			Run:       once.RunPart{ID: "run-1", StartedAt: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC), Agent: "billing-assistant"},
			Call:      once.CallPart{ID: "c1", Tool: "issue_credit", Turn: 1, Attempt: 1, ArgumentsJSON: smallArguments},
			Principal: once.PrincipalPart{Subject: "user-1", Permissions: []string{"credits:write"}},
			Policy:    once.PolicyPart{OnIndeterminate: "pause"},
			From:      got.From, Token: got.Token,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +sent):\n%s", mode, diff)
		}
	}
}

func TestRequestsHaveTheFieldsOfTheContract(t *testing.T) {
	t.Parallel()
	sent := everyMode(t)
	open := []string{".input", ".run", ".call", ".principal", ".policy"}
	shape := func(v map[string]any) []string {
		for _, k := range open {
			if _, ok := v[k[1:]]; ok {
				v[k[1:]] = nil
			}
		}
		return fields("", v)
	}
	decode := func(mode string) map[string]any {
		var v map[string]any
		if err := json.Unmarshal(sent[mode], &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	compared := 0
	for _, example := range examples(t) {
		mode, _ := example["mode"].(string)
		if mode == "" {
			continue
		}
		compared++
		if diff := cmp.Diff(shape(example), shape(decode(mode))); diff != "" {
			t.Errorf("%s (-contract +sent):\n%s", mode, diff)
		}
	}
	park := decode("park")
	if token, _ := park["token"].(string); token == "" {
		t.Error("park carries no token")
	}
	delete(park, "token")
	if diff := cmp.Diff(shape(decode("invoke")), shape(park)); diff != "" {
		t.Errorf("park (-invoke +park):\n%s", diff)
	}
	if compared != 2 {
		t.Errorf("the contract shows %d requests, want 2", compared)
	}
}
