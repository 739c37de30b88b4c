package canonjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/canonjson"
)

type vector struct {
	Why, In, Out, Error, At string
}

func vectors(tb testing.TB) []vector {
	tb.Helper()
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		tb.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(raw, &all); err != nil {
		tb.Fatal(err)
	}
	return all
}

var reasons = map[string]error{
	"number": canonjson.ErrNumber, "duplicate": canonjson.ErrDuplicate, "utf8": canonjson.ErrUTF8, "syntax": canonjson.ErrSyntax,
}

func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		t.Run(v.Why, func(t *testing.T) {
			t.Parallel()
			before := []byte(v.In)
			out, err := canonjson.Canonical(before)
			if string(before) != v.In {
				t.Error("the input was changed")
			}
			if v.Error == "" {
				if err != nil || string(out) != v.Out {
					t.Errorf("got %s, %v; want %s", out, err, v.Out)
				}
				return
			}
			e, ok := errors.AsType[*canonjson.Error](err)
			if !ok || !errors.Is(err, reasons[v.Error]) || e.Pointer != v.At || out != nil {
				t.Errorf("got %s, %v; want %s at %q", out, err, v.Error, v.At)
			}
		})
	}
}

func TestInvalidUTF8IsRefusedAndNotQuoted(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"\"secret\xff\"", "{\"secret\xff\":1}", "\xff"} {
		_, err := canonjson.Canonical([]byte(in))
		if !errors.Is(err, canonjson.ErrUTF8) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// Another library agrees wherever it does not lose a number on the way.
func TestSecondImplementationAgrees(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(anyJSON(3).Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		agree(t, raw)
	})
	for _, v := range vectors(t) {
		agree(t, []byte(v.In))
	}
}

type fataler interface {
	Helper()
	Errorf(format string, args ...any)
}

func agree(t fataler, raw []byte) {
	t.Helper()
	ours, err := canonjson.Canonical(raw)
	if err != nil {
		return
	}
	theirs, err := jcs.Transform(raw)
	if err != nil {
		return // it takes objects and arrays only, and counts on their depth
	}
	if !bytes.Equal(ours, theirs) {
		t.Errorf("%s: ours %s, theirs %s", raw, ours, theirs)
	}
}

func anyJSON(depth int) *rapid.Generator[any] {
	text := rapid.Custom(func(t *rapid.T) any { return strings.ToValidUTF8(rapid.String().Draw(t, "text"), "?") })
	number := rapid.Custom(func(t *rapid.T) any { return json.Number(number().Draw(t, "number")) })
	kinds := []*rapid.Generator[any]{text, number, rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](false)}
	if depth > 0 {
		child := anyJSON(depth - 1)
		kinds = append(kinds,
			rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(child, 0, 4).Draw(t, "array") }),
			rapid.Custom(func(t *rapid.T) any {
				return rapid.MapOfN(rapid.Map(rapid.String(), func(s string) string { return strings.ToValidUTF8(s, "?") }), child, 0, 4).Draw(t, "object")
			}))
	}
	return rapid.OneOf(kinds...)
}

func number() *rapid.Generator[string] {
	return rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?`)
}

// A number is accepted exactly if its canonical form is the same rational, and
// is not minus zero.
func TestNumberIsRefusedExactlyIfItsValueWouldChange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := number().Draw(t, "number")
		exact, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("%s is no number", s)
		}
		out, err := canonjson.Canonical([]byte(s))
		f, _ := exact.Float64()
		kept, ok := new(big.Rat).SetString(shortest(f))
		survives := ok && kept.Cmp(exact) == 0 && (exact.Sign() != 0 || s[0] != '-')
		if survives != (err == nil) {
			t.Fatalf("%s: survives %t, got %s, %v", s, survives, out, err)
		}
		if err == nil {
			if again, ok := new(big.Rat).SetString(string(out)); !ok || again.Cmp(exact) != 0 {
				t.Fatalf("%s became %s", s, out)
			}
		}
	})
}

func shortest(f float64) string {
	b, err := json.Marshal(f)
	if err != nil {
		return ""
	}
	return string(b)
}

func FuzzCanonical(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add([]byte(v.In))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		out, err := canonjson.Canonical(raw)
		if err != nil {
			if _, ok := errors.AsType[*canonjson.Error](err); !ok {
				t.Fatalf("an error without a reason: %v", err)
			}
			return
		}
		again, err := canonjson.Canonical(out)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("%s is not its own canonical form: %s, %v", out, again, err)
		}
		if diff := cmp.Diff(meaning(t, raw), meaning(t, out)); diff != "" {
			t.Fatalf("%s and %s mean different things:\n%s", raw, out, diff)
		}
		agree(t, raw)
	})
}

// meaning reads a text with every number as its exact value.
func meaning(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return exact(v)
}

func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	}
	return v
}

func BenchmarkCanonical(b *testing.B) {
	raw := []byte(`{"account_id":"A1","amount_cents":2500,"note":"for the late parcel","lines":[{"sku":"x","n":2},{"sku":"y","n":1}]}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := canonjson.Canonical(raw); err != nil {
			b.Fatal(err)
		}
	}
}
