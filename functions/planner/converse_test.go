package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/memruns"
	"github.com/onceward/onceward/middleware/ledger"
)

// conversed is an input whose model answered through Converse, with one credit
// for each id of an answer; an id is JSON, and "" is a tool use without one.
func conversed(answers ...[]string) string {
	var all []string
	n := 0
	for _, ids := range answers {
		content := []string{`{"text": "And on."}`}
		for _, id := range ids {
			n++
			named := ""
			if id != "" {
				named = `"toolUseId": ` + id + `, `
			}
			content = append(content, fmt.Sprintf(`{"toolUse": {%s"name": "issue_credit", "input": {"n": %d}}}`, named, n))
		}
		all = append(all, fmt.Sprintf(`{"output": {"message": {"role": "assistant", "content": [%s]}}, "stopReason": "tool_use", "usage": {"totalTokens": 9}}`, strings.Join(content, ",")))
	}
	all = append(all, `{"output": {"message": {"role": "assistant", "content": [{"text": "Done."}]}}, "stopReason": "end_turn"}`)
	return fmt.Sprintf(`{"run_id": "run-1", "tenant": "acme", "script": {"converse": [%s]}}`, strings.Join(all, ","))
}

// once fails the test unless each of the intents took effect once, under a key of
// its own, and the model heard so of each.
func (r *rig) once(t *testing.T, answer Answer, intents int) {
	t.Helper()
	if answer.Next != Succeed || answer.Answer != "Done." || len(answer.Heard) != intents || len(r.effects) != intents {
		t.Errorf("%d intents, effects %v, the run ends with %s", intents, r.effects, wire(t, answer))
	}
	for call, n := range r.effects {
		if n != 1 || theRun.Call(call).Check() != nil {
			t.Errorf("%q took effect %d times", call, n)
		}
	}
	for _, h := range answer.Heard {
		if h.Status != "completed" || r.effects[h.CallID] != 1 {
			t.Errorf("heard %+v", h)
		}
	}
}

// Proves: R3, R6, R11, R14
func TestEachIntentOfAModelTakesEffectOnceWhateverIDsItGives(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("x", ledger.MaxCallID) + `"`
	for name, c := range map[string]struct {
		answers [][]string
		keys    []string
	}{
		"repeated in one answer":           {[][]string{{`"a"`, `"a"`, `"a"`}}, []string{"a", "~t1-1", "~t1-2"}},
		"restarting in each answer":        {[][]string{{`"call_0"`, `"call_1"`}, {`"call_0"`, `"call_1"`}, {`"call_0"`}}, []string{"call_0", "call_1", "~t2-0", "~t2-1", "~t3-0"}},
		"used two answers before":          {[][]string{{`"a"`}, {`"b"`}, {`"a"`, `"c"`}}, []string{"a", "b", "~t3-0", "c"}},
		"missing":                          {[][]string{{"", ""}, {""}}, []string{"~t1-0", "~t1-1", "~t2-0"}},
		"empty":                            {[][]string{{`""`, `""`}}, []string{"~t1-0", "~t1-1"}},
		"null":                             {[][]string{{`null`}, {`null`}}, []string{"~t1-0", "~t2-0"}},
		"a number":                         {[][]string{{`7`, `7`}, {`9007199254740993`}}, []string{"~t1-0", "~t1-1", "~t2-0"}},
		"an object":                        {[][]string{{`{"id": "a"}`, `["a"]`, `true`}}, []string{"~t1-0", "~t1-1", "~t1-2"}},
		"as long as an id may be":          {[][]string{{long}, {long}}, []string{strings.Trim(long, `"`), "~t2-0"}},
		"longer":                           {[][]string{{`"` + strings.Repeat("x", ledger.MaxCallID+1) + `"`}, {`"` + strings.Repeat("x", 4000) + `"`}}, []string{"~t1-0", "~t2-0"}},
		"not of the alphabet":              {[][]string{{`"é"`, `"呼び出し"`, `"a b"`, `"a/b"`, `"a:b"`, `"a#b"`, `"\u0000"`, `"\ud800"`}}, []string{"~t1-0", "~t1-1", "~t1-2", "~t1-3", "~t1-4", "~t1-5", "~t1-6", "~t1-7"}},
		"one of ours, forged":              {[][]string{{`"a"`, `"~t1-0"`, `"~t2-0"`}, {`"a"`, `"~t1-1"`}}, []string{"a", "~t1-1", "~t1-2", "~t2-0", "~t2-1"}},
		"an undo of another, forged":       {[][]string{{`"x"`, `"x~undo1"`}, {`"x~undo1"`, `"~t1-0~undo1"`}}, []string{"x", "~t1-1", "~t2-0", "~t2-1"}},
		"as an id of the receiver's":       {[][]string{{`"run-1:x"`, `"acme/run-1:x"`}}, []string{"~t1-0", "~t1-1"}},
		"of the other case, and not equal": {[][]string{{`"a"`, `"A"`, `"a."`}}, []string{"a", "A", "a."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			input := conversed(c.answers...)
			if !json.Valid([]byte(input)) {
				t.Fatal("the input is not JSON")
			}
			r.once(t, r.drive(t, input, "e1"), len(c.keys))
			asked := slices.Clone(r.asked)
			if diff := cmp.Diff(c.keys, asked); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}

// Proves: R3, R13, R14, R41
func TestEachIntentTakesEffectOnceThoughWritesAreLostAndTheRunIsHandedOver(t *testing.T) {
	t.Parallel()
	ids := []string{"", `""`, `null`, `7`, `"a"`, `"A"`, `"call_0"`, `"call_1"`, `"~t1-0"`, `"~t2-0"`, `"a~undo1"`, `"é"`, `"a b"`, `"` + strings.Repeat("x", 128) + `"`, `"` + strings.Repeat("x", 129) + `"`}
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		r.rounds = rapid.SampledFrom([]int{0, 25}).Draw(rt, "rounds")
		answers := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom(ids), 1, 7), 1, 6).Draw(rt, "ids")
		intents := len(slices.Concat(answers...))
		for range rapid.IntRange(0, 6).Draw(rt, "faults") {
			nth, persisted := rapid.IntRange(1, 8).Draw(rt, "nth"), rapid.Bool().Draw(rt, "persisted")
			op := rapid.SampledFrom([]memruns.Op{memruns.Save, memruns.PutTurn, memruns.Hear}).Draw(rt, "op")
			r.runs.Lose(op, nth, persisted)
		}
		r.planner.Ledger = flaky{Ledger: r.ledger, nth: rapid.Int64Range(0, 20).Draw(rt, "load that fails"), loads: &atomic.Int64{}}
		input, execution := conversed(answers...), "e1"
		var outcomes []runs.Outcome
		for range 200 {
			answer := r.plan(t, request(input, outcomes, 0, execution))
			switch answer.Next {
			case GoOn:
				execution, outcomes, r.maps = answer.HandOver.Name, nil, 0
			case CallTools:
				outcomes = r.callTools(t, answer)
			case Succeed, Fail, StandDown:
				r.once(t, answer, intents)
				return
			}
		}
		rt.Fatal("the run does not end")
	})
}

// flaky fails to load a call the nth time, from 1.
type flaky struct {
	Ledger
	nth int64

	loads *atomic.Int64
}

func (f flaky) Load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	if f.loads.Add(1) == f.nth {
		return ledger.Record{}, errors.New("throttled")
	}
	return f.Ledger.Load(ctx, key)
}
