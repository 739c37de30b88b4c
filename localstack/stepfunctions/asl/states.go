package asl

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The types of states.
const (
	TypePass    = "Pass"
	TypeTask    = "Task"
	TypeChoice  = "Choice"
	TypeWait    = "Wait"
	TypeMap     = "Map"
	TypeSucceed = "Succeed"
	TypeFail    = "Fail"
)

func (p *parser) state(name string, value any, at string) State {
	f, ok := p.fields(value, at)
	if !ok {
		return nil
	}
	kind := f.oneOf("Type", TypePass, TypeTask, TypeChoice, TypeWait, TypeMap, TypeSucceed, TypeFail)
	f.require("Type")
	f.text("Comment")
	f.oneOf("QueryLanguage", "JSONPath")
	base := Common{Name: name, Type: kind}
	var state State
	switch kind {
	case TypePass:
		state = f.pass(base)
	case TypeTask:
		state = f.task(base)
	case TypeChoice:
		state = f.choice(base)
	case TypeWait:
		state = f.wait(base)
	case TypeMap:
		state = f.mapState(base)
	case TypeSucceed:
		f.inputOutput(&base)
		state = &Succeed{Common: base}
	case TypeFail:
		state = f.failState(base)
	default:
		return nil
	}
	f.done()
	return state
}

func (f *fields) inputOutput(base *Common) {
	base.InputPath = f.path("InputPath", "$")
	base.OutputPath = f.path("OutputPath", "$")
}

// transition reads Next or End, of which there must be exactly one.
func (f *fields) transition(base *Common) {
	f.inputOutput(base)
	end := false
	if value, ok := f.take("End"); ok {
		if end, ok = value.(bool); !ok {
			f.fail("End", "Expected value of type Boolean")
		}
	}
	base.Next, _ = f.text("Next")
	if end == f.has("Next") {
		f.parser.report(CodeSchema, f.at, "Exactly one of 'Next' and 'End': true is required")
	}
}

func (f *fields) pass(base Common) State {
	f.transition(&base)
	state := &Pass{Common: base, Parameters: f.template("Parameters"), ResultPath: f.resultPath()}
	state.Result, state.HasResult = f.take("Result")
	return state
}

func (f *fields) wait(base Common) State {
	f.transition(&base)
	if f.exclusive("Seconds", "SecondsPath", "Timestamp", "TimestampPath") == 0 {
		f.require("Seconds")
	}
	state := &Wait{Common: base, Seconds: f.seconds("Seconds", 0), TimestampPath: f.reference("TimestampPath")}
	if text, ok := f.text("Timestamp"); ok {
		at, err := ParseTimestamp(text)
		if err != nil {
			f.fail("Timestamp", "The Timestamp field cannot be parsed as an ISO-8601 extended offset date-time format string: %s", text)
		}
		state.Timestamp = at
	}
	return state
}

func (f *fields) failState(base Common) State {
	f.exclusive("Error", "ErrorPath")
	f.exclusive("Cause", "CausePath")
	state := &Fail{Common: base, ErrorAt: f.failExpression("ErrorPath"), CauseAt: f.failExpression("CausePath")}
	state.Error, _ = f.text("Error")
	state.Cause, _ = f.text("Cause")
	return state
}

// failIntrinsics are the functions that AWS allows in ErrorPath and CausePath.
var failIntrinsics = []string{"States.Format", "States.ArrayGetItem", "States.Base64Encode", "States.Base64Decode", "States.UUID"}

func (f *fields) failExpression(name string) *Expression {
	text, ok := f.text(name)
	if !ok {
		return nil
	}
	e, err := ParseExpression(text)
	if err == nil && e.Path != nil {
		_, err = ParseReference(text, true)
	}
	if err == nil && e.Call != nil && !slices.Contains(failIntrinsics, e.Call.Function) {
		err = fmt.Errorf("%w here: %s", errIntrinsicUnknown, e.Call.Function)
	}
	if err != nil {
		f.fail(name, "%v", err)
		return nil
	}
	return &e
}

func (f *fields) mapState(base Common) State {
	f.transition(&base)
	state := &Map{
		Common: base, ItemSelector: f.template("ItemSelector"), ResultSelector: f.template("ResultSelector"),
		ResultPath: f.resultPath(), Retry: f.retry(), Catch: f.catch(),
	}
	items := f.reference("ItemsPath")
	if items == nil {
		items = &Path{text: "$"}
	}
	state.ItemsPath = *items
	f.exclusive("MaxConcurrency", "MaxConcurrencyPath")
	state.Concurrency = int(f.integer("MaxConcurrency", 0, maxSeconds, 0))
	state.ConcurrentPath = f.reference("MaxConcurrencyPath")
	f.require("ItemProcessor")
	value, ok := f.take("ItemProcessor")
	if !ok {
		return state
	}
	if processor, ok := f.parser.fields(value, f.place("ItemProcessor")); ok {
		processor.inline()
		state.Processor = f.parser.workflow(processor)
		processor.done()
	}
	return state
}

// inline reads the head of an ItemProcessor; only INLINE runs here.
func (f *fields) inline() {
	f.text("Comment")
	value, ok := f.take("ProcessorConfig")
	if !ok {
		return
	}
	if config, ok := f.parser.fields(value, f.place("ProcessorConfig")); ok {
		config.oneOf("Mode", "INLINE")
		config.done()
	}
}

// ParseTimestamp reads an RFC 3339 time with an upper-case T and, without an
// offset, an upper-case Z.
func ParseTimestamp(text string) (time.Time, error) {
	if strings.ContainsAny(text, "tz") {
		return time.Time{}, fmt.Errorf("asl: %q must have upper-case T and Z", text)
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("asl: not a timestamp: %w", err)
	}
	return at, nil
}
