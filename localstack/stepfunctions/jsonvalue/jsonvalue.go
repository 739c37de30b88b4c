// Package jsonvalue reads and writes the JSON values that pass through a state
// machine. A value is nil, bool, string, [json.Number], []any or
// map[string]any. Numbers keep the digits that they were written with, so that
// 9007199254740993 leaves a machine as it came in. Object members are written
// in the order of their names. Values are shared between states: never change
// one in place.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"unicode/utf8"
)

// MaxBytes is the limit of an input, output or result, in bytes of UTF-8.
const MaxBytes = 262_144

// maxDepth bounds the nesting of a value, so that no input exhausts the stack.
const maxDepth = 1_000

var (
	errInvalidUTF8 = errors.New("jsonvalue: not valid UTF-8")
	errTrailing    = errors.New("jsonvalue: more than one JSON value")
	errEmpty       = errors.New("jsonvalue: no JSON value")
)

// Decode reads exactly one JSON value and keeps its numbers as written. Of
// members with one name the last wins, as on AWS.
func Decode(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, errInvalidUTF8
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errEmpty
		}
		return nil, fmt.Errorf("jsonvalue: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errTrailing
	}
	if depth(value) > maxDepth {
		return nil, fmt.Errorf("jsonvalue: nested deeper than %d", maxDepth)
	}
	return value, nil
}

// Encode writes value as compact JSON, without escapes for HTML.
func Encode(value any) (string, error) {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", fmt.Errorf("jsonvalue: %w", err)
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// MustEncode is Encode for values that Decode or the interpreter made; any
// other value is a programming error and panics.
func MustEncode(value any) string {
	text, err := Encode(value)
	if err != nil {
		panic(err)
	}
	return text
}

// Equal tells whether two values are the same JSON value; 1, 1.0 and 1e0 are.
func Equal(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for name, member := range x {
			other, ok := y[name]
			if !ok || !Equal(member, other) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !Equal(x[i], y[i]) {
				return false
			}
		}
		return true
	case json.Number:
		y, ok := b.(json.Number)
		return ok && Compare(x, y) == 0
	default:
		return a == b
	}
}

// Compare orders two numbers exactly for up to 150 significant digits.
func Compare(a, b json.Number) int {
	return float(a).Cmp(float(b))
}

// Integer returns the number as an integer if it is one, however it is
// written (3, 3.0, 30e-1); magnitudes above 10^400 are no integers here.
func Integer(n json.Number) (*big.Int, bool) {
	f := float(n)
	if f.IsInf() || !f.IsInt() || f.MantExp(nil) > 1_330 {
		return nil, false
	}
	i, _ := f.Int(nil)
	return i, true
}

// Int64 returns the number as an int64 if it is a whole number in its range.
func Int64(n json.Number) (int64, bool) {
	i, ok := Integer(n)
	if !ok || !i.IsInt64() {
		return 0, false
	}
	return i.Int64(), true
}

// Round returns the nearest integer, halves upwards: -1.5 is -1, 1.5 is 2.
func Round(n json.Number) (*big.Int, bool) {
	f := float(n)
	if f.IsInf() || f.MantExp(nil) > 1_330 {
		return nil, false
	}
	f = new(big.Float).SetPrec(precision).Add(f, big.NewFloat(0.5))
	i, accuracy := f.Int(nil)
	if accuracy == big.Above {
		i.Sub(i, big.NewInt(1))
	}
	return i, true
}

// precision in bits holds any integer that a 150-digit number can be.
const precision = 512

// float parses with bounded precision, so that 1e999999999 costs nothing.
func float(n json.Number) *big.Float {
	f, _, err := big.ParseFloat(n.String(), 10, precision, big.ToNearestEven)
	if err != nil && f == nil {
		return new(big.Float)
	}
	return f
}

func depth(value any) int {
	deepest := 0
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			deepest = max(deepest, depth(member))
		}
	case []any:
		for _, element := range v {
			deepest = max(deepest, depth(element))
		}
	default:
		return 0
	}
	return deepest + 1
}
