package runs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/statemachines"
)

func argumentsOf(encoded int) string {
	// {"a":"…"} as a JSON string: its four quotes cost two bytes each, and the
	// string has two of its own.
	return fmt.Sprintf(`{"a":"%s"}`, strings.Repeat("x", encoded-len(`"{\"a\":\"\"}"`)))
}

func TestTurnOverALimitIsRefusedByName(t *testing.T) {
	t.Parallel()
	call := func(arguments string) runs.Call {
		return runs.Call{ID: "a", Tool: "issue_credit", Arguments: arguments}
	}
	most := call(argumentsOf(statemachines.MaxArgumentsBytes))
	for name, c := range map[string]struct {
		turn runs.Turn
		want string
	}{
		"arguments at the limit":       {runs.Turn{Calls: []runs.Call{most, most, most, most}}, ""},
		"one call's arguments":         {runs.Turn{Calls: []runs.Call{call(argumentsOf(statemachines.MaxArgumentsBytes + 1))}}, "calls[0]: arguments of 49153 bytes"},
		"quotes count twice":           {runs.Turn{Calls: []runs.Call{call(`{"a":[` + strings.Repeat(`"",`, 10_000) + `0]}`)}}, "calls[0]: arguments of"},
		"a turn's arguments":           {runs.Turn{Calls: []runs.Call{most, most, most, most, most}}, "arguments of 245760 bytes in all"},
		"no object":                    {runs.Turn{Calls: []runs.Call{call(`[]`)}}, "not a JSON object"},
		"no JSON":                      {runs.Turn{Calls: []runs.Call{call(`{"a":`)}}, "not a JSON object"},
		"no arguments":                 {runs.Turn{Calls: []runs.Call{call(``)}}, "not a JSON object"},
		"too many calls":               {runs.Turn{Calls: make([]runs.Call, runs.MaxCalls+1)}, "65 calls"},
		"a tool's name":                {runs.Turn{Calls: []runs.Call{{Tool: strings.Repeat("t", runs.MaxTool+1), Arguments: "{}"}}}, "tool's name of 129 bytes"},
		"the model's words":            {runs.Turn{Says: strings.Repeat("w", runs.MaxSays)}, "words of"},
		"turns without end":            {runs.Turn{Number: runs.MaxTurns + 1}, "at most 5000 turns"},
		"every limit is named at once": {runs.Turn{Says: strings.Repeat("w", runs.MaxSays), Calls: []runs.Call{{Arguments: "x"}}}, "words of 49154 bytes: at most 49152; calls[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := runs.CheckTurn(c.turn)
			if c.want == "" {
				if err != nil {
					t.Errorf("err = %v, want none", err)
				}
				return
			}
			if !errors.Is(err, runs.ErrTurnRefused) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("err = %v, want ErrTurnRefused with %q", err, c.want)
			}
		})
	}
}

func TestMapsTakeReadsBeforeWritesAndFitTheAnswer(t *testing.T) {
	t.Parallel()
	tools := runs.Tools{"find_order": {Function: "f", Class: runs.Read}, "issue_credit": {Function: "f", Class: runs.External}}
	rapid.Check(t, func(t *rapid.T) {
		var turn runs.Turn
		open := []int{}
		for i := range rapid.IntRange(1, runs.MaxCalls).Draw(t, "calls") {
			tool := rapid.SampledFrom([]string{"find_order", "issue_credit"}).Draw(t, "tool")
			size := rapid.SampledFrom([]int{20, 3000, statemachines.MaxArgumentsBytes}).Draw(t, "size")
			turn.Calls = append(turn.Calls, runs.Call{Tool: tool, Arguments: argumentsOf(size)})
			open = append(open, i)
		}
		var order []int
		for len(open) > 0 {
			batch := runs.NextBatch(turn, open, tools)
			if len(batch) == 0 || len(batch) > statemachines.MaxCalls {
				t.Fatalf("a Map of %d calls", len(batch))
			}
			size, class := 0, tools[turn.Calls[batch[0]].Tool].Class
			for _, i := range batch {
				if tools[turn.Calls[i].Tool].Class != class {
					t.Fatal("reads and writes in one Map")
				}
				quoted, _ := json.Marshal(turn.Calls[i].Arguments)
				size += len(quoted)
			}
			if size > statemachines.MaxAnswerBytes-64<<10 {
				t.Fatalf("arguments of %d bytes in one Map", size)
			}
			if at := runs.Concurrency(turn, batch, tools); class != runs.Read && at != 1 || class == runs.Read && at != len(batch) {
				t.Fatalf("%d %s calls, %d at once", len(batch), class, at)
			}
			order = append(order, batch...)
			open = open[:0]
			for i := range turn.Calls {
				if !slices.Contains(order, i) {
					open = append(open, i)
				}
			}
		}
		for n := 1; n < len(order); n++ {
			before, after := turn.Calls[order[n-1]].Tool, turn.Calls[order[n]].Tool
			if before == "issue_credit" && after == "find_order" || before == after && order[n-1] > order[n] {
				t.Fatalf("order %v of %v", order, turn.Calls)
			}
		}
	})
}
