package runs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/runs"
)

// converse is an input whose script is a model's own answers.
func converse(answers ...string) []byte {
	return fmt.Appendf(nil, `{"run_id": "run-1", "script": {"converse": [%s]}}`, strings.Join(answers, ","))
}

// As a service has been seen to answer: with what a script has no use for.
const converseAnswer = `{"$metadata": {"httpStatusCode": 200}, "metrics": {"latencyMs": 1200}, "usage": {"inputTokens": 30, "outputTokens": 20},
	"output": {"message": {"role": "assistant", "content": [
		{"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
		{"text": "I will look."}, {"text": "And credit."},
		{"toolUse": {"toolUseId": "tooluse_1", "name": "find_order", "input": {"n": 9007199254740993}}},
		{"toolUse": {"name": "issue_credit", "input": {}, "type": "server"}},
		{"toolUse": {"toolUseId": 7, "name": "issue_credit", "input": {}}},
		{"toolUse": {"toolUseId": null, "name": "issue_credit", "input": {}}}]}},
	"stopReason": "tool_use"}`

func TestModelsOwnAnswersAreReadAsTurns(t *testing.T) {
	t.Parallel()
	last := `{"output": {"message": {"role": "assistant", "content": [{"text": "Done."}]}}, "stopReason": "end_turn"}`
	turn := runs.Proposal{Says: "I will look.\nAnd credit.", Calls: []runs.ProposedCall{
		{ID: "tooluse_1", Tool: "find_order", Arguments: `{"n": 9007199254740993}`},
		{Tool: "issue_credit", Arguments: "{}"},
		{Tool: "issue_credit", Arguments: "{}"},
		{Tool: "issue_credit", Arguments: "{}"},
	}}
	for name, c := range map[string]struct {
		answers []string
		want    runs.Script
	}{
		"with last words":    {[]string{converseAnswer, last}, runs.Script{Turns: []runs.Proposal{turn}, Answer: "Done."}},
		"without last words": {[]string{converseAnswer, converseAnswer}, runs.Script{Turns: []runs.Proposal{turn, turn}}},
		"nothing but words":  {[]string{last}, runs.Script{Answer: "Done."}},
		"nothing":            {nil, runs.Script{}},
		"an empty answer":    {[]string{`{"output": {"message": {"content": []}}, "stopReason": "max_tokens"}`}, runs.Script{}},
	} {
		in, err := runs.ParseInput(converse(c.answers...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, *in.Script); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestModelsAnswerThatCannotBePlayedIsNamed(t *testing.T) {
	t.Parallel()
	use := func(stop, uses string) string {
		return fmt.Sprintf(`{"output": {"message": {"content": [%s]}}, "stopReason": %s}`, uses, stop)
	}
	const good = `{"toolUse": {"toolUseId": "a", "name": "t", "input": {}}}`
	words := func(n int) string { return fmt.Sprintf(`{"text": %q}`, strings.Repeat("w", n)) }
	for answers, want := range map[string]string{
		`7`:                  "script.converse[0]: want an object",
		`{}`:                 "script.converse[0].output: want an object",
		`{"output": {}}`:     "script.converse[0].output.message: want an object",
		use(`"x"`, `"text"`): "content[0]: want an object",
		use(`"tool_use"`, `{"toolUse": {"toolUseId": "a", "input": {}}}`):                "content[0].toolUse.name: missing",
		use(`"tool_use"`, `{"toolUse": {"toolUseId": "a", "name": "t"}}`):                "content[0].toolUse.input: want an object",
		use(`"tool_use"`, `{"toolUse": {"toolUseId": "a", "name": "t", "input": "{}"}}`): "content[0].toolUse.input: want an object",
		use(`"tool_use"`, `{"toolUse": []}`):                                             "content[0].toolUse: want an object",
		use(`"max_tokens"`, good):                                                        "script.converse[0].stopReason: want tool_use",
		use(`null`, good):                                                                "script.converse[0].stopReason: want tool_use",
		use(`"end_turn"`, `{"text": "x"}`) + "," + use(`"tool_use"`, good):               "script.converse[0]: uses no tool, and is not the last",
		use(`"end_turn"`, `{"text": 7}`):                                                 "content[0].text: want a string",
		use(`"end_turn"`, words(25<<10)):                                                 "script.converse[0]: words of 25600 bytes",
		use(`"end_turn"`, words(1)) + `], "answer": "x", "converse": [`:                  "script.converse: given twice",
		use(`"end_turn"`, words(1)) + `], "answer": "x", "x": [`:                         "script.converse: stands instead of turns and answer",
	} {
		_, err := runs.ParseInput(converse(answers))
		if !errors.Is(err, runs.ErrBadInput) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%.120s: err = %v, want it to name %q", answers, err, want)
		}
	}
}
