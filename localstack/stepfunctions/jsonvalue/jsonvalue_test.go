package jsonvalue

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestValuesComeOutAsTheyWentIn(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`9007199254740993`, `1.0`, `-0`, `1E+5`, `1e999999999`, `"<&>ä\u0001"`, `{"a":[null,true,{}],"b":""}`} {
		value, err := Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := MustEncode(value); got != text {
			t.Errorf("%s came out as %s", text, got)
		}
	}
}

func TestTextThatIsNotOneValueIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "nope", "{} {}", "01", "{'a':1}", "\"\xff\"", strings.Repeat("[", 1001) + strings.Repeat("]", 1001)} {
		if value, err := Decode([]byte(text)); err == nil {
			t.Errorf("%.20q was read as %v", text, value)
		}
	}
}

func TestIntegersAreRecognisedHoweverTheyAreWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"3": 3, "3.0": 3, "30e-1": 3, "-0": 0, "9007199254740993": 9007199254740993} {
		if got, ok := Int64(json.Number(text)); !ok || got != want {
			t.Errorf("%s: %d %v", text, got, ok)
		}
	}
	for _, text := range []string{"1.5", "1e19", "1e999999999", "0.1"} {
		if got, ok := Int64(json.Number(text)); ok {
			t.Errorf("%s is %d", text, got)
		}
	}
	for text, want := range map[string]string{"1.5": "2", "-1.5": "-1", "-1.6": "-2", "0.4999": "0", "-3.5": "-3", "1e2": "100"} {
		if got, ok := Round(json.Number(text)); !ok || got.String() != want {
			t.Errorf("%s rounds to %v", text, got)
		}
	}
	if _, ok := Round("1e999999999"); ok {
		t.Error("1e999999999 was rounded")
	}
}

func TestEqualIsEqualityOfValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[2]}`, `{"b":[2.0],"a":1e0}`, true},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`[1]`, `[1,2]`, false},
		{`null`, `null`, true},
		{`"1"`, `1`, false},
		{`{}`, `[]`, false},
		{`{"a":null}`, `{"b":null}`, false},
		{`true`, `false`, false},
	} {
		a, _ := Decode([]byte(test.a))
		b, _ := Decode([]byte(test.b))
		if Equal(a, b) != test.want || Equal(b, a) != test.want {
			t.Errorf("%s and %s: want %v", test.a, test.b, test.want)
		}
	}
}

func TestCompareOrdersIntegers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		want := 0
		if a != b {
			want = map[bool]int{true: -1, false: 1}[a < b]
		}
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		if got := Compare(json.Number(x), json.Number(y)); got != want {
			t.Errorf("%d against %d is %d", a, b, got)
		}
	})
}
