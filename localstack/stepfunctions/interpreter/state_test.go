package interpreter

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

var testInterpreter = &Interpreter{Random: func() float64 { return 0.5 }, UUID: func() string { return "uuid-1" }}

var testContext = Context{
	Execution: Execution{ID: "arn:e", Name: "e", RoleARN: "arn:r", Input: map[string]any{"in": json.Number("1")}, Started: time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)},
	Machine:   Machine{ID: "arn:m", Name: "m"}, StateName: "S", EnteredEvent: 2, RetryCount: 3, Token: "token", Item: &Item{Index: 4, Value: "v"},
	Entered: time.Date(2026, 1, 2, 3, 4, 6, 0, time.FixedZone("x", 3600)),
}

// state reads one state; a state that it needs beside it is added.
func state(t *testing.T, fields string) asl.State {
	t.Helper()
	machine, err := asl.Parse([]byte(`{"StartAt":"S","States":{"S":` + fields + `,"Z":{"Type":"Succeed"}}}`))
	if err != nil {
		if machine, err = asl.Parse([]byte(`{"StartAt":"S","States":{"S":` + fields + `}}`)); err != nil {
			t.Fatal(err)
		}
	}
	return machine.States["S"]
}

func decode(t *testing.T, text string) any {
	t.Helper()
	value, err := jsonvalue.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// outcome prints what Begin made of a state: its output or the failure.
func outcome(t *testing.T, fields, input string) string {
	t.Helper()
	raw := decode(t, input)
	step, failure := testInterpreter.Begin(state(t, fields), raw, testContext)
	if got := jsonvalue.MustEncode(raw); got != jsonvalue.MustEncode(decode(t, input)) {
		t.Errorf("the input was changed to %s", got)
	}
	if failure != nil {
		return failure.Error + ": " + strings.TrimPrefix(failure.Cause, "An error occurred while executing the state 'S' (entered at the event id #2). ")
	}
	switch s := step.(type) {
	case Advance:
		return jsonvalue.MustEncode(s.Output) + s.Next
	case Pause:
		if s.Until.IsZero() {
			return s.For.String()
		}
		return s.Until.UTC().Format(time.RFC3339)
	case Failed:
		return s.Failure.Error + "/" + s.Failure.Cause
	case Call:
		return jsonvalue.MustEncode(s.Parameters) + " " + s.Timeout.String() + " " + s.Heartbeat.String()
	default:
		t.Fatalf("%T", step)
		return ""
	}
}

func TestStatesDoWhatTheLanguageSays(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, fields, input, want string }{
		{"result", `{"Type":"Pass","Result":{"a.$":"$.x"},"End":true}`, `{}`, `{"a.$":"$.x"}`},
		{"null result", `{"Type":"Pass","Result":null,"ResultPath":"$.r","End":true}`, `{}`, `{"r":null}`},
		{"paths", `{"Type":"Pass","InputPath":"$.a","Parameters":{"x.$":"$.b"},"ResultPath":"$.r.s","OutputPath":"$.r","End":true}`, `{"a":{"b":7}}`, `{"s":{"x":7}}`},
		{"null paths", `{"Type":"Pass","InputPath":null,"End":true}`, `{"a":1}`, `{}`},
		{"null output path", `{"Type":"Pass","OutputPath":null,"End":true}`, `{"a":1}`, `{}`},
		{"discarded", `{"Type":"Pass","Result":1,"ResultPath":null,"End":true}`, `{"a":1}`, `{"a":1}`},
		{"list in a template", `{"Type":"Pass","Parameters":{"l":[1,{"x.$":"$.a"}]},"End":true}`, `{"a":2}`, `{"l":[1,{"x":2}]}`},
		{"context", `{"Type":"Pass","Parameters":{"c.$":"$$"},"End":true}`, `{}`, `{"c":{"Execution":{"Id":"arn:e","Input":{"in":1},"Name":"e","RedriveCount":0,"RoleArn":"arn:r","StartTime":"2026-01-02T03:04:05.006Z"},"Map":{"Item":{"Index":4,"Value":"v"}},"State":{"EnteredTime":"2026-01-02T02:04:06.000Z","Name":"S","RetryCount":3},"StateMachine":{"Id":"arn:m","Name":"m"},"Task":{"Token":"token"}}}`},
		{"no input", `{"Type":"Pass","InputPath":"$.x","End":true}`, `{}`, `States.Runtime: Invalid path '$.x' : No results for path: $['x']`},
		{"no parameter", `{"Type":"Pass","Parameters":{"y":{"x.$":"$.a"}},"End":true}`, `{"b":1}`, `States.Runtime: The JSONPath '$.a' specified for the field 'x.$' could not be found in the input '{"b":1}'`},
		{"result on a scalar", `{"Type":"Pass","ResultPath":"$.r","End":true}`, `1`, `States.ResultPathMatchFailure: Unable to apply ReferencePath $.r to input 1`},
		{"choice", `{"Type":"Choice","Choices":[{"Variable":"$.a","NumericEquals":1,"Next":"Z"}],"OutputPath":"$.a"}`, `{"a":1.0}`, `1.0Z`},
		{"no choice", `{"Type":"Choice","Choices":[{"Variable":"$.a","NumericEquals":1,"Next":"Z"}]}`, `{"a":2}`, `States.NoChoiceMatched: Failed to transition out of the state. The state does not point to a next state.`},
		{"no variable", `{"Type":"Choice","Choices":[{"Variable":"$.a","NumericEquals":1,"Next":"Z"}],"Default":"Z"}`, `{}`, `States.Runtime: Invalid path '$.a': The choice state's condition path references an invalid value.`},
		{"guarded variable", `{"Type":"Choice","Choices":[{"And":[{"Variable":"$.a","IsPresent":true},{"Variable":"$.a","NumericEquals":1}],"Next":"Z"}],"Default":"Z"}`, `{}`, `{}Z`},
		{"wait", `{"Type":"Wait","Seconds":7,"End":true}`, `{}`, `7s`},
		{"wait by path", `{"Type":"Wait","SecondsPath":"$.s","End":true}`, `{"s":3.0}`, `3s`},
		{"wait a fraction", `{"Type":"Wait","SecondsPath":"$.s","End":true}`, `{"s":1.5}`, `States.Runtime: The SecondsPath parameter cannot be parsed as a long value: $.s == 1.5`},
		{"wait backwards", `{"Type":"Wait","SecondsPath":"$.s","End":true}`, `{"s":-1}`, `States.Runtime: The SecondsPath parameter references a negative value: $.s == -1`},
		{"wait for ever", `{"Type":"Wait","SecondsPath":"$.s","End":true}`, `{"s":100000000}`, `States.Runtime: Wait state delay is too long.`},
		{"wait for nothing", `{"Type":"Wait","SecondsPath":"$.s","End":true}`, `{}`, `States.Runtime: The SecondsPath parameter does not reference an input value: $.s`},
		{"wait until", `{"Type":"Wait","Timestamp":"2026-03-14T01:59:00+01:00","End":true}`, `{}`, `2026-03-14T00:59:00Z`},
		{"wait until a path", `{"Type":"Wait","TimestampPath":"$.t","End":true}`, `{"t":"2026-03-14T01:59:00Z"}`, `2026-03-14T01:59:00Z`},
		{"wait until nonsense", `{"Type":"Wait","TimestampPath":"$.t","End":true}`, `{"t":"2016-12-05 21:29:29Z"}`, `States.Runtime: The TimestampPath parameter does not reference a valid ISO-8601 extended offset date-time format string: $.t == 2016-12-05 21:29:29Z`},
		{"succeed", `{"Type":"Succeed","InputPath":"$.a","OutputPath":"$.b"}`, `{"a":{"b":1}}`, `1`},
		{"fail", `{"Type":"Fail","Error":"E","Cause":"C"}`, `{}`, `E/C`},
		{"fail by path", `{"Type":"Fail","ErrorPath":"$.e","CausePath":"States.Format('{}!', $.c)"}`, `{"e":"E","c":1}`, `E/1!`},
		{"fail by nothing", `{"Type":"Fail","ErrorPath":"$.e"}`, `{}`, `States.Runtime: The JSONPath '$.e' specified for the field 'ErrorPath' could not be found in the input '{}'`},
		{"fail by a number", `{"Type":"Fail","ErrorPath":"$.e"}`, `{"e":1}`, `States.Runtime: The field 'ErrorPath' must refer to a string`},
		{"task", `{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName.$":"$.f"},"TimeoutSecondsPath":"$.t","HeartbeatSeconds":2,"End":true}`, `{"f":"g","t":9}`, `{"FunctionName":"g"} 9s 2s`},
		{"task without timeout", `{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName":"f"},"TimeoutSecondsPath":"$.t","End":true}`, `{"t":0}`, `States.Runtime: The TimeoutSecondsPath field refers to value "0" which is not a positive integer up to 99999999: $.t`},
		{"task with a number for a name", `{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName.$":"$.f"},"End":true}`, `{"f":1}`, `States.Runtime: The Parameters '{"FunctionName":1}' could not be used to start the Task: [The value for the field 'FunctionName' must be a STRING]`},
		{"late heartbeat", `{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName":"f"},"TimeoutSecondsPath":"$.t","HeartbeatSeconds":2,"End":true}`, `{"t":2}`, `States.Runtime: HeartbeatSeconds must be smaller than TimeoutSeconds`},
		{"negative concurrency", `{"Type":"Map","MaxConcurrencyPath":"$.n","ItemsPath":"$.l","ItemProcessor":{"StartAt":"I","States":{"I":{"Type":"Succeed"}}},"End":true}`, `{"n":-1,"l":[]}`, `States.Runtime: MaxConcurrency cannot be negative.`},
		{"concurrency as text", `{"Type":"Map","MaxConcurrencyPath":"$.n","ItemsPath":"$.l","ItemProcessor":{"StartAt":"I","States":{"I":{"Type":"Succeed"}}},"End":true}`, `{"n":"NoNumber","l":[]}`, `States.Runtime: The MaxConcurrencyPath field refers to value "NoNumber" which is not a valid integer: $.n`},
		{"items that are no list", `{"Type":"Map","ItemsPath":"$.l","ItemProcessor":{"StartAt":"I","States":{"I":{"Type":"Succeed"}}},"End":true}`, `{"l":{}}`, `States.Runtime: Reference path "$.l" must point to array.`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, outcome(t, test.fields, test.input)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestComparisons(t *testing.T) {
	t.Parallel()
	input := `{"s":"b","n":5,"big":9007199254740993,"t":"2026-01-01T00:00:00Z","y":true,"z":null,"o":{},"s2":"b","n2":5.0,"t2":"2026-01-01T01:00:00+01:00","y2":true,"star":"a*b"}`
	for condition, want := range map[string]bool{
		`"Variable":"$.s","StringEquals":"b"`: true, `"Variable":"$.s","StringEquals":"B"`: false, `"Variable":"$.n","StringEquals":"5"`: false,
		`"Variable":"$.s","StringLessThan":"c"`: true, `"Variable":"$.s","StringGreaterThan":"b"`: false, `"Variable":"$.s","StringGreaterThanEquals":"b"`: true, `"Variable":"$.s","StringLessThanEquals":"a"`: false,
		`"Variable":"$.s","StringEqualsPath":"$.s2"`: true, `"Variable":"$.s","StringEqualsPath":"$.n"`: false,
		`"Variable":"$.n","NumericEquals":5.00`: true, `"Variable":"$.n","NumericEqualsPath":"$.n2"`: true, `"Variable":"$.n","NumericLessThan":5`: false, `"Variable":"$.n","NumericLessThanEquals":5`: true,
		`"Variable":"$.n","NumericGreaterThan":4.999`: true, `"Variable":"$.n","NumericGreaterThanEquals":5.1`: false, `"Variable":"$.s","NumericEquals":5`: false,
		`"Variable":"$.big","NumericGreaterThan":9007199254740992`: true, `"Variable":"$.big","NumericEquals":9007199254740992`: false,
		`"Variable":"$.y","BooleanEquals":true`: true, `"Variable":"$.y","BooleanEquals":false`: false, `"Variable":"$.y","BooleanEqualsPath":"$.y2"`: true, `"Variable":"$.s","BooleanEquals":true`: false,
		`"Variable":"$.t","TimestampEquals":"2026-01-01T00:00:00Z"`: true, `"Variable":"$.t","TimestampEqualsPath":"$.t2"`: true, `"Variable":"$.t","TimestampLessThan":"2026-01-01T00:00:00.001Z"`: true,
		`"Variable":"$.t","TimestampGreaterThan":"2026-01-01T00:00:00Z"`: false, `"Variable":"$.s","TimestampLessThan":"2026-01-01T00:00:00Z"`: false,
		`"Variable":"$.s","IsString":true`: true, `"Variable":"$.n","IsString":true`: false, `"Variable":"$.n","IsString":false`: true, `"Variable":"$.n","IsNumeric":true`: true, `"Variable":"$.y","IsBoolean":true`: true,
		`"Variable":"$.z","IsNull":true`: true, `"Variable":"$.o","IsNull":true`: false, `"Variable":"$.t","IsTimestamp":true`: true, `"Variable":"$.s","IsTimestamp":true`: false,
		`"Variable":"$.z","IsPresent":true`: true, `"Variable":"$.no.no","IsPresent":true`: false, `"Variable":"$.no","IsPresent":false`: true, `"Variable":"$$.State.Name","StringEquals":"S"`: true,
		`"Variable":"$.star","StringMatches":"a\\*b"`: true, `"Variable":"$.s","StringMatches":"*"`: true, `"Variable":"$.n","StringMatches":"*"`: false,
		`"Not":{"Variable":"$.s","StringEquals":"b"}`: false, `"Not":{"Variable":"$.s","StringEquals":"x"}`: true,
		`"And":[{"Variable":"$.s","StringEquals":"b"},{"Variable":"$.n","NumericEquals":5}]`: true, `"And":[{"Variable":"$.s","StringEquals":"x"},{"Variable":"$.no","NumericEquals":5}]`: false,
		`"Or":[{"Variable":"$.s","StringEquals":"b"},{"Variable":"$.no","NumericEquals":5}]`: true, `"Or":[{"Variable":"$.s","StringEquals":"x"},{"Variable":"$.n","NumericEquals":6}]`: false,
	} {
		machine := `{"StartAt":"S","States":{"S":{"Type":"Choice","Choices":[{` + condition + `,"Next":"Y"}],"Default":"N"},"Y":{"Type":"Succeed"},"N":{"Type":"Succeed"}}}`
		parsed, err := asl.Parse([]byte(machine))
		if err != nil {
			t.Errorf("%s: %v", condition, err)
			continue
		}
		step, failure := testInterpreter.Begin(parsed.States["S"], decode(t, input), testContext)
		if failure != nil {
			t.Errorf("%s: %s", condition, failure.Cause)
			continue
		}
		if got := step.(Advance).Next == "Y"; got != want {
			t.Errorf("%s is %v", condition, got)
		}
	}
}

func TestIntrinsicFunctions(t *testing.T) {
	t.Parallel()
	input := `{"s":"a,b","n":5,"l":[1,2,3,4,5],"o":{"a":1,"b":2},"p":{"b":3},"j":"{\"x\":[1.0]}"}`
	tests := map[string]string{
		"States.MathAdd($.n, 1)": "6", "States.MathAdd(1.49, 1.5)": "3", "States.MathAdd(1.5, 1.51)": "4", "States.MathAdd(-1.5, 0)": "-1", "States.MathAdd(-2.5, 0)": "-2", "States.MathAdd(9007199254740993, 1)": "9007199254740994",
		"States.ArrayGetItem($.l, 4)": "5", "States.ArrayGetItem($.l, 5)": "fails", "States.ArrayGetItem($.l, -1)": "fails", "States.ArrayGetItem($.l, 0.5)": "fails", "States.ArrayGetItem($.n, 0)": "fails",
		"States.Array()": "[]", "States.Array($.n, 'x', null)": `[5,"x",null]`, "States.ArrayLength($.l)": "5", "States.ArrayLength($.s)": "fails",
		"States.ArrayContains($.l, 3.0)": "true", "States.ArrayContains($.l, '3')": "false", "States.ArrayPartition($.l, 2)": "[[1,2],[3,4],[5]]", "States.ArrayPartition($.l, 0)": "fails",
		"States.ArrayRange(1, 9, 2)": "[1,3,5,7,9]", "States.ArrayRange(0, 10, 3)": "[0,3,6,9]", "States.ArrayRange(3, 1, -1)": "[3,2,1]", "States.ArrayRange(0, 1, 0)": "fails", "States.ArrayRange(1, 1001, 1)": "fails",
		"States.Format('{} and {}', $.s, $.n)": `"a,b and 5"`, `States.Format('\{\}{}\'', null)`: `"{}null'"`, "States.Format('{}')": "fails", "States.Format('x', 1)": "fails", "States.Format('{}', $.o)": "fails", "States.Format($.s)": `"a,b"`,
		"States.StringSplit($.s, ',')": `["a","b"]`, "States.StringSplit('This.is+a,test=string', '.+,=')": `["This","is","a","test","string"]`, "States.StringSplit(',,,', ',')": "[]",
		"States.StringToJson($.j)": `{"x":[1.0]}`, "States.StringToJson('nope')": "fails", "States.JsonMerge($.o, $.p, false)": `{"a":1,"b":3}`, "States.JsonMerge($.o, $.p, true)": "fails", "States.JsonMerge($.l, $.p, false)": "fails",
		"States.Base64Encode('ä')": `"w6Q="`, "States.Base64Decode('w6Q=')": `"ä"`, "States.Base64Decode('!')": "fails", "States.UUID()": `"uuid-1"`, "States.MathAdd($.s, 1)": "fails",
		"States.ArrayGetItem(States.StringSplit($.s, ','), States.MathAdd(0, 1))": `"b"`,
	}
	covered := map[string]bool{}
	for call, want := range tests {
		name, _, _ := strings.Cut(call, "(")
		covered[name] = true
		fields := map[string]any{"Type": "Pass", "Parameters": map[string]any{"r.$": call}, "OutputPath": "$.r", "End": true}
		s := state(t, jsonvalue.MustEncode(fields))
		step, failure := testInterpreter.Begin(s, decode(t, input), testContext)
		switch {
		case want == "fails":
			if failure == nil || failure.Error != "States.IntrinsicFailure" || failure.Fatal {
				t.Errorf("%s: %+v %+v", call, step, failure)
			}
		case failure != nil:
			t.Errorf("%s: %s", call, failure.Cause)
		case jsonvalue.MustEncode(step.(Advance).Output) != want:
			t.Errorf("%s: %s, want %s", call, jsonvalue.MustEncode(step.(Advance).Output), want)
		}
	}
	known := slices.Sorted(slices.Values(asl.Intrinsics()))
	if diff := cmp.Diff(known, slices.Sorted(maps.Keys(covered))); diff != "" {
		t.Errorf("read and tested: %s", diff)
	}
	if diff := cmp.Diff(known, slices.Sorted(maps.Keys(intrinsics))); diff != "" {
		t.Errorf("read and implemented: %s", diff)
	}
}

func TestPatternsMatchAsTheirRegularExpression(t *testing.T) {
	t.Parallel()
	letters := rapid.StringOfN(rapid.SampledFrom([]rune("ab*")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		value, pattern := letters.Draw(t, "value"), letters.Draw(t, "pattern")
		if got, want := matches(value, pattern), glob(value, pattern); got != want {
			t.Errorf("%q matches %q: %v", value, pattern, got)
		}
	})
}

// glob is the plain recursive definition of a pattern with *.
func glob(value, pattern string) bool {
	switch {
	case pattern == "":
		return value == ""
	case pattern[0] == '*':
		return glob(value, pattern[1:]) || value != "" && glob(value[1:], pattern)
	default:
		return value != "" && value[0] == pattern[0] && glob(value[1:], pattern[1:])
	}
}

func TestNumbersCompareExactly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?(e[+-]?[0-9])?`)
		a, b := digits.Draw(t, "a"), digits.Draw(t, "b")
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		// Decimal fractions have no exact binary form; only what differs in the first 150 digits is told apart.
		if got := jsonvalue.Compare(json.Number(a), json.Number(b)); got != x.Cmp(y) {
			t.Errorf("%s against %s is %d", a, b, got)
		}
	})
}

func TestRecoverTellsRetryFromCatchFromNeither(t *testing.T) {
	t.Parallel()
	s := state(t, `{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName":"f"},
		"Retry":[{"ErrorEquals":["A"],"IntervalSeconds":10,"MaxAttempts":2,"JitterStrategy":"FULL"}],"Catch":[{"ErrorEquals":["A"],"ResultPath":"$.e","Next":"Z"}],"OutputPath":"$.kept","End":true}`)
	raw := decode(t, `{"kept":1}`)
	first, failure := testInterpreter.Recover(s, raw, NewFailure("A", "why"), nil, testContext)
	if failure != nil || first.Retrier != 0 || first.Delay != 5*time.Second {
		t.Errorf("%+v", first)
	}
	last, failure := testInterpreter.Recover(s, raw, NewFailure("A", "why"), []int{2}, testContext)
	if failure != nil || last.Caught == nil || last.Caught.Next != "Z" || jsonvalue.MustEncode(last.Caught.Output) != `{"e":{"Cause":"why","Error":"A"},"kept":1}` {
		t.Errorf("%+v", last)
	}
	if other, _ := testInterpreter.Recover(s, raw, NewFailure("B", ""), nil, testContext); other.Retrier != -1 || other.Caught != nil {
		t.Errorf("%+v", other)
	}
	if long := NewFailure("A", strings.Repeat("ä", 40_000)); len(long.Cause) != 2*32_768 {
		t.Errorf("a cause of %d bytes", len(long.Cause))
	}
}
