package once_test

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

func loadSchema(t *testing.T, name string) (*jsonschema.Schema, *jsonschema.Resolved) {
	t.Helper()
	raw, err := os.ReadFile("schema/" + name + ".schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &s, resolved
}

func TestSchemasHaveTheFieldsOfTheContract(t *testing.T) {
	t.Parallel()
	envelope, _ := loadSchema(t, "envelope")
	answer, _ := loadSchema(t, "answer")
	sameFields(t, "envelope", reflect.TypeFor[once.Envelope](), envelope)
	sameFields(t, "answer", reflect.TypeFor[once.Answer](), answer)
	manifest, _ := loadSchema(t, "manifest")
	sameFields(t, "manifest", reflect.TypeFor[once.Manifest](), manifest)
	sameFields(t, "manifest.tools", reflect.TypeFor[once.ManifestTool](), manifest.Properties["tools"].Items)
}

// sameFields compares the JSON names of a struct with a schema's properties.
func sameFields(t *testing.T, at string, typ reflect.Type, s *jsonschema.Schema) {
	t.Helper()
	var names []string
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if child := s.Properties[name]; child != nil && child.Properties != nil {
			sameFields(t, at+"."+name, inner, child)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(s.Properties)), names); diff != "" {
		t.Errorf("%s: schema and struct differ:\n%s", at, diff)
	}
}

func TestSchemaAndDecoderAgree(t *testing.T) {
	t.Parallel()
	_, schema := loadSchema(t, "envelope")
	const args = `"arguments":{"account":"A1","cents":5}`
	for payload, good := range map[string]bool{
		`{"onceward":1,"mode":"describe"}`:            true,
		`{"onceward":1}`:                              false,
		`{"onceward":2,"mode":"describe"}`:            false,
		`{"onceward":1,"mode":"describe","colour":1}`: false,
		`{"onceward":1,"mode":"invoke"}`:              false,
		envelope("invoke"):                            true,
		envelope("invoke", `"reply"`, `"from":{"execution":"e","entered_at":"2026-11-29T10:00:00Z","retry":1,"round":2},"policy":{"on_indeterminate":"tell"},"principal":{"subject":"u","permissions":["a"]},"reply"`): true,
		envelope("invoke", args, `"arguments_json":"{}"`):       true,
		envelope("invoke", args, args+`,"arguments_json":"{}"`): false,
		envelope("invoke", `,`+args, ``):                        false,
		envelope("reconcile", `,`+args, ``):                     true,
		envelope("close", `,`+args, ``):                         true,
		envelope("park", `"reply"`, `"token":"t","reply"`):      true,
		envelope("park"): false,
		envelope("inspect", `"reply"`, `"token":"t","reply"`):                           false,
		envelope("invoke", `"c1"`, `"~t3-1"`):                                           true,
		envelope("invoke", `"c1"`, `"~t3-1~undo2"`):                                     true,
		envelope("invoke", `"c1"`, `"c~1"`):                                             false,
		envelope("invoke", `"c1"`, `"c/1"`):                                             false,
		envelope("invoke", `"r1"`, `"r.1"`):                                             false,
		envelope("invoke", `"acme"`, `""`):                                              true,
		envelope("invoke", `"acme"`, `"a b"`):                                           false,
		envelope("invoke", `"turn":3`, `"turn":-3`):                                     false,
		envelope("invoke", `"turn":3`, `"turn":3.5`):                                    false,
		envelope("invoke", `"full"`, `"long"`):                                          false,
		envelope("compensate"):                                                          false,
		envelope("compensate", `"c1"`, `"c1~undo1"`):                                    true,
		envelope("compensate", `"c1"`, `"~t3-1~undo999999999"`):                         true,
		envelope("compensate", `"c1"`, `"c1~undo1"`, `,`+args, ``):                      true,
		envelope("compensate", `"c1"`, `"c1~undo0"`):                                    false,
		envelope("compensate", `"c1"`, `"c1~undo01"`):                                   false,
		envelope("compensate", `"c1"`, `"c1~undo"`):                                     false,
		envelope("compensate", `"c1"`, `"c1~undo1~undo1"`):                              false,
		envelope("compensate", `"c1"`, `"~undo1"`):                                      false,
		envelope("compensate", `"c1"`, `"c1~undo1"`, `"reply"`, `"token":"t","reply"`):  false,
		envelope("compensate", `"c1"`, `"`+strings.Repeat("c", 128)+`~undo999999999"`):  true,
		envelope("compensate", `"c1"`, `"`+strings.Repeat("c", 128)+`~undo1000000000"`): false,
		envelope("compensate", `"c1"`, `"`+strings.Repeat("c", 129)+`~undo1"`):          false,
		envelope("close", `"c1"`, `"c1~undo1"`):                                         true,
		envelope("reconcile", `"c1"`, `"c1~undo1"`):                                     true,
		envelope("inspect", `"c1"`, `"c1~undo1"`):                                       true,
		envelope("run"): false,
		envelope("invoke", `"c1"`, `"`+strings.Repeat("c", 129)+`"`): false,
	} {
		var v any
		if err := json.Unmarshal([]byte(payload), &v); err != nil {
			t.Fatal(err)
		}
		_, decoded := once.DecodeEnvelope([]byte(payload))
		if schemaErr := schema.Validate(v); (schemaErr == nil) != good || (decoded == nil) != good {
			t.Errorf("%s: want good %t; schema says %v, decoder says %v", payload, good, schemaErr, decoded)
		}
	}
}

// Any envelope that is put together of good and bad parts is taken by both or
// refused by both.
func TestSchemaAndDecoderAgreeOnWhateverIsPutTogether(t *testing.T) {
	t.Parallel()
	_, schema := loadSchema(t, "envelope")
	rapid.Check(t, func(rt *rapid.T) {
		undo := rapid.Bool().Draw(rt, "an undo")
		mode, id := []string{`"invoke"`, `"reconcile"`, `"close"`, `"inspect"`}, []string{`"c1"`, `"~t1-0"`, `"c1~undo1"`}
		if undo {
			mode, id = []string{`"compensate"`}, []string{`"c1~undo1"`, `"~t1-0~undo12"`}
		}
		payload := parts{
			"onceward":  {{`1`}, {`2`, `"1"`, ``}},
			"mode":      {mode, {`"describe"`, `"compensate"`, `"park"`, `"undo"`, `""`, ``}},
			"tenant":    {{``, `"acme"`, `""`}, {`"a/b"`, `"` + strings.Repeat("t", 41) + `"`}},
			"run":       {{`{"id":"r1"}`, `{"id":"r1","agent":"a","parent":"p","started_at":"2026-11-29T10:00:00Z"}`}, {``, `{"id":"r.1"}`, `{"id":"r1","name":1}`, `{}`}},
			"call":      {{`CALL`}, {``}},
			"principal": {{``, `{"subject":"u","permissions":["a"]}`}, {`{"permissions":"a"}`, `{"scopes":[]}`}},
			"policy":    {{``, `{"on_indeterminate":"fail"}`}, {`{"on_indeterminate":"retry"}`}},
			"reply":     {{``, `"brief"`, `"full"`}, {`"long"`}},
			"from":      {{``, `{"execution":"e","round":3}`}, {`{"round":1.5}`}},
			"token":     {{``}, {`"t"`}},
		}.draw(rt)
		call := parts{
			"id":             {id, {`"c1"`, `"c1~undo0"`, `"c1~undone"`, `"c~1"`, `""`, ``}},
			"tool":           {{`"issue_credit"`}, {`""`, ``}},
			"turn":           {{``, `3`, `0`}, {`-1`, `"3"`}},
			"attempt":        {{``, `1`, `2`}, {`-1`}},
			"arguments":      {{`{"a":1}`}, {``}},
			"arguments_json": {{``}, {`"{}"`, `{}`}},
		}.draw(rt)
		payload = strings.Replace(payload, "CALL", call, 1)
		var v any
		if err := json.Unmarshal([]byte(payload), &v); err != nil {
			rt.Fatal(err)
		}
		e, decoded := once.DecodeEnvelope([]byte(payload))
		if schemaErr := schema.Validate(v); (schemaErr == nil) != (decoded == nil) && e.Mode != once.ModeDescribe {
			rt.Fatalf("%s: schema says %v, decoder says %v", payload, schemaErr, decoded)
		}
	})
}

// parts are an object's names with the good and the bad values that each may
// have, "" for none.
type parts map[string][2][]string

func (p parts) draw(rt *rapid.T) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		values := p[name][0]
		if rapid.IntRange(0, 15).Draw(rt, "bad "+name) == 0 {
			values = p[name][1]
		}
		if value := rapid.SampledFrom(values).Draw(rt, name); value != "" {
			names = append(names, `"`+name+`":`+value)
		}
	}
	return "{" + strings.Join(names, ",") + "}"
}

func TestManifestKeepsToItsSchema(t *testing.T) {
	t.Parallel()
	_, schema := loadSchema(t, "manifest")
	b := &till{}
	read := reader(b.run)
	read.Name = "find_credit"
	h := handlerOf(t, newGuard(t, newStore(t)), b.tool(), read)
	out, err := h.Invoke(t.Context(), []byte(`{"onceward":1,"mode":"describe"}`))
	if err != nil {
		t.Fatal(err)
	}
	var m once.Manifest
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Tools) != 2 || m.Tools[0].Name != "find_credit" || m.Tools[0].Undo || !m.Tools[1].Undo {
		t.Errorf("manifest %s", out)
	}
	for change, good := range map[string]bool{
		``:                                      true,
		`"undo":true`:                           false, // of the read
		`"undo":"no"`:                           false,
		`"undo":false,"colour":1`:               false,
		`"undo":false,"effect":"external"`:      true,
		`"undo":true,"effect":"write"`:          true,
		`"undo":true,"effect":"destructive"`:    false,
		`"undo":false,"name":"Find"`:            false,
		`"undo":false,"effect":"irreversible"`:  false,
		`"undo":false,"approval":1`:             false,
		`"undo":false,"arguments":"no object"`:  false,
		`"undo":false,"description":{"en":"x"}`: false,
	} {
		var v map[string]any
		if err := json.Unmarshal(out, &v); err != nil {
			t.Fatal(err)
		}
		if change != "" {
			first, ok := v["tools"].([]any)[0].(map[string]any)
			if !ok {
				t.Fatal("no tool")
			}
			if err := json.Unmarshal([]byte("{"+change+"}"), &first); err != nil {
				t.Fatal(err)
			}
		}
		if err := schema.Validate(v); (err == nil) != good {
			t.Errorf("%s: %v, want good %t", change, err, good)
		}
	}
}

func TestAnswersKeepToTheirSchema(t *testing.T) {
	t.Parallel()
	_, schema := loadSchema(t, "answer")
	store := newStore(t)
	h := handlerOf(t, newGuard(t, store), (&till{}).tool())
	undo := envelope("compensate", `"c1"`, `"c1~undo1"`)
	for _, payload := range []string{
		undo, envelope("reconcile"), envelope("invoke"), envelope("invoke"), envelope("invoke", `:5`, `:6`), envelope("close"), `x`, envelope("invoke", `"full"`, `"brief"`),
		undo, "ask", undo, undo, strings.Replace(undo, "full", "brief", 1), strings.Replace(undo, "undo1", "undo2", 1), strings.Replace(undo, "compensate", "invoke", 1),
	} {
		if payload == "ask" {
			askUndo(t, store, call1.Key(), time.Now())
			continue
		}
		out, err := h.Invoke(t.Context(), []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(out, &v); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", out, err)
		}
	}
	for bad, why := range map[string]string{
		`{"status":"undone"}`: "no such status", `{"effect":"compensated"}`: "no such effect", `{"next":"undo"}`: "no such step", `{"retry_after_seconds":86401}`: "too long",
		`{"attempt":-1}`: "less than none", `{"error":{"code":"x"}}`: "half an error", `{"undo":true}`: "no such field", `{"result_ref":{"digest":"x"}}`: "half a reference",
	} {
		v := map[string]any{}
		for _, text := range []string{`{"onceward":1,"key":"r1:c1~undo1","tool":"t","status":"completed","effect":"happened","replayed":false,"attempt":1,"error":{"code":"","message":""},"next":"done","retry_after_seconds":0}`, bad} {
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(v); (err == nil) != (text != bad) {
				t.Errorf("%s, %s: %v", text, why, err)
			}
		}
	}
	s, _ := loadSchema(t, "answer")
	var next []any
	for _, n := range []ledger.Next{ledger.Done, ledger.Again, ledger.Look, ledger.Park, ledger.Inspect} {
		next = append(next, string(n))
	}
	if diff := cmp.Diff(next, s.Properties["next"].Enum); diff != "" {
		t.Error(diff)
	}
}
