package statemachines_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/localstack/stepfunctions"
	"github.com/onceward/onceward/statemachines"
)

// script is a Lambda double that answers from lines of text, each for one
// function, call and mode, in the order in which they stand:
//
//	plain: raw JSON
//	planner: call c1 c2 [max 2] [bulky] | succeed | fail NAME | stand_down | hand_over NAME [RUN]
//	tool c1 invoke: done STATUS [CODE [MESSAGE]] | again [SECONDS] | look | park | inspect
//	desk c1 inspect: the same
//	desk c1 park: kept | rings after 2h | rings at once
//
// and for all of them: error NAME, function-error TYPE, hang, large BYTES (of an
// answer), wordy BYTES (of its status) and raw JSON. "x 3" at the end repeats a line. It is safe for concurrent use.
type script struct {
	ring func(token string) error
	// machine is the ARN of the machine that the story runs on.
	machine string
	// after calls f once d has passed.
	after func(d time.Duration, f func())
	// over is closed when nobody waits any more for a function that hangs.
	over <-chan struct{}

	mu      sync.Mutex
	lines   map[string][]string
	asked   map[string]int
	heard   []string                   // the outcomes in the planner's requests
	sent    map[string]json.RawMessage // the last request of each mode
	tokens  map[string]bool            // all that were given, each once
	bells   []string                   // rings that were refused
	trouble []string
	rings   sync.WaitGroup
}

func newScript(text string) (*script, error) {
	s := &script{
		machine: machineARN, after: func(d time.Duration, f func()) { time.AfterFunc(d, f) },
		lines: map[string][]string{}, asked: map[string]int{}, sent: map[string]json.RawMessage{}, tokens: map[string]bool{},
	}
	for line := range strings.Lines(text) {
		who, answer, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			return nil, fmt.Errorf("no answer in %q", line)
		}
		times := 1
		if rest, n, ok := strings.Cut(answer, " x "); ok {
			var err error
			if times, err = strconv.Atoi(n); err != nil {
				return nil, fmt.Errorf("no number in %q", line)
			}
			answer = rest
		}
		s.lines[who] = append(s.lines[who], slices.Repeat([]string{answer}, times)...)
	}
	return s, nil
}

// request is what the definition sends, as far as the double looks.
type request struct {
	Mode       string
	Token      string
	TurnBroken int `json:"turn_broken"`
	Call       struct{ ID string }
	Outcomes   []struct {
		ID, Status, Code, Message string
		Rounds, Turn              int
	}
}

// Invoke answers with the next line for this function, call and mode.
func (s *script) Invoke(ctx context.Context, call stepfunctions.Invocation) (stepfunctions.Invoked, error) {
	var r request
	if err := json.Unmarshal(call.Payload, &r); err != nil {
		return stepfunctions.Invoked{}, err
	}
	who := call.Function
	switch r.Mode {
	case "plan":
		s.hear(r)
	case "": // a function that knows nothing of modes
		r.Mode = who
	default:
		who += " " + r.Call.ID + " " + r.Mode
	}
	answer := s.next(who, r.Mode, call.Payload)
	if r.Token != "" {
		s.meet(r.Token)
	}
	return s.answer(ctx, answer, r)
}

func (s *script) hear(r request) {
	var parts []string
	for _, o := range r.Outcomes {
		text := o.ID + " " + o.Status
		if o.Code != "" {
			text += " (" + strings.TrimSuffix(o.Code+": "+o.Message, ": ") + ")"
		}
		parts = append(parts, fmt.Sprintf("%s after %d rounds, map %d", text, o.Rounds, o.Turn))
	}
	if r.TurnBroken > 0 {
		parts = append(parts, fmt.Sprintf("%d broken", r.TurnBroken))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(parts) > 0 {
		s.heard = append(s.heard, strings.Join(parts, "; "))
	}
}

func (s *script) meet(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[token] = true
}

func (s *script) next(who, mode string, sent []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[mode]++
	s.sent[mode] = sent
	left := s.lines[who]
	if len(left) == 0 {
		s.trouble = append(s.trouble, "no line left for "+who)
		return "error Test.NoLineLeft"
	}
	s.lines[who] = left[1:]
	return left[0]
}

// longerThanTasks outlives every task's timeout but the wait's.
const longerThanTasks = 1000 * time.Second

func (s *script) answer(ctx context.Context, line string, r request) (stepfunctions.Invoked, error) {
	verb, rest, _ := strings.Cut(line, " ")
	words := strings.Fields(rest)
	switch verb {
	case "error":
		return stepfunctions.Invoked{}, &stepfunctions.InvokeError{Name: rest, Cause: "as the script says"}
	case "function-error":
		return stepfunctions.Invoked{StatusCode: 200, FunctionError: "Unhandled", Payload: encode(map[string]string{"errorType": rest, "errorMessage": "as the script says"})}, nil
	case "hang":
		select {
		case <-time.After(longerThanTasks):
		case <-ctx.Done():
		case <-s.over:
		}
		return said("done", "completed", "", "", 0), nil
	case "large":
		n, err := strconv.Atoi(rest)
		return payload(slices.Concat([]byte(`{"next":"done","status":"completed","error":{"code":"","message":""},"retry_after_seconds":0,"more":"`), bytes.Repeat([]byte("x"), n), []byte(`"}`))), err
	case "wordy":
		n, err := strconv.Atoi(rest)
		return said("done", strings.Repeat("x", n), "", "", 0), err
	case "raw":
		return payload([]byte(rest)), nil
	case "kept", "rings":
		return s.park(words, r.Token)
	}
	if r.Mode == "plan" {
		return s.plan(verb, words)
	}
	return say(verb, words)
}

// park keeps the token for ever, or rings it now or later.
func (s *script) park(words []string, token string) (stepfunctions.Invoked, error) {
	if len(words) == 2 && words[0] == "after" {
		d, err := time.ParseDuration(words[1])
		if err != nil {
			return stepfunctions.Invoked{}, err
		}
		s.rings.Add(1)
		s.after(d, func() { defer s.rings.Done(); s.doorbell(token) })
	} else if len(words) > 0 {
		s.doorbell(token)
	}
	return payload([]byte("null")), nil
}

func (s *script) doorbell(token string) {
	err := s.ring(token)
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if refused, ok := errors.AsType[*stepfunctions.APIError](err); ok {
		s.bells = append(s.bells, "the bell is refused: "+refused.Type)
		return
	}
	s.trouble = append(s.trouble, err.Error())
}

var errNoVerb = errors.New("no such answer")

func say(verb string, words []string) (stepfunctions.Invoked, error) {
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch verb {
	case "done":
		return said("done", arg(0), arg(1), strings.Join(words[min(2, len(words)):], " "), 0), nil
	case "again", "look", "park", "inspect":
		seconds, _ := strconv.Atoi(arg(0))
		return said(verb, "indeterminate", "", "", seconds), nil
	}
	return stepfunctions.Invoked{}, fmt.Errorf("%w: %s", errNoVerb, verb)
}

func said(next, status, code, message string, seconds int) stepfunctions.Invoked {
	return payload(encode(map[string]any{"onceward": 1, "next": next, "status": status, "error": map[string]string{"code": code, "message": message}, "retry_after_seconds": seconds}))
}

// smallArguments hold a number that doesn't survive a double.
const smallArguments = `{"account_id":9007199254740993,"amount_cents":2500.0}`

func (s *script) plan(verb string, words []string) (stepfunctions.Invoked, error) {
	answer := map[string]any{"next": verb}
	switch verb {
	case "call":
		answer = map[string]any{"next": "call_tools", "max_concurrency": 1}
		arguments := smallArguments
		if i := slices.Index(words, "bulky"); i >= 0 {
			arguments = strings.Repeat("x", statemachines.MaxArgumentsBytes)
			words = slices.Delete(words, i, i+1)
		}
		if i := slices.Index(words, "max"); i >= 0 {
			answer["max_concurrency"] = json.Number(words[i+1])
			words = words[:i]
		}
		var calls []any
		for _, id := range words {
			calls = append(calls, map[string]any{"function": "tool", "envelope": map[string]any{
				"tenant": "acme", "run": map[string]string{"id": "run-1", "started_at": "2026-11-29T10:00:00Z", "agent": "billing-assistant", "parent": ""},
				"call":      map[string]any{"id": id, "tool": "issue_credit", "turn": 1, "attempt": 1, "arguments_json": arguments},
				"principal": map[string]any{"subject": "user-1", "permissions": []string{"credits:write"}}, "policy": map[string]string{"on_indeterminate": "pause"},
			}})
		}
		answer["calls"] = calls
	case "fail":
		answer["failure"] = map[string]string{"error": words[0], "cause": "as the planner says"}
	case "hand_over":
		run := "run-1"
		if len(words) > 1 {
			run = words[1]
		}
		answer["hand_over"] = map[string]any{"state_machine": s.machine, "name": words[0], "input": map[string]string{"run_id": run}}
	case "succeed", "stand_down":
	default:
		return stepfunctions.Invoked{}, fmt.Errorf("%w: %s", errNoVerb, verb)
	}
	return payload(encode(answer)), nil
}

func payload(p []byte) stepfunctions.Invoked {
	return stepfunctions.Invoked{StatusCode: 200, Payload: p}
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // only plain values come here
		panic(err)
	}
	return b
}

// mostHearings is how many of the planner's requests a report shows.
const mostHearings = 10

func (s *script) hearings() []string {
	var out []string
	for _, h := range slices.Compact(s.heard) {
		out = append(out, "planner hears: "+h)
	}
	if n := len(out); n > mostHearings {
		out = []string{out[0], fmt.Sprintf("(%d times more)", n-2), out[n-1]}
	}
	return out
}

// report says who was asked how often, what the planner heard and which bells
// were refused.
func (s *script) report() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var asked []string
	for _, mode := range []string{"plan", "invoke", "reconcile", "inspect", "park", "plain"} {
		if n := s.asked[mode]; n > 0 {
			asked = append(asked, fmt.Sprintf("%s %d", mode, n))
		}
	}
	out := []string{"asked: " + strings.Join(asked, ", ")}
	return slices.Concat(out, s.hearings(), s.bells)
}

// unexpected returns what the story didn't foresee; none if it was told to its
// end.
func (s *script) unexpected() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.trouble)
	for who, left := range s.lines {
		if len(left) > 0 {
			out = append(out, fmt.Sprintf("%d lines left for %s", len(left), who))
		}
	}
	return slices.Sorted(slices.Values(out))
}
