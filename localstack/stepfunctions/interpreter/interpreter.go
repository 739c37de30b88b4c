// Package interpreter gives the states of a machine their meaning. Begin,
// Resume and Recover are functions of a state, its input and the context
// object; they do no I/O, know no time but what the context says, and change
// nothing that they are given. Who calls them schedules: it invokes, waits,
// fans out and keeps the history.
package interpreter

import (
	"github.com/onceward/onceward/localstack/stepfunctions/asl"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// Interpreter holds the two sources of chance that the language has.
type Interpreter struct {
	// Random returns a number in [0, 1), for jitter.
	Random func() float64
	// UUID returns a fresh version 4 UUID, for States.UUID.
	UUID func() string
}

// Step is what a state asks for once it has its input: one of Advance, Pause,
// Call, FanOut, Failed.
type Step interface{ step() }

// Advance means that the state is over.
type Advance struct {
	Output any
	Next   string // empty at the end of the workflow
}

// Begin evaluates a state up to the point where it needs the world: raw is
// the state's input as the state before it left it.
func (i *Interpreter) Begin(state asl.State, raw any, context Context) (Step, *Failure) {
	e := evaluation{interpreter: i, context: context, object: context.value()}
	input, failure := e.selectAt(state.Base().InputPath, raw)
	if failure != nil {
		return nil, failure
	}
	switch s := state.(type) {
	case *asl.Pass:
		return e.pass(s, raw, input)
	case *asl.Task:
		return e.task(s, input)
	case *asl.Choice:
		return e.choice(s, input)
	case *asl.Wait:
		return e.wait(s, input)
	case *asl.Map:
		return e.fanOut(s, input)
	case *asl.Fail:
		return e.fail(s, raw)
	default: // *asl.Succeed
		return e.advance(state.Base(), input)
	}
}

// Resume ends a Task or a Map with its result.
func (i *Interpreter) Resume(state asl.State, raw, result any, context Context) (Advance, *Failure) {
	e := evaluation{interpreter: i, context: context, object: context.value()}
	var selector *asl.Template
	var target asl.ResultPath
	switch s := state.(type) {
	case *asl.Task:
		selector, target = s.ResultSelector, s.ResultPath
	case *asl.Map:
		selector, target = s.ResultSelector, s.ResultPath
	}
	if selector != nil {
		selected, failure := e.template(*selector, "ResultSelector", result)
		if failure != nil {
			return Advance{}, failure
		}
		result = selected
	}
	output, failure := e.place(target, raw, result)
	if failure != nil {
		return Advance{}, failure
	}
	return e.advance(state.Base(), output)
}

// evaluation is one look at one state.
type evaluation struct {
	interpreter *Interpreter
	context     Context
	object      any // the context object
}

// advance applies OutputPath and the size limit.
func (e *evaluation) advance(base *asl.Common, value any) (Advance, *Failure) {
	output, failure := e.selectAt(base.OutputPath, value)
	if failure != nil {
		return Advance{}, failure
	}
	if len(jsonvalue.MustEncode(output)) > jsonvalue.MaxBytes {
		return Advance{}, tooLarge(base.Name)
	}
	return Advance{Output: output, Next: base.Next}, nil
}

// selectAt applies InputPath or OutputPath; null stands for {}.
func (e *evaluation) selectAt(path *asl.Path, value any) (any, *Failure) {
	if path == nil {
		return map[string]any{}, nil
	}
	return e.at(*path, value)
}

// at reads a path that is a field by itself, outside of a template.
func (e *evaluation) at(path asl.Path, input any) (any, *Failure) {
	value, found := path.Get(input, e.object)
	if !found {
		return nil, e.runtime("Invalid path '%s' : No results for path: %s", path, path.Missing())
	}
	return value, nil
}

// place puts a result where ResultPath says.
func (e *evaluation) place(target asl.ResultPath, raw, result any) (any, *Failure) {
	if target.Discard {
		return raw, nil
	}
	output, ok := target.Path.Set(raw, result)
	if !ok {
		return nil, &Failure{
			Error: asl.ErrorResultPathMatchFailure,
			Cause: "Unable to apply ReferencePath " + target.Path.String() + " to input " + jsonvalue.MustEncode(raw),
		}
	}
	return output, nil
}

func (e *evaluation) pass(s *asl.Pass, raw, input any) (Step, *Failure) {
	result := input
	if s.Parameters != nil {
		var failure *Failure
		if result, failure = e.template(*s.Parameters, "Parameters", input); failure != nil {
			return nil, failure
		}
	}
	if s.HasResult {
		result = s.Result
	}
	output, failure := e.place(s.ResultPath, raw, result)
	if failure != nil {
		return nil, failure
	}
	return step(e.advance(&s.Common, output))
}

// step keeps a nil Step when there is a failure.
func step(a Advance, failure *Failure) (Step, *Failure) {
	if failure != nil {
		return nil, failure
	}
	return a, nil
}

func (Advance) step() {}
