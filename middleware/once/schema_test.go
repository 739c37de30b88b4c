package once_test

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

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
		envelope("inspect", `"reply"`, `"token":"t","reply"`): false,
		envelope("invoke", `"c1"`, `"~t3-1"`):                 true,
		envelope("invoke", `"c1"`, `"~t3-1~undo2"`):           true,
		envelope("invoke", `"c1"`, `"c~1"`):                   false,
		envelope("invoke", `"c1"`, `"c/1"`):                   false,
		envelope("invoke", `"r1"`, `"r.1"`):                   false,
		envelope("invoke", `"acme"`, `""`):                    true,
		envelope("invoke", `"acme"`, `"a b"`):                 false,
		envelope("invoke", `"turn":3`, `"turn":-3`):           false,
		envelope("invoke", `"turn":3`, `"turn":3.5`):          false,
		envelope("invoke", `"full"`, `"long"`):                false,
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

func TestAnswersKeepToTheirSchema(t *testing.T) {
	t.Parallel()
	_, schema := loadSchema(t, "answer")
	h := handlerOf(t, newGuard(t, newStore(t)), (&bank{}).tool())
	for _, payload := range []string{envelope("reconcile"), envelope("invoke"), envelope("invoke"), envelope("invoke", `:5`, `:6`), envelope("close"), `x`, envelope("invoke", `"full"`, `"brief"`)} {
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
	s, _ := loadSchema(t, "answer")
	var next []any
	for _, n := range []ledger.Next{ledger.Done, ledger.Again, ledger.Look, ledger.Park, ledger.Inspect} {
		next = append(next, string(n))
	}
	if diff := cmp.Diff(next, s.Properties["next"].Enum); diff != "" {
		t.Error(diff)
	}
}
