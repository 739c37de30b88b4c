package once

import (
	"encoding/json"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// EnvelopeVersion is the version of the envelope and of the answer.
const EnvelopeVersion = 1

// Mode is what an envelope asks for.
type Mode string

// The modes. Only Invoke can run a tool, and only Compensate can undo a call.
const (
	ModeInvoke     Mode = "invoke"     // run the call, or answer from the ledger
	ModeReconcile  Mode = "reconcile"  // look up only
	ModeClose      Mode = "close"      // nothing may start under this key any more
	ModeCompensate Mode = "compensate" // a person's undo
	ModeDescribe   Mode = "describe"   // the manifest of the function's tools
	ModeInspect    Mode = "inspect"    // the desk reads the ledger
	ModePark       Mode = "park"       // the desk stores a task token
)

// Reply says how much an answer holds.
type Reply string

// The replies. The zero Reply is ReplyFull.
const (
	ReplyFull  Reply = "full"  // with the result and the model's sentence, at most 200 KiB
	ReplyBrief Reply = "brief" // without them, at most 2 KiB: results travel through the ledger
)

// Envelope is the event that tools are invoked with, version 1. Every field
// name is part of the contract; an unknown field is refused.
type Envelope struct {
	Onceward  int           `json:"onceward"`
	Mode      Mode          `json:"mode"`
	Tenant    string        `json:"tenant,omitzero"`
	Run       RunPart       `json:"run,omitzero"`
	Call      CallPart      `json:"call,omitzero"`
	Principal PrincipalPart `json:"principal,omitzero"`
	Policy    PolicyPart    `json:"policy,omitzero"`
	Reply     Reply         `json:"reply,omitzero"`
	From      FromPart      `json:"from,omitzero"`
	Token     ledger.Secret `json:"token,omitzero"` // with ModePark only
}

// RunPart says which run a call belongs to. StartedAt bounds how late a call
// may arrive; without it a call is taken to be on time.
type RunPart struct {
	ID        string    `json:"id"`
	StartedAt time.Time `json:"started_at,omitzero"`
	Agent     string    `json:"agent,omitzero"`
	Parent    string    `json:"parent,omitzero"`
}

// CallPart says what is called. Exactly one of Arguments (an object) and
// ArgumentsJSON (the same as one string, so that nothing on the way re-reads its
// numbers) is given. Attempt 0 means 1. With [ModeCompensate] ID is the undo's, as
// [ledger.Key.Undo] writes it, and the rest is that of the call to undo.
type CallPart struct {
	ID            string          `json:"id"`
	Tool          string          `json:"tool"`
	Turn          int             `json:"turn,omitzero"`
	Attempt       int             `json:"attempt,omitzero"`
	Arguments     json.RawMessage `json:"arguments,omitzero"`
	ArgumentsJSON string          `json:"arguments_json,omitzero"`
}

// PrincipalPart says on whose behalf the call is made.
type PrincipalPart struct {
	Subject     string   `json:"subject,omitzero"`
	Permissions []string `json:"permissions,omitzero"`
}

// PolicyPart is the run's tool policy.
type PolicyPart struct {
	OnIndeterminate ledger.Policy `json:"on_indeterminate,omitzero"`
}

// FromPart says where an orchestrator stands. It is used for tracing; the desk
// also lets its delays grow with Round.
type FromPart struct {
	Execution string    `json:"execution,omitzero"`
	EnteredAt time.Time `json:"entered_at,omitzero"`
	Retry     int       `json:"retry,omitzero"`
	Round     int       `json:"round,omitzero"`
}

// Answer is what an envelope is answered with, version 1. An outcome is never a
// Lambda error. Next, Status, Error and RetryAfterSeconds are always present.
type Answer struct {
	Onceward          int             `json:"onceward"`
	Key               string          `json:"key"`
	Tool              string          `json:"tool"`
	Status            Status          `json:"status"`
	Effect            ledger.Effect   `json:"effect"`
	Replayed          bool            `json:"replayed"`
	Attempt           int             `json:"attempt"`
	Result            json.RawMessage `json:"result,omitzero"`
	ResultRef         *ResultRef      `json:"result_ref,omitzero"`
	ExternalID        string          `json:"external_id,omitzero"`
	ModelSays         string          `json:"model_says,omitzero"`
	Error             AnswerError     `json:"error"`
	Next              ledger.Next     `json:"next"`
	RetryAfterSeconds int             `json:"retry_after_seconds"`
}

// AnswerError says why, in one stable word and a sentence; both are "" when the
// call completed.
type AnswerError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// ResultRef stands in for a result that is too large for the answer.
type ResultRef struct {
	Digest ledger.Digest `json:"digest"`
	Bytes  int           `json:"bytes"`
}
