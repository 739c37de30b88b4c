package asl

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func document(t *testing.T, text []byte) map[string]any {
	t.Helper()
	value, err := jsonvalue.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return value.(map[string]any)
}

func TestGoodDefinitionsAreRead(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/good/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v %v", files, err)
	}
	for _, file := range append(files, "../../../statemachines/agent-run.asl.json") {
		if _, err := Parse(read(t, file)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// edit sets (or, without value, deletes) the node at a JSON pointer.
func edit(node any, pointer []string, value any, remove bool) any {
	token := strings.NewReplacer("~1", "/", "~0", "~").Replace(pointer[0])
	switch n := node.(type) {
	case map[string]any:
		switch {
		case len(pointer) > 1:
			n[token] = edit(n[token], pointer[1:], value, remove)
		case remove:
			delete(n, token)
		default:
			n[token] = value
		}
	case []any:
		var i int
		if _, err := fmt.Sscan(token, &i); err != nil {
			panic(err)
		}
		if len(pointer) > 1 {
			n[i] = edit(n[i], pointer[1:], value, remove)
		} else {
			n[i] = value
		}
	default:
		panic("nothing at " + pointer[0])
	}
	return node
}

func tokens(pointer string) []string { return strings.Split(pointer, "/")[1:] }

func TestBadDefinitionsAreRefusedWithThePlace(t *testing.T) {
	t.Parallel()
	var cases []struct {
		Name, At, Want, Remove string
		Value                  json.RawMessage
	}
	if err := json.Unmarshal(read(t, "testdata/bad.json"), &cases); err != nil {
		t.Fatal(err)
	}
	good := read(t, "testdata/good/everything.json")
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			definition := document(t, good)
			var value any
			if c.Value != nil {
				var err error
				if value, err = jsonvalue.Decode(c.Value); err != nil {
					t.Fatal(err)
				}
			}
			edit(definition, tokens(c.At), value, c.Value == nil)
			if c.Remove != "" {
				edit(definition, tokens(c.Remove), nil, true)
			}
			_, err := Parse([]byte(jsonvalue.MustEncode(definition)))
			wrong, ok := errors.AsType[*DefinitionError](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			if !slices.ContainsFunc(wrong.Diagnostics, func(d Diagnostic) bool { return strings.Contains(d.String(), c.Want) }) {
				t.Errorf("got  %v\nwant %s", err, c.Want)
			}
		})
	}
}

func TestDefinitionsThatAreNoDefinitions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                            CodeNotJSON,
		`nope`:                        CodeNotJSON,
		`[]`:                          CodeSchema,
		`{}`:                          "These fields are required: [StartAt, States] at /",
		`{"StartAt":"A","States":{}}`: "At least one state is required at /States",
		`{"StartAt":"A","StartAt":"B","States":{"A":{"Type":"Succeed"}}}`: CodeNotJSON,
		`{"StartAt":"A","States":{"A":{"Type":"Succeed"}}} {}`:            CodeNotJSON,
		`{"StartAt":"","States":{"":{"Type":"Succeed"}}}`:                 "State name must have 1 to 80 characters at /States/",
		"{\"StartAt\":\"\xff\"}":                                          CodeNotJSON,
		`"` + strings.Repeat("x", MaxDefinitionBytes) + `"`:               "Definition must be at most 1048576 bytes",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %s", text, err, want)
		}
	}
}

// freeForm are members whose content belongs to the author of the machine.
var freeForm = []string{"Parameters", "ResultSelector", "ItemSelector", "Result", "States"}

// structures lists the JSON pointers of all objects that have fixed fields.
func structures(node any, at string, out *[]string) {
	switch n := node.(type) {
	case map[string]any:
		if !strings.HasSuffix(at, "/States") {
			*out = append(*out, at)
		}
		for name, member := range n {
			if name == "States" || !slices.Contains(freeForm, name) {
				structures(member, at+"/"+name, out)
			}
		}
	case []any:
		for i, element := range n {
			structures(element, fmt.Sprintf("%s/%d", at, i), out)
		}
	}
}

func TestAnUnknownFieldIsRefusedWhereverItStands(t *testing.T) {
	t.Parallel()
	good := read(t, "testdata/good/everything.json")
	var places []string
	structures(document(t, good), "", &places)
	if len(places) < 25 {
		t.Fatalf("only %d places", len(places))
	}
	for _, place := range places {
		definition := document(t, good)
		edit(definition, tokens(place+"/Bogus"), "x", false)
		_, err := Parse([]byte(jsonvalue.MustEncode(definition)))
		if want := "Field 'Bogus' is not supported at " + place + "/Bogus"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"StartAt":"A","States":{"A":{"Type":"Choice","Choices":[{"Variable":"$.a","IsNull":true,"Next":"A"}]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		machine, err := Parse(text)
		if (machine == nil) == (err == nil) {
			t.Errorf("machine %v, error %v", machine, err)
		}
	})
}
