package stepfunctions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// agent plays planner, tool and desk of the agent-run machine.
type agent struct {
	*scripted

	mu     sync.Mutex
	plans  []string // one answer of the planner a turn, the last for ever
	tool   func(round int, mode string) (Invoked, error)
	desk   func(payload map[string]any) (Invoked, error)
	inputs []map[string]any // what the planner was asked
	rounds int
	tokens []string
	// remembers makes the planner answer a turn as it did before, when asked again.
	remembers bool
	// toolFor, if set, answers by the id of the call instead of tool.
	toolFor func(id string) (Invoked, error)
}

func newAgent(plans ...string) *agent {
	a := &agent{plans: plans, scripted: &scripted{}}
	a.tool = func(int, string) (Invoked, error) { return answerJSON(says("done", "completed")) }
	a.desk = func(map[string]any) (Invoked, error) { return answerJSON(says("again", "in_progress")) }
	a.functions = map[string]func(context.Context, map[string]any) (Invoked, error){
		"planner": a.plan, "tool": a.useTool, "desk": a.askDesk,
	}
	return a
}

func says(next, status string) string {
	return fmt.Sprintf(`{"next":%q,"status":%q,"error":{"code":"","message":""},"retry_after_seconds":0}`, next, status)
}

func callTools(ids ...string) string {
	calls := make([]string, len(ids))
	for i, id := range ids {
		calls[i] = fmt.Sprintf(`{"function":"tool","envelope":{"tenant":"t","run":{"id":"run-1"},"call":{"id":%q},"principal":{},"policy":{}}}`, id)
	}
	return `{"next":"call_tools","max_concurrency":2,"calls":[` + strings.Join(calls, ",") + `]}`
}

func (a *agent) plan(_ context.Context, payload map[string]any) (Invoked, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	turn := len(a.inputs)
	if a.remembers {
		turn = turnOf(payload)
	}
	answer := a.plans[min(turn, len(a.plans)-1)]
	a.inputs = append(a.inputs, payload)
	return answerJSON(answer)
}

func (a *agent) useTool(_ context.Context, payload map[string]any) (Invoked, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rounds++
	if a.toolFor != nil {
		return a.toolFor(payload["call"].(map[string]any)["id"].(string))
	}
	return a.tool(a.rounds, payload["mode"].(string))
}

func (a *agent) askDesk(_ context.Context, payload map[string]any) (Invoked, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if token, ok := payload["token"].(string); ok {
		a.tokens = append(a.tokens, token)
	}
	return a.desk(payload)
}

func (a *agent) outcomes(t *testing.T) string {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	return jsonvalue.MustEncode(a.inputs[len(a.inputs)-1]["outcomes"])
}

// turnOf is how many turns the planner was told of.
func turnOf(payload map[string]any) int {
	told, _ := payload["outcomes"].([]any)
	if len(told) == 0 {
		return 0
	}
	turn, _ := jsonvalue.Int64(told[0].(map[string]any)["turn"].(json.Number))
	return int(turn)
}

// said is the last that the planner was told, without the rounds that it took.
func (a *agent) said() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.inputs) == 0 {
		return "[]"
	}
	told, _ := a.inputs[len(a.inputs)-1]["outcomes"].([]any)
	for i, outcome := range told {
		plain := maps.Clone(outcome.(map[string]any))
		delete(plain, "rounds")
		told[i] = plain
	}
	return jsonvalue.MustEncode(told)
}

// known are the tokens that the desk was given.
func (a *agent) known() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.tokens)
}

// agentRun is the state machine that is shipped.
func agentRun(t *testing.T) string {
	t.Helper()
	return strings.NewReplacer("${PlannerFunction}", "planner", "${CallDeskFunction}", "desk").Replace(readFile(t, "../../statemachines/agent-run.asl.json"))
}

const succeed = `{"next":"succeed","said":"bye"}`

func TestAgentRunFollowsEachAnswerOfTheTool(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		tool     func(round int, mode string) (Invoked, error)
		desk     func(map[string]any) (Invoked, error)
		outcomes string
		took     time.Duration // waits are counted from one second
	}{
		"done": {
			tool:     func(int, string) (Invoked, error) { return answerJSON(says("done", "completed")) },
			outcomes: `[{"code":"","id":"c1","message":"","rounds":0,"status":"completed","turn":1}]`,
		},
		"again, then done": {
			tool: func(round int, _ string) (Invoked, error) {
				if round == 1 {
					return answerJSON(`{"next":"again","status":"in_progress","error":{"code":"","message":""},"retry_after_seconds":4}`)
				}
				return answerJSON(says("done", "completed"))
			},
			outcomes: `[{"code":"","id":"c1","message":"","rounds":1,"status":"completed","turn":1}]`,
			took:     5 * time.Second,
		},
		"look, then done": {
			tool: func(round int, mode string) (Invoked, error) {
				if round == 1 {
					return answerJSON(says("look", "indeterminate"))
				}
				if mode != "reconcile" {
					return lambdaError("WrongMode", mode)
				}
				return answerJSON(says("done", "failed"))
			},
			outcomes: `[{"code":"","id":"c1","message":"","rounds":1,"status":"failed","turn":1}]`,
			took:     time.Second,
		},
		"an error goes to the desk, which sends back": {
			tool: func(round int, _ string) (Invoked, error) {
				if round == 1 {
					return lambdaError("Boom", "no")
				}
				return answerJSON(says("done", "completed"))
			},
			outcomes: `[{"code":"","id":"c1","message":"","rounds":2,"status":"completed","turn":1}]`,
			took:     2 * time.Second,
		},
		"a lost answer goes to the desk, which knows": {
			tool:     func(int, string) (Invoked, error) { return Invoked{}, errors.New("connection reset") },
			desk:     func(map[string]any) (Invoked, error) { return answerJSON(says("done", "completed")) },
			outcomes: `[{"code":"","id":"c1","message":"","rounds":1,"status":"completed","turn":1}]`,
			took:     time.Second,
		},
		"inspect and malformed answers are bounded by 25 rounds": {
			tool:     func(int, string) (Invoked, error) { return answerJSON(`{"next":"inspect"}`) },
			desk:     func(map[string]any) (Invoked, error) { return answerJSON(`"nonsense"`) },
			outcomes: `[{"code":"","id":"c1","message":"","rounds":25,"status":"unresolved","turn":1}]`,
			took:     25 * 26 / 2 * time.Second,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(callTools("c1"), succeed)
			a.tool = test.tool
			if test.desk != nil {
				a.desk = test.desk
			}
			bubble(t, a, nil, func(t *testing.T, r *Runner) {
				began := time.Now()
				out := run(t, r, agentRun(t), `{}`)
				if out.Status != Succeeded || out.Output != succeed {
					t.Fatalf("%s %s %s %s", out.Status, out.Error, out.Cause, out.Output)
				}
				if got := a.outcomes(t); got != test.outcomes {
					t.Errorf("outcomes %s, want %s", got, test.outcomes)
				}
				if took := time.Since(began); took != test.took {
					t.Errorf("took %s, want %s", took, test.took)
				}
			})
		})
	}
}

func TestAgentRunParksUntilSomebodyRings(t *testing.T) {
	t.Parallel()
	a := newAgent(callTools("c1"), succeed)
	a.tool = func(round int, _ string) (Invoked, error) {
		if round == 1 {
			return answerJSON(says("park", "indeterminate"))
		}
		return answerJSON(says("done", "completed"))
	}
	bubble(t, a, nil, func(t *testing.T, r *Runner) {
		arn := start(t, r, create(t, r, agentRun(t)), "e", `{}`)
		time.Sleep(13 * 24 * time.Hour)
		synctest.Wait()
		if out := describe(t, r, arn); out.Status != Running {
			t.Fatalf("status %s", out.Status)
		}
		if _, err := r.SendTaskSuccess(SendTaskSuccessInput{TaskToken: a.tokens[0], Output: `{}`}); err != nil {
			t.Fatal(err)
		}
		out := finish(t, r, arn)
		if want := `[{"code":"","id":"c1","message":"","rounds":1,"status":"completed","turn":1}]`; out.Status != Succeeded || a.outcomes(t) != want {
			t.Errorf("%s %s", out.Status, a.outcomes(t))
		}
	})
}

func TestAgentRunWaitThatTimesOutIsArmedAgainWithANewToken(t *testing.T) {
	t.Parallel()
	a := newAgent(callTools("c1"), succeed)
	a.tool = func(round int, _ string) (Invoked, error) {
		if round <= 2 {
			return answerJSON(says("park", "indeterminate"))
		}
		return answerJSON(says("done", "completed"))
	}
	bubble(t, a, nil, func(t *testing.T, r *Runner) {
		arn := start(t, r, create(t, r, agentRun(t)), "e", `{}`)
		time.Sleep(15 * 24 * time.Hour)
		synctest.Wait()
		if len(a.tokens) != 2 || a.tokens[0] == a.tokens[1] {
			t.Fatalf("%d tokens", len(a.tokens))
		}
		_, err := r.SendTaskSuccess(SendTaskSuccessInput{TaskToken: a.tokens[0], Output: `{}`})
		wantAPIError(t, err, "TaskTimedOut")
		if _, err := r.SendTaskSuccess(SendTaskSuccessInput{TaskToken: a.tokens[1], Output: `{}`}); err != nil {
			t.Fatal(err)
		}
		finish(t, r, arn)
		if want := `[{"code":"","id":"c1","message":"","rounds":2,"status":"completed","turn":1}]`; a.outcomes(t) != want {
			t.Errorf("outcomes %s", a.outcomes(t))
		}
	})
}

func TestAgentRunHandsOverToAnotherExecution(t *testing.T) {
	t.Parallel()
	a := newAgent(`{"next":"hand_over","hand_over":{"state_machine":"arn:aws:states:us-east-1:000000000000:stateMachine:m","name":"e-g2","input":{"n":9007199254740993}}}`, succeed)
	bubble(t, a, nil, func(t *testing.T, r *Runner) {
		out := run(t, r, agentRun(t), `{}`)
		if out.Status != Succeeded || path(t, out.Output, "next") != "hand_over" {
			t.Fatalf("%s %s", out.Status, out.Output)
		}
		second := finish(t, r, "arn:aws:states:us-east-1:000000000000:execution:m:e-g2")
		if second.Status != Succeeded || second.Input != `{"n":9007199254740993}` {
			t.Errorf("%s %s", second.Status, second.Input)
		}
	})
}

func TestAgentRunTakesAnExistingSuccessorForItsOwn(t *testing.T) {
	t.Parallel()
	a := newAgent(succeed, `{"next":"hand_over","hand_over":{"state_machine":"arn:aws:states:us-east-1:000000000000:stateMachine:m","name":"first","input":{}}}`)
	bubble(t, a, nil, func(t *testing.T, r *Runner) {
		machine := create(t, r, agentRun(t))
		finish(t, r, start(t, r, machine, "first", `{}`))
		if out := finish(t, r, start(t, r, machine, "second", `{}`)); out.Status != Succeeded {
			t.Errorf("%s %s %s", out.Status, out.Error, out.Cause)
		}
	})
}

func TestAgentRunEndsByNameWhenThePlannerSaysSo(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ plan, wantError, wantCause string }{
		"fails":      {`{"next":"fail","failure":{"error":"Agent.GaveUp","cause":"tired"}}`, "Agent.GaveUp", "tired"},
		"misspeaks":  {`{"next":"dance"}`, "Onceward.PlannerMisspoke", "The planner's answer is not a known step."},
		"is missing": {`"x"`, "Onceward.PlannerMisspoke", "The planner's answer is not a known step."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, newAgent(test.plan), nil, func(t *testing.T, r *Runner) {
				out := run(t, r, agentRun(t), `{}`)
				if out.Status != Failed || out.Error != test.wantError || out.Cause != test.wantCause {
					t.Errorf("%s %q %q", out.Status, out.Error, out.Cause)
				}
			})
		})
	}
}

func TestAgentRunAsksALostPlannerSevenTimes(t *testing.T) {
	t.Parallel()
	a := newAgent(succeed)
	delete(a.functions, "planner")
	bubble(t, a, nil, func(t *testing.T, r *Runner) {
		out := run(t, r, agentRun(t), `{}`)
		if out.Error != "Onceward.PlannerLost" || a.count("planner") != 7 {
			t.Errorf("%s after %d calls", out.Error, a.count("planner"))
		}
	})
}
