package once

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/onceward/onceward/internal/canonjson"
	"github.com/onceward/onceward/middleware/ledger"
)

// Key returns the key that the envelope names; [ledger.Key.Check] says whether
// it is well formed.
func (e Envelope) Key() ledger.Key {
	return ledger.Key{Tenant: e.Tenant, RunID: e.Run.ID, CallID: e.Call.ID}
}

// DecodeEnvelope reads an envelope strictly: unknown fields, duplicate names,
// invalid UTF-8, a wrong version or mode, missing or malformed ids and anything
// but one form of the arguments are refused. The error is an [*Error] with a
// code of [Codes]; its Report.Key is the key that the payload names, if that is
// well formed and named once; the envelope returned with it may be half read.
// Nothing was done. The arguments themselves are judged by their tool.
func DecodeEnvelope(payload []byte) (Envelope, error) {
	var e Envelope
	if err := canonjson.Decode(payload, &e); err != nil {
		code, message := envelopeFault(err)
		return e, refusal(namedKey(payload), code, "%s", message)
	}
	if e.Call.Attempt == 0 {
		e.Call.Attempt = 1
	}
	if e.Reply == "" {
		e.Reply = ReplyFull
	}
	if code, message := e.check(); code != "" {
		key := e.Key()
		if key.Check() != nil {
			key = ledger.Key{}
		}
		return e, refusal(key, code, "%s", message)
	}
	return e, nil
}

// check returns the first fault, by the order in which a reader would meet it.
func (e Envelope) check() (code, message string) {
	switch {
	case e.Onceward != EnvelopeVersion:
		return codeBadVersion, fmt.Sprintf("onceward: is %d, want %d", e.Onceward, EnvelopeVersion)
	case !e.Mode.valid():
		return codeBadMode, fmt.Sprintf("mode: is %q, want invoke, reconcile, close, compensate, describe, inspect or park", e.Mode)
	case e.Reply != ReplyFull && e.Reply != ReplyBrief:
		return codeBadField, fmt.Sprintf("reply: is %q, want full or brief", e.Reply)
	case !e.Policy.OnIndeterminate.Valid():
		return codeBadField, fmt.Sprintf("policy.on_indeterminate: is %q, want pause, tell or fail", e.Policy.OnIndeterminate)
	case e.Mode == ModeDescribe:
		return "", ""
	case e.Run.ID == "":
		return codeMissingID, "run.id: is missing"
	case e.Call.ID == "":
		return codeMissingID, "call.id: is missing"
	case e.Key().Check() != nil:
		return codeBadID, strings.TrimPrefix(e.Key().Check().Error(), ledger.ErrInvalid.Error()+": ")
	case e.Call.Tool == "":
		return codeUnknownTool, "call.tool: is missing"
	case e.Mode == ModeCompensate && !isUndo(e.Key()):
		return codeBadField, notAnUndo
	case e.Call.Turn < 0:
		return codeBadField, "call.turn: is negative"
	case e.Call.Attempt < 0:
		return codeBadField, "call.attempt: is negative"
	case e.Mode == ModePark && e.Token == "":
		return codeBadField, "token: is missing"
	case e.Mode != ModePark && e.Token != "":
		return codeBadField, "token: belongs to mode park only"
	}
	return e.checkArguments()
}

func (m Mode) valid() bool {
	switch m {
	case ModeInvoke, ModeReconcile, ModeClose, ModeCompensate, ModeDescribe, ModeInspect, ModePark:
		return true
	}
	return false
}

func (e Envelope) checkArguments() (code, message string) {
	given, asText := len(e.Call.Arguments) > 0, e.Call.ArgumentsJSON != ""
	switch {
	case given && asText:
		return codeTwoArguments, "call.arguments, call.arguments_json: both are given"
	case !given && !asText && e.Mode == ModeInvoke:
		return codeNoArguments, "call.arguments: is missing, and so is call.arguments_json"
	case len(e.Call.Arguments) > MaxArguments:
		return codeTooLarge, fmt.Sprintf("call.arguments: %d bytes, want at most %d", len(e.Call.Arguments), MaxArguments)
	case len(e.Call.ArgumentsJSON) > MaxArguments:
		return codeTooLarge, fmt.Sprintf("call.arguments_json: %d bytes, want at most %d", len(e.Call.ArgumentsJSON), MaxArguments)
	}
	return "", ""
}

// MaxArguments is how many bytes the arguments of one call may have.
const MaxArguments = 256 << 10

// arguments returns the text of the arguments, nil if none are given.
func (e Envelope) arguments() json.RawMessage {
	if e.Call.ArgumentsJSON != "" {
		return json.RawMessage(e.Call.ArgumentsJSON)
	}
	return e.Call.Arguments
}

// envelopeFault names what the decoder stumbled over, by field and not by value.
func envelopeFault(err error) (code, message string) {
	e, ok := errors.AsType[*canonjson.Error](err)
	switch {
	case !ok:
	case errors.Is(err, canonjson.ErrUTF8):
		return codeBadUTF8, sentences[codeBadUTF8]
	case e.Pointer == "":
	case errors.Is(err, canonjson.ErrDuplicate):
		return codeDuplicate, e.Field() + ": stands twice"
	case errors.Is(err, canonjson.ErrUnknownName):
		return codeUnknownField, e.Field() + ": is unknown"
	case errors.Is(err, canonjson.ErrType):
		return codeBadField, e.Field() + ": has the wrong type or form"
	}
	return codeBadJSON, sentences[codeBadJSON]
}

// namedKey finds the key in a payload that was not accepted, so that its refusal
// can say what is known of an earlier effect. It returns the zero Key unless
// each id stands there exactly once, as a string, and all are well formed.
func namedKey(payload []byte) ledger.Key {
	ids, ok := canonjson.Texts(payload, "/tenant", "/run/id", "/call/id")
	key := ledger.Key{Tenant: ids["/tenant"], RunID: ids["/run/id"], CallID: ids["/call/id"]}
	if !ok || key.Check() != nil {
		return ledger.Key{}
	}
	return key
}
