package canonjson_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/canonjson"
)

type target struct {
	Name   string          `json:"name"`
	N      int             `json:"n"`
	Exact  json.Number     `json:"exact"`
	Raw    json.RawMessage `json:"raw"`
	At     time.Time       `json:"at"`
	Wait   time.Duration   `json:"wait"`
	Bytes  []byte          `json:"bytes"`
	Inner  []inner         `json:"inner"`
	Free   map[string]any  `json:"free"`
	NoName float64
}

type inner struct {
	X *int `json:"x"`
}

// What Decode accepts, encoding/json reads in the same way.
func TestDecodeReadsAsTheStandardLibraryDoes(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		`{}`, `null`,
		`{"name":"a","n":-3,"exact":1e2,"raw":{"b":[1]},"at":"2026-11-29T10:00:00Z","wait":5,"bytes":"aGk=","inner":[{"x":1},{"x":null},{}],"free":{"a":1.5},"NoName":2.5}`,
		`{"name":null,"n":null,"exact":null,"inner":null,"free":null}`,
	} {
		var ours, theirs target
		if err := canonjson.Decode([]byte(in), &ours); err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if err := json.Unmarshal([]byte(in), &theirs); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("%s:\n%s", in, diff)
		}
	}
}

func TestDecodeRefusesWhatTheStandardLibraryLetsPass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in, field string
		want      error
	}{
		{`{"Name":"a"}`, "Name", canonjson.ErrUnknownName},
		{`{"inner":[{},{"y":1}]}`, "inner.1.y", canonjson.ErrUnknownName},
		{`{"noname":1}`, "noname", canonjson.ErrUnknownName},
		{`{"name":"a","name":"b"}`, "name", canonjson.ErrDuplicate},
		{`{"free":{"a":1,"\u0061":2}}`, "free.a", canonjson.ErrDuplicate},
		{`{"raw":{"a":1,"a":2}}`, "raw.a", canonjson.ErrDuplicate},
		{`{"name":1}`, "name", canonjson.ErrType},
		{`{"n":1.5}`, "n", canonjson.ErrType},
		{`{"n":"1"}`, "n", canonjson.ErrType},
		{`{"inner":[{"x":true}]}`, "inner.0.x", canonjson.ErrType},
		{`[]`, "", canonjson.ErrType},
		{`{} {}`, "", canonjson.ErrSyntax},
		{`{`, "", canonjson.ErrSyntax},
		{``, "", canonjson.ErrSyntax},
		{"{\"name\":\"\xff\"}", "", canonjson.ErrUTF8},
		{`{"name":"\ud800"}`, "name", canonjson.ErrUTF8},
	} {
		var v target
		err := canonjson.Decode([]byte(c.in), &v)
		e, ok := errors.AsType[*canonjson.Error](err)
		if !ok || !errors.Is(err, c.want) || e.Field() != c.field {
			t.Errorf("%s: got %v, want %v at %q", c.in, err, c.want, c.field)
		}
	}
}

func TestTextsAreFoundOnlyWhereTheyStandOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want map[string]string
		ok   bool
	}{
		{`{"a":"1","b":{"id":"2"},"c":[{"a":"3"}]}`, map[string]string{"/a": "1", "/b/id": "2"}, true},
		{`{"b":{"id":"2","x":1,"x":2},"y":{"a":"3"}}`, map[string]string{"/b/id": "2"}, true},
		{"{\"a\":\"1\",\"z\":\"\xff\"}", map[string]string{"/a": "1"}, true},
		{`{"a":"1","a":"1"}`, nil, false},
		{`{"b":{"id":"1"},"b":{"id":"2"}}`, nil, false},
		{`{"a":1}`, nil, false},
		{`{"a":{"a":"1"}}`, nil, false},
		{`{"a":"1"`, nil, false},
		{``, nil, false},
		{`"a"`, map[string]string{}, true},
	} {
		got, ok := canonjson.Texts([]byte(c.in), "/a", "/b/id")
		if diff := cmp.Diff(c.want, got); ok != c.ok || diff != "" {
			t.Errorf("%s: ok %t\n%s", c.in, ok, diff)
		}
	}
}

func TestNamesOfAnObject(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		`{"b":{"x":1},"a":[{"y":2}],"é":3}`: {"b", "a", "é"}, `{}`: nil, `[1]`: nil, `{"a":`: {"a"}, ``: nil,
	} {
		if diff := cmp.Diff(want, canonjson.Names([]byte(in))); diff != "" {
			t.Errorf("%s:\n%s", in, diff)
		}
	}
}
