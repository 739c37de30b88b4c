package interpreter

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

var errArgument = errors.New("interpreter: wrong argument")

// argument is an evaluated argument; quoted is set for a string literal and
// still has its backslashes.
type argument struct {
	value  any
	quoted string
	isText bool
}

type intrinsic func(i *Interpreter, args []argument) (any, error)

var intrinsics = map[string]intrinsic{
	"States.Array":          array,
	"States.ArrayContains":  arrayContains,
	"States.ArrayGetItem":   arrayGetItem,
	"States.ArrayLength":    arrayLength,
	"States.ArrayPartition": arrayPartition,
	"States.ArrayRange":     arrayRange,
	"States.Base64Decode":   base64Decode,
	"States.Base64Encode":   base64Encode,
	"States.Format":         format,
	"States.JsonMerge":      jsonMerge,
	"States.MathAdd":        mathAdd,
	"States.StringSplit":    stringSplit,
	"States.StringToJson":   stringToJSON,
	"States.UUID":           uuid,
}

func (e *evaluation) call(c asl.Call, field string, input any) (any, *Failure) {
	args := make([]argument, len(c.Args))
	for n, a := range c.Args {
		value, failure := e.argument(a, field, input)
		if failure != nil {
			return nil, failure
		}
		args[n] = value
	}
	value, err := intrinsics[c.Function](e.interpreter, args)
	if err != nil {
		failure := e.runtime("The intrinsic function '%s' specified for the field '%s' failed: %v", c, field, err)
		failure.Error, failure.Fatal = asl.ErrorIntrinsicFailure, false
		return nil, failure
	}
	return value, nil
}

func (e *evaluation) argument(a asl.Argument, field string, input any) (argument, *Failure) {
	switch {
	case a.Path != nil:
		value, found := a.Path.Get(input, e.object)
		if !found {
			return argument{}, e.notFound(*a.Path, field, input)
		}
		return argument{value: value}, nil
	case a.Call != nil:
		value, failure := e.call(*a.Call, field, input)
		return argument{value: value}, failure
	default:
		_, isText := a.Literal.(string)
		return argument{value: a.Literal, quoted: a.Quoted, isText: isText}, nil
	}
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errArgument}, args...)...)
}

func list(a argument) ([]any, error) {
	if elements, ok := a.value.([]any); ok {
		return elements, nil
	}
	return nil, wrong("not an array")
}

func text(a argument) (string, error) {
	if s, ok := a.value.(string); ok {
		return s, nil
	}
	return "", wrong("not a string")
}

// whole rounds to the nearest integer, halves upwards, as AWS was seen to do.
func whole(a argument) (*big.Int, error) {
	if n, ok := a.value.(json.Number); ok {
		if i, ok := jsonvalue.Round(n); ok {
			return i, nil
		}
	}
	return nil, wrong("not a number")
}

func small(a argument) (int, error) {
	i, err := whole(a)
	if err != nil {
		return 0, err
	}
	if !i.IsInt64() || i.BitLen() > 31 {
		return 0, wrong("number out of range")
	}
	return int(i.Int64()), nil
}

func array(_ *Interpreter, args []argument) (any, error) {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = a.value
	}
	return out, nil
}

func arrayContains(_ *Interpreter, args []argument) (any, error) {
	elements, err := list(args[0])
	for _, element := range elements {
		if jsonvalue.Equal(element, args[1].value) {
			return true, nil
		}
	}
	return false, err
}

func arrayGetItem(_ *Interpreter, args []argument) (any, error) {
	elements, err := list(args[0])
	if err != nil {
		return nil, err
	}
	n, ok := args[1].value.(json.Number)
	if !ok {
		return nil, wrong("index is not a number")
	}
	i, ok := jsonvalue.Int64(n)
	if !ok || i < 0 || i >= int64(len(elements)) {
		return nil, wrong("index %s is outside of an array of %d", n, len(elements))
	}
	return elements[i], nil
}

func arrayLength(_ *Interpreter, args []argument) (any, error) {
	elements, err := list(args[0])
	return number(len(elements)), err
}

func arrayPartition(_ *Interpreter, args []argument) (any, error) {
	elements, err := list(args[0])
	if err != nil {
		return nil, err
	}
	size, err := small(args[1])
	if err != nil {
		return nil, err
	}
	if size < 1 {
		return nil, wrong("chunk size %d is not positive", size)
	}
	out := []any{}
	for start := 0; start < len(elements); start += size {
		out = append(out, elements[start:min(start+size, len(elements))])
	}
	return out, nil
}

// maxRange is the greatest number of elements that States.ArrayRange makes.
const maxRange = 1_000

func arrayRange(_ *Interpreter, args []argument) (any, error) {
	var bounds [3]int
	for i := range bounds {
		n, err := small(args[i])
		if err != nil {
			return nil, err
		}
		bounds[i] = n
	}
	first, last, by := bounds[0], bounds[1], bounds[2]
	if by == 0 {
		return nil, wrong("step is 0")
	}
	out := []any{}
	for n := first; by > 0 && n <= last || by < 0 && n >= last; n += by {
		if len(out) == maxRange {
			return nil, wrong("range of more than %d elements", maxRange)
		}
		out = append(out, number(n))
	}
	return out, nil
}

// maxEncode is the greatest length that the base64 functions take.
const maxEncode = 10_000

func encodable(a argument) (string, error) {
	s, err := text(a)
	if err == nil && utf8.RuneCountInString(s) > maxEncode {
		err = wrong("longer than %d characters", maxEncode)
	}
	return s, err
}

func base64Encode(_ *Interpreter, args []argument) (any, error) {
	s, err := encodable(args[0])
	return base64.StdEncoding.EncodeToString([]byte(s)), err
}

func base64Decode(_ *Interpreter, args []argument) (any, error) {
	s, err := encodable(args[0])
	if err != nil {
		return nil, err
	}
	decoded, err := base64.StdEncoding.DecodeString(s)
	if err != nil || !utf8.Valid(decoded) {
		return nil, wrong("not the base64 form of a text")
	}
	return string(decoded), nil
}

// format replaces each {} of a template by the next argument.
func format(_ *Interpreter, args []argument) (any, error) {
	pattern, err := text(args[0])
	if err != nil {
		return nil, err
	}
	if args[0].isText {
		pattern = args[0].quoted
	}
	var out strings.Builder
	rest := args[1:]
	for i := 0; i < len(pattern); i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern) && strings.IndexByte(`'\{}`, pattern[i+1]) >= 0:
			i++
			out.WriteByte(pattern[i])
		case strings.HasPrefix(pattern[i:], "{}"):
			if len(rest) == 0 {
				return nil, wrong("more {} than arguments")
			}
			if err := formatOne(&out, rest[0].value); err != nil {
				return nil, err
			}
			i, rest = i+1, rest[1:]
		default:
			out.WriteByte(pattern[i])
		}
	}
	if len(rest) > 0 {
		return nil, wrong("more arguments than {}")
	}
	return out.String(), nil
}

func formatOne(out *strings.Builder, value any) error {
	switch v := value.(type) {
	case string:
		out.WriteString(v)
	case nil, bool, json.Number:
		out.WriteString(jsonvalue.MustEncode(v))
	default:
		return wrong("an array or object can't be formatted")
	}
	return nil
}

func jsonMerge(_ *Interpreter, args []argument) (any, error) {
	first, ok := args[0].value.(map[string]any)
	second, alsoOK := args[1].value.(map[string]any)
	if !ok || !alsoOK {
		return nil, wrong("not an object")
	}
	if deep, ok := args[2].value.(bool); !ok || deep {
		return nil, wrong("only shallow merging (false) exists")
	}
	out := maps.Clone(first)
	maps.Copy(out, second)
	return out, nil
}

func mathAdd(_ *Interpreter, args []argument) (any, error) {
	a, err := whole(args[0])
	if err != nil {
		return nil, err
	}
	b, err := whole(args[1])
	if err != nil {
		return nil, err
	}
	return json.Number(new(big.Int).Add(a, b).String()), nil
}

// stringSplit splits at every character of the second argument.
func stringSplit(_ *Interpreter, args []argument) (any, error) {
	s, err := text(args[0])
	if err != nil {
		return nil, err
	}
	at, err := text(args[1])
	if err != nil {
		return nil, err
	}
	out := []any{}
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return strings.ContainsRune(at, r) }) {
		out = append(out, part)
	}
	return out, nil
}

func stringToJSON(_ *Interpreter, args []argument) (any, error) {
	s, err := text(args[0])
	if err != nil {
		return nil, err
	}
	return jsonvalue.Decode([]byte(s))
}

func uuid(i *Interpreter, _ []argument) (any, error) { return i.UUID(), nil }
