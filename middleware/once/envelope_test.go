package once_test

import (
	"context"
	"strings"
	"testing"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// Proves: R78
func TestBadEnvelopesAreRefusedBeforeAnythingHappens(t *testing.T) {
	t.Parallel()
	const args = `"arguments":{"account":"A1","cents":5}`
	for _, c := range []struct {
		name, payload, code, says string
		keyed                     bool
	}{
		{"nothing", ``, "bad_json", "", false},
		{"not JSON", `<xml>`, "bad_json", "", false},
		{"an array", `[]`, "bad_json", "", false},
		{"cut off", envelope("invoke")[:80], "bad_json", "", false},
		{"two documents", envelope("invoke") + envelope("invoke"), "bad_json", "", true},
		{"null", `null`, "bad_version", "onceward", false},
		{"an unknown field", envelope("invoke", `"tenant"`, `"colour":1,"tenant"`), "unknown_field", "colour", true},
		{"an unknown field inside", envelope("invoke", `"turn"`, `"Turn":1,"turn"`), "unknown_field", "call.Turn", true},
		{"a name in other letters", envelope("invoke", `"mode"`, `"Mode"`), "unknown_field", "Mode", true},
		{"a duplicate name", envelope("invoke", `"reply":"full"`, `"reply":"full","reply":"brief"`), "duplicate_name", "reply", true},
		{"a duplicate name by escape", envelope("invoke", `"reply":"full"`, `"reply":"full","repl\u0079":"brief"`), "duplicate_name", "reply", true},
		{"a duplicate id, so no key", envelope("invoke", `"id":"c1"`, `"id":"c1","id":"c2"`), "duplicate_name", "call.id", false},
		{"a duplicate argument", envelope("invoke", args, `"arguments":{"account":"A1","account":"A2"}`), "duplicate_name", "account", true},
		{"a duplicate argument inside text", envelope("invoke", args, `"arguments_json":"{\"account\":\"A1\",\"account\":\"A2\"}"`), "duplicate_name", "account", true},
		{"invalid UTF-8", envelope("invoke", "A1", "A\xff"), "bad_utf8", "", true},
		{"half a surrogate", envelope("invoke", "A1", `\ud800`), "bad_utf8", "", true},
		{"version 2", envelope("invoke", `"onceward":1`, `"onceward":2`), "bad_version", "onceward", true},
		{"no version", envelope("invoke", `"onceward":1,`, ``), "bad_version", "onceward", true},
		{"an unknown mode", envelope("run"), "bad_mode", "mode", true},
		{"the desk's mode", envelope("inspect"), "wrong_function", "mode", true},
		{"an undo without its own id", envelope("compensate"), "bad_field", "call.id", true},
		{"an undo without a number", envelope("compensate", `"c1"`, `"c1~undo"`), "bad_id", "call id", false},
		{"undo 0", envelope("compensate", `"c1"`, `"c1~undo0"`), "bad_id", "call id", false},
		{"undo 01", envelope("compensate", `"c1"`, `"c1~undo01"`), "bad_id", "call id", false},
		{"an undo's undo", envelope("compensate", `"c1"`, `"c1~undo1~undo1"`), "bad_id", "call id", false},
		{"an undo that is invoked", envelope("invoke", `"c1"`, `"c1~undo1"`), "not_supported", "call.id", true},
		{"an undo by a tool that has none", envelope("compensate", `"c1"`, `"c1~undo1"`), "not_supported", "call.tool", true},
		{"an unknown reply", envelope("invoke", `"full"`, `"long"`), "bad_field", "reply", true},
		{"an unknown policy", envelope("invoke", `"reply"`, `"policy":{"on_indeterminate":"retry"},"reply"`), "bad_field", "policy.on_indeterminate", true},
		{"a text as turn", envelope("invoke", `"turn":3`, `"turn":"3"`), "bad_field", "call.turn", true},
		{"half a turn", envelope("invoke", `"turn":3`, `"turn":3.5`), "bad_field", "call.turn", true},
		{"a negative attempt", envelope("invoke", `"attempt":1`, `"attempt":-1`), "bad_field", "call.attempt", true},
		{"a bad time", envelope("invoke", `"id":"r1"`, `"id":"r1","started_at":"yesterday"`), "bad_field", "run.started_at", true},
		{"a token for a tool", envelope("invoke", `"reply"`, `"token":"x","reply"`), "bad_field", "token", true},
		{"no run", envelope("invoke", `"id":"r1"`, ``), "missing_id", "run.id", false},
		{"no call id", envelope("invoke", `"id":"c1",`, ``), "missing_id", "call.id", false},
		{"an empty call id", envelope("invoke", `"c1"`, `""`), "missing_id", "call.id", false},
		{"a null call id", envelope("invoke", `"c1"`, `null`), "missing_id", "call.id", false},
		{"a bad run id", envelope("invoke", `"r1"`, `"r/1"`), "bad_id", "run id", false},
		{"a bad call id", envelope("invoke", `"c1"`, `"c:1"`), "bad_id", "call id", false},
		{"a long tenant", envelope("invoke", `"acme"`, `"`+strings.Repeat("a", 41)+`"`), "bad_id", "tenant", false},
		{"no tool", envelope("invoke", `"tool":"issue_credit",`, ``), "unknown_tool", "call.tool", true},
		{"an unknown tool", envelope("invoke", `issue_credit`, `burn_down`), "unknown_tool", "call.tool", true},
		{"no arguments", envelope("invoke", `,`+args, ``), "missing_arguments", "arguments", true},
		{"both arguments", envelope("invoke", args, args+`,"arguments_json":"{}"`), "two_arguments", "arguments_json", true},
		{"300 KB of arguments", envelope("invoke", `"A1"`, `"`+strings.Repeat("a", 300<<10)+`"`), "arguments_too_large", "arguments", true},
		{"300 KB of arguments as text", envelope("invoke", args, `"arguments_json":"`+strings.Repeat(" ", 300<<10)+`"`), "arguments_too_large", "arguments_json", true},
		{"arguments that are no object", envelope("invoke", args, `"arguments":[1]`), "bad_arguments", "object", true},
		{"null as arguments", envelope("invoke", args, `"arguments":null`), "bad_arguments", "object", true},
		{"text that is no JSON", envelope("invoke", args, `"arguments_json":"{"`), "bad_arguments", "not JSON", true},
		{"an unknown argument", envelope("invoke", `"cents"`, `"pence"`), "bad_arguments", "pence: is unknown", true},
		{"a key that the model chose", envelope("invoke", `"cents":5`, `"idempotency_key":"k"`), "bad_arguments", "idempotency_key: is unknown", true},
		{"an argument in other letters", envelope("invoke", `"cents":5`, `"Cents":5`), "bad_arguments", "Cents: is unknown", true},
		{"a missing argument", envelope("invoke", `"account":"A1",`, ``), "bad_arguments", "account: is missing", true},
		{"a null for a text", envelope("invoke", `"A1"`, `null`), "bad_arguments", "account: is missing", true},
		{"a text for a number", envelope("invoke", `:5`, `:"5"`), "bad_arguments", "cents", true},
		{"a fraction for an integer", envelope("invoke", `:5`, `:5.5`), "bad_arguments", "cents", true},
		{"an integer beyond a double", envelope("invoke", `:5`, `:9007199254740993`), "bad_number", "cents", true},
		{"the same as text", envelope("invoke", args, `"arguments_json":"{\"account\":\"A1\",\"cents\":9007199254740993}"`), "bad_number", "cents", true},
		{"a number beyond all doubles", envelope("invoke", `:5`, `:1e400`), "bad_number", "cents", true},
		{"minus zero", envelope("invoke", `:5`, `:-0`), "bad_number", "cents", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store, b := newStore(t), &bank{}
			a := ask(t.Context(), t, handlerOf(t, newGuard(t, store), b.tool()), c.payload)
			if a.Status != once.Refused || a.Error.Code != c.code || !strings.Contains(a.Error.Message, c.says) {
				t.Errorf("got %s %s (%s), want refused %s naming %q", a.Status, a.Error.Code, a.Error.Message, c.code, c.says)
			}
			if a.Effect != ledger.NoEffect || a.Next != ledger.Done {
				t.Errorf("effect %s, next %s; want none, done", a.Effect, a.Next)
			}
			if (a.Key != "") != c.keyed {
				t.Errorf("key %q", a.Key)
			}
			reads := 0
			for _, step := range store.Log() {
				if step.Op.Durable() {
					t.Errorf("stored: %+v", step)
				}
				reads++
			}
			if wanted := map[bool]int{true: 1}[c.keyed]; reads != wanted {
				t.Errorf("%d requests to the ledger, want %d", reads, wanted)
			}
			if b.runs.Load() != 0 {
				t.Error("the tool ran")
			}
			if strings.Contains(a.Error.Message, "A2") || len(a.Error.Message) > ledger.MaxMessage {
				t.Errorf("message %q", a.Error.Message)
			}
		})
	}
}

func TestRefusalTellsWhatIsKnownOfAnEarlierEffect(t *testing.T) {
	t.Parallel()
	bad := envelope("invoke", `"turn"`, `"colour":1,"turn"`)
	t.Run("it happened", func(t *testing.T) {
		t.Parallel()
		b := &bank{}
		h := handlerOf(t, newGuard(t, newStore(t)), b.tool())
		ask(t.Context(), t, h, envelope("invoke"))
		a := ask(t.Context(), t, h, bad)
		if a.Status != once.Refused || a.Effect != ledger.Happened || a.Next != ledger.Inspect || strings.Contains(a.ModelSays, "no earlier one") {
			t.Errorf("got %+v", a)
		}
	})
	t.Run("the ledger can't be read", func(t *testing.T) {
		t.Parallel()
		h := handlerOf(t, newGuard(t, downStore{newStore(t)}), (&bank{}).tool())
		a := ask(t.Context(), t, h, bad)
		if a.Status != once.Refused || a.Effect != ledger.Unknown || a.Next != ledger.Inspect {
			t.Errorf("got %+v", a)
		}
	})
}

// downStore is a ledger that can't be reached.
type downStore struct{ ledger.Store }

func (downStore) Load(context.Context, ledger.Key) (ledger.Record, error) {
	return ledger.Record{}, context.DeadlineExceeded
}

func (downStore) Apply(context.Context, ledger.Move) (ledger.Record, error) {
	return ledger.Record{}, context.DeadlineExceeded
}

func TestDescribeTellsTheModelNoKey(t *testing.T) {
	t.Parallel()
	h := handlerOf(t, newGuard(t, newStore(t)), (&bank{}).tool())
	out, err := h.Invoke(t.Context(), []byte(`{"onceward":1,"mode":"describe"}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"onceward":1,"tools":[{"name":"issue_credit","description":"Credit an account.","effect":"external","approval":false,"undo":false,"arguments":{"type":"object","properties":{"account":{"type":"string"},"cents":{"type":"integer"},"note":{"type":"string"}},"required":["account"],"additionalProperties":false}}]}`
	if string(out) != want {
		t.Errorf("got  %s\nwant %s", out, want)
	}
}

func FuzzDecodeEnvelope(f *testing.F) {
	f.Add([]byte(envelope("invoke")))
	f.Add([]byte(envelope("close", `"turn":3`, `"turn":3,"turn":3`)))
	f.Add([]byte(`{"onceward":1,"mode":"describe"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		e, err := once.DecodeEnvelope(payload)
		if err == nil {
			if e.Mode != once.ModeDescribe && e.Key().Check() != nil {
				t.Errorf("accepted the key %q", e.Key())
			}
			return
		}
		a := once.RefusalAnswer(t.Context(), newStore(t), err)
		if a.Status != once.Refused || a.Error.Code == "" || a.Effect != ledger.NoEffect || a.Next != ledger.Done {
			t.Errorf("answered %+v", a)
		}
	})
}
