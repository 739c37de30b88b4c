package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// Request is what the state machine sends; every field is always present. The
// contract is in statemachines/README.md.
type Request struct {
	Onceward   int             `json:"onceward"`
	Mode       string          `json:"mode"`
	Input      json.RawMessage `json:"input"`
	Outcomes   []runs.Outcome  `json:"outcomes"`
	TurnBroken int             `json:"turn_broken"`
	Execution  Execution       `json:"execution"`
}

// Execution is the execution that asks.
type Execution struct {
	ID           string    `json:"id"`
	Name         string    `json:"name"`
	StartedAt    time.Time `json:"started_at"`
	StateMachine string    `json:"state_machine"` // ARN without version
}

// decodeRequest refuses what isn't a request of our machine.
func decodeRequest(raw json.RawMessage) (Request, error) {
	var req Request
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return Request{}, fmt.Errorf("%w: request: %w", runs.ErrBadInput, err)
	}
	switch {
	case req.Onceward != 1:
		return Request{}, fmt.Errorf("%w: request: onceward: want 1", runs.ErrBadInput)
	case req.Mode != "plan":
		return Request{}, fmt.Errorf("%w: request: mode: want plan", runs.ErrBadInput)
	case req.Execution.Name == "" || req.Execution.StartedAt.IsZero():
		return Request{}, fmt.Errorf("%w: request: execution: name or started_at is missing", runs.ErrBadInput)
	case req.TurnBroken < 0:
		return Request{}, fmt.Errorf("%w: request: turn_broken: is negative", runs.ErrBadInput)
	}
	return req, nil
}

// Next is the step that the state machine takes.
type Next string

// The steps.
const (
	CallTools Next = "call_tools"
	Succeed   Next = "succeed"
	Fail      Next = "fail"
	StandDown Next = "stand_down"
	GoOn      Next = "hand_over"
)

// Answer is what the state machine goes on with.
type Answer struct {
	Next           Next          `json:"next"`
	MaxConcurrency int           `json:"max_concurrency,omitzero"`
	Calls          []ToolCall    `json:"calls,omitempty"`
	RunID          string        `json:"run_id,omitzero"`
	Why            string        `json:"why,omitzero"` // with StandDown: who drives the run
	Answer         string        `json:"answer,omitzero"`
	Heard          []runs.Heard  `json:"heard,omitempty"`
	HeardCut       int           `json:"heard_cut,omitzero"` // how many calls' words, or the whole entry, did not fit
	Failure        *runs.Failure `json:"failure,omitempty"`
	HandOver       *HandOver     `json:"hand_over,omitempty"`
}

// ToolCall is one call of a Map.
type ToolCall struct {
	Function string   `json:"function"`
	Envelope Envelope `json:"envelope"`
}

// Envelope is the planner's part of a tool's envelope. All of it is always
// present: the machine refers to each part by its path.
type Envelope struct {
	Tenant    string             `json:"tenant"`
	Run       once.RunPart       `json:"run"`
	Call      once.CallPart      `json:"call"`
	Principal once.PrincipalPart `json:"principal"`
	Policy    once.PolicyPart    `json:"policy"`
}

// HandOver names the execution that goes on.
type HandOver struct {
	StateMachine string          `json:"state_machine"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input"`
}

// standDown ends an execution that does not drive the run.
func standDown(run runs.Run) Answer {
	return Answer{Next: StandDown, RunID: run.ID, Why: fmt.Sprintf("execution %s drives this run, which is %s; nothing was done here", run.Driver, run.Status)}
}

func failed(f runs.Failure) Answer {
	// Step Functions keeps 32 KiB of a cause; a page of it is enough.
	return Answer{Next: Fail, Failure: &runs.Failure{Error: f.Error, Cause: ledger.Shorten(f.Cause, 4<<10)}}
}

// The bounds of what a run tells at its end, as encoded: its answer, what was
// heard of its calls, and of that what has all its words.
const (
	maxOutput = 180 << 10
	maxList   = maxOutput - runs.MaxSays
	maxWords  = maxList - 16<<10
)

// succeeded tells how a run ended, with what the model heard as far as it fits:
// first the calls with their words, then the calls alone, then only how many.
func succeeded(run runs.Run, turns []runs.Turn) (Answer, error) {
	answer := Answer{Next: Succeed, RunID: run.ID}
	size := 0
	for _, turn := range turns {
		if turn.Final {
			answer.Answer = turn.Says
		}
		for _, heard := range turn.Heard {
			encoded, err := json.Marshal(heard)
			if err != nil {
				return Answer{}, fmt.Errorf("planner: encode what was heard: %w", err)
			}
			n := len(encoded) + len(",")
			if size+n > maxWords {
				answer.HeardCut++
				heard.Says = ""
				n = bareHeard + len(heard.CallID) + len(heard.Status)
			}
			if size+n > maxList {
				continue
			}
			size += n
			answer.Heard = append(answer.Heard, heard)
		}
	}
	return answer, nil
}

// bareHeard is what an entry without words adds to its two values, whose
// characters need no escapes.
const bareHeard = len(`{"call_id":"","status":""},`)
