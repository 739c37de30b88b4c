package runs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

func TestInputIsReadWhole(t *testing.T) {
	t.Parallel()
	got, err := runs.ParseInput([]byte(`{"run_id": "run-7Q", "tenant": "acme", "agent": "billing-assistant",
		"principal": {"subject": "user-1", "permissions": ["credits:write"]}, "tool_policy": {"on_indeterminate": "tell"},
		"script": {"turns": [{"says": "hm", "calls": [{"id": "", "tool": "find_order", "arguments": {"n": 9007199254740993}}]}], "answer": "ok"}}`))
	want := runs.Input{
		ID: runs.ID{Tenant: "acme", Run: "run-7Q"}, Agent: "billing-assistant", Subject: "user-1", Permissions: []string{"credits:write"}, Policy: ledger.Tell, ActiveLimit: 24 * time.Hour,
		Script: &runs.Script{Turns: []runs.Proposal{{Says: "hm", Calls: []runs.ProposedCall{{Tool: "find_order", Arguments: `{"n": 9007199254740993}`}}}}, Answer: "ok"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("input: %v (-want +got):\n%s", err, diff)
	}
}

func TestRunIsAtWorkForADayUnlessItsInputSaysOtherwise(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]time.Duration{
		`{"run_id": "a"}`:                                        24 * time.Hour,
		`{"run_id": "a", "limits": {}}`:                          24 * time.Hour,
		`{"run_id": "a", "limits": {"active_seconds": 1}}`:       time.Second,
		`{"run_id": "a", "limits": {"active_seconds": 2592000}}`: 30 * 24 * time.Hour,
	} {
		if in, err := runs.ParseInput([]byte(input)); err != nil || in.ActiveLimit != want {
			t.Errorf("%s: %s, %v; want %s", input, in.ActiveLimit, err, want)
		}
	}
}

func TestEveryWrongFieldOfAnInputIsNamed(t *testing.T) {
	t.Parallel()
	for input, want := range map[string][]string{
		``:                 {"document: want an object", "run_id: want 1 to 60"},
		`null`:             {"document: want an object"},
		`[]`:               {"document: want an object"},
		`{"run_id": "a"`:   {"document: is not JSON"},
		`{"run_id":"a"} x`: {"document: more than one JSON value"},
		`{}`:               {"run_id: want 1 to 60"},
		`{"run_id": "a/b", "tenant": "` + strings.Repeat("t", 41) + `", "Agent": 1, "agent": 1}`: {"run_id", "tenant", "Agent: unknown field", "agent: want a string"},
		`{"run_id": "a", "run_id": "b"}`: {"run_id: given twice"},
		`{"run_id": "a", "principal": {"subject": null, "permissions": "x", "role": 1}}`:                                   {"principal.subject: want a string", "principal.permissions: want a list", "principal.role: unknown field"},
		`{"run_id": "a", "principal": {"subject": "` + strings.Repeat("s", 257) + `"}}`:                                    {"principal.subject: 257 bytes"},
		`{"run_id": "a", "tool_policy": {"on_indeterminate": "retry"}}`:                                                    {"tool_policy.on_indeterminate: want pause, tell or fail"},
		`{"run_id": "a", "script": {"turns": [{"calls": []}, {"calls": [{"id": 1, "args": {}}]}], "answer": 3}}`:           {"script.turns[0].calls: want at least one call", "script.turns[1].calls[0].id", "calls[0].args: unknown field", "calls[0].tool: missing", "calls[0].arguments: want an object", "script.answer"},
		`{"run_id": "a", "script": {"turns": [{"calls": [{"tool": "t", "arguments": "{}"}]}]}}`:                            {"arguments: want an object"},
		`{"run_id": "a", "principal": {"permissions": [` + strings.Repeat(`"p",`, 64) + `"p"]}}`:                           {"principal.permissions: 65 entries"},
		`{"run_id": "a", "principal": {"permissions": [` + strings.Repeat(`"`+strings.Repeat("<", 60)+`",`, 20) + `"p"]}}`: {"principal: 7"},
		`{"run_id": "a", "limits": {"active_seconds": 0, "turns": 1}}`:                                                     {"limits.active_seconds: want a whole number from 1 to 2592000", "limits.turns: unknown field"},
		`{"run_id": "a", "limits": {"active_seconds": 2592001}}`:                                                           {"limits.active_seconds: want"},
		`{"run_id": "a", "limits": {"active_seconds": 1.5}}`:                                                               {"limits.active_seconds: want"},
		`{"run_id": "a", "limits": {"active_seconds": null}}`:                                                              {"limits.active_seconds: want"},
		`{"run_id": "a", "limits": 60}`:                                                                                    {"limits: want an object"},
		`{"run_id": "a", "agent": "` + strings.Repeat("x", 200<<10) + `"}`:                                                 {"document: 204828 bytes: at most 204800", "agent: 204800 bytes"},
	} {
		_, err := runs.ParseInput([]byte(input))
		if !errors.Is(err, runs.ErrBadInput) {
			t.Errorf("%.80s: err = %v, want ErrBadInput", input, err)
		}
		for _, part := range want {
			if !strings.Contains(fmt.Sprint(err), part) {
				t.Errorf("%.80s: %v does not name %q", input, err, part)
			}
		}
	}
}

func TestMessageOfAWrongInputDoesNotRepeatIt(t *testing.T) {
	t.Parallel()
	_, err := runs.ParseInput([]byte(`{"run_id": "canary value", "agent": ["canary value"], "script": {"turns": [{"calls": [{"tool": "t", "arguments": ["canary value"]}]}]}}`))
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("err = %v", err)
	}
}

func TestDirectoryOfToolsIsReadStrictly(t *testing.T) {
	t.Parallel()
	tools, err := runs.ParseTools(`{"find_order": {"function": "b", "class": "read"}, "issue_credit": {"function": "a", "class": "external"}}`)
	if err != nil || !tools.Has("find_order") || tools.Has("other") || tools["issue_credit"].Class != runs.External {
		t.Errorf("tools = %v, %v", tools, err)
	}
	for text, want := range map[string][]string{
		``:                    {"document: want an object"},
		`{}`:                  {"names no tool"},
		`{"find_order": "f"}`: {"find_order: want an object", "find_order.function: missing", "find_order.class: want read"},
		`{"a": {"function": "f", "class": "safe", "x": 1}, "b": {"class": "read"}}`:           {"a.x: unknown field", "a.class: want read, write", "b.function: missing"},
		`{"a": {"function": "f", "class": "read"}, "a": {"function": "g", "class": "write"}}`: {"a: given twice"},
		`{"a": {"function": "f", "class": "read", "class": "write"}}`:                         {"a.class: given twice"},
		`{"": {"function": "f", "class": "read"}}`:                                            {"name of 0 bytes"},
	} {
		_, err := runs.ParseTools(text)
		if !errors.Is(err, runs.ErrTools) {
			t.Errorf("%s: err = %v, want ErrTools", text, err)
		}
		for _, part := range want {
			if !strings.Contains(fmt.Sprint(err), part) {
				t.Errorf("%s: %v does not name %q", text, err, part)
			}
		}
	}
}
