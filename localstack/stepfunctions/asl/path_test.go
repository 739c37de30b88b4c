package asl

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

func decode(t *testing.T, text string) any {
	t.Helper()
	value, err := jsonvalue.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestPathsSelect(t *testing.T) {
	t.Parallel()
	input := decode(t, `{"a":{"b":[1,2,{"c":null}],"d e":"x"},"l":[{"n":1,"k":"x"},{"n":2},{"k":"x","n":9007199254740993}],"o":{"z":1,"y":2,"x":3}}`)
	context := decode(t, `{"Execution":{"Id":"e"}}`)
	for text, want := range map[string]string{
		"$.a.b[0]": "1", "$['a']['d e']": `"x"`, "$.a.b[2].c": "null", "$.a.b[-1].c": "null", "$$.Execution.Id": `"e"`,
		"$.l[*].n": "[1,2,9007199254740993]", "$.l[?@.k == 'x'].n": "[1,9007199254740993]", "$.l[1:].n": "[2,9007199254740993]", "$.l[2,0].n": "[9007199254740993,1]",
		"$.o.*": "[3,2,1]", "$..c": "[null]", "$.no[*]": "[]", "$.l[?@.n == 3]": "[]", "$.l[?(@.n > 1)].n": "[2,9007199254740993]",
		"$.no": "", "$.a.b[3]": "", "$.a.b.c": "", "$.a[0]": "", "$$.Map": "",
	} {
		p, err := ParsePath(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		value, found := p.Get(input, context)
		if found != (want != "") || found && jsonvalue.MustEncode(value) != want {
			t.Errorf("%s: got %v %v, want %s", text, value, found, want)
		}
	}
}

func TestPathsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", "$.", "$a", "$.a-b", "$.a.length()", "$[", "@.a", "$$a", "$.*[0,1]", "$..[::-1]"} {
		if p, err := ParsePath(text); err == nil {
			t.Errorf("%q was read as %+v", text, p)
		}
	}
}

func TestSetMakesMembersButNoElements(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ document, path, want string }{
		{`{"a":1}`, "$", `0`},
		{`{"a":1}`, "$.b", `{"a":1,"b":0}`},
		{`{"a":1}`, "$.a", `{"a":0}`},
		{`{}`, "$.a.b.c", `{"a":{"b":{"c":0}}}`},
		{`{"a":[1,2]}`, "$.a[1]", `{"a":[1,0]}`},
		{`{"a":[{}]}`, "$.a[0].b", `{"a":[{"b":0}]}`},
		{`{"a":[]}`, "$.a[0]", ""},
		{`{"a":1}`, "$.a.b", ""},
		{`[]`, "$.a", ""},
		{`1`, "$.a", ""},
		{`null`, "$.a", ""},
		{`{}`, "$.a[0]", ""},
	} {
		p, err := ParseReference(test.path, false)
		if err != nil {
			t.Fatal(err)
		}
		before := decode(t, test.document)
		got, ok := p.Set(before, decode(t, "0"))
		if ok != (test.want != "") || ok && jsonvalue.MustEncode(got) != test.want {
			t.Errorf("%s in %s: got %v", test.path, test.document, got)
		}
		if jsonvalue.MustEncode(before) != test.document {
			t.Errorf("%s changed its document", test.path)
		}
	}
}

func TestWhatSetPutsGetFinds(t *testing.T) {
	t.Parallel()
	names := rapid.SampledFrom([]string{"a", "b", "c"})
	rapid.Check(t, func(t *rapid.T) {
		document := any(map[string]any{})
		for range rapid.IntRange(0, 5).Draw(t, "members") {
			document = put(t, document, rapid.SliceOfN(names, 1, 3).Draw(t, "at"), rapid.Bool().Draw(t, "value"))
		}
		before := jsonvalue.MustEncode(document)
		text := strings.Join(append([]string{"$"}, rapid.SliceOfN(names, 0, 4).Draw(t, "path")...), ".")
		p, err := ParseReference(text, false)
		if err != nil {
			t.Fatal(err)
		}
		if after, ok := p.Set(document, "new"); ok {
			if got, found := p.Get(after, nil); !found || got != "new" {
				t.Errorf("%s: got %v", text, got)
			}
		}
		if jsonvalue.MustEncode(document) != before {
			t.Errorf("%s changed %s", text, before)
		}
	})
}

func put(t *rapid.T, document any, at []string, value any) any {
	text := strings.Join(append([]string{"$"}, at...), ".")
	p, err := ParseReference(text, false)
	if err != nil {
		t.Fatal(err)
	}
	if out, ok := p.Set(document, value); ok {
		return out
	}
	return document
}

func TestCallsAreRead(t *testing.T) {
	t.Parallel()
	call, err := ParseCall(`States.Format('it\'s \{\} {} \\', $['a,)'].b, States.MathAdd( 1 , -2.5e1 ), null, true)`)
	if err != nil {
		t.Fatal(err)
	}
	if call.Function != "States.Format" || len(call.Args) != 5 || call.Args[0].Literal != `it's {} {} \` || call.Args[1].Path.String() != "$['a,)'].b" ||
		call.Args[2].Call.String() != "States.MathAdd( 1 , -2.5e1 )" || call.Args[3].Literal != nil || call.Args[4].Literal != true {
		t.Errorf("%+v", call)
	}
	for _, text := range []string{
		"", "States.MathAdd", "States.MathAdd(", "States.MathAdd(1,)", "States.MathAdd(1 2)", "States.MathAdd(1, 2) x", "States.MathAdd(1, 2))", "Other.Fn()",
		"States.Format('open)", `States.Format('\n')`, "States.MathAdd(01, 2)", "States.UUID(1)", "States.MathAdd(a, b)", "States.Array($.a[)",
	} {
		if got, err := ParseCall(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
	deep := "1"
	for range 11 {
		deep = "States.MathAdd(1, " + deep + ")"
	}
	if _, err := ParseCall(deep); err == nil {
		t.Error("11 nested calls were read")
	}
}

func FuzzParseExpression(f *testing.F) {
	for _, text := range []string{"$.a[?@.b]", "States.Array('a', $$.b, States.UUID())", `States.Format('\'`, "$['\\"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseExpression(text)
		if err == nil && (e.Path == nil) == (e.Call == nil) {
			t.Errorf("%q: %+v", text, e)
		}
	})
}

func TestIntrinsicsAreListed(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(intrinsics)), slices.Sorted(slices.Values(Intrinsics()))); diff != "" {
		t.Error(diff)
	}
}
