package interpreter

import (
	"encoding/json"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// MaxIterations is how many iterations of an inline Map run at once at most.
const MaxIterations = 40

// FanOut means that the state wants its workflow to run once per item.
type FanOut struct {
	Items       []Iteration
	Concurrency int // at least 1
}

func (FanOut) step() {}

// Iteration is one run of a Map's workflow.
type Iteration struct {
	Item  Item
	Input any
}

func (e *evaluation) fanOut(s *asl.Map, input any) (Step, *Failure) {
	value, failure := e.at(s.ItemsPath, input)
	if failure != nil {
		return nil, failure
	}
	items, ok := value.([]any)
	if !ok {
		return nil, e.runtime("Reference path \"%s\" must point to array.", s.ItemsPath)
	}
	out := FanOut{Items: make([]Iteration, len(items))}
	if out.Concurrency, failure = e.concurrency(s, input); failure != nil {
		return nil, failure
	}
	for i, item := range items {
		out.Items[i] = Iteration{Item: Item{Index: i, Value: item}, Input: item}
		if s.ItemSelector == nil {
			continue
		}
		inner := e.context
		inner.Item = &out.Items[i].Item
		selected, failure := (&evaluation{interpreter: e.interpreter, context: inner, object: inner.value()}).template(*s.ItemSelector, "ItemSelector", input)
		if failure != nil {
			return nil, failure
		}
		if len(jsonvalue.MustEncode(selected)) > jsonvalue.MaxBytes {
			return nil, tooLarge(s.Name)
		}
		out.Items[i].Input = selected
	}
	return out, nil
}

func (e *evaluation) concurrency(s *asl.Map, input any) (int, *Failure) {
	limit := int64(s.Concurrency)
	if s.ConcurrentPath != nil {
		value, failure := e.at(*s.ConcurrentPath, input)
		if failure != nil {
			return 0, failure
		}
		n, ok := value.(json.Number)
		if ok {
			limit, ok = jsonvalue.Int64(n)
		}
		if !ok {
			return 0, e.runtime("The MaxConcurrencyPath field refers to value %s which is not a valid integer: %s", quotedValue(value), s.ConcurrentPath)
		}
		if limit < 0 {
			return 0, e.runtime("MaxConcurrency cannot be negative.")
		}
	}
	if limit == 0 || limit > MaxIterations {
		limit = MaxIterations
	}
	return int(limit), nil
}

// quotedValue is how AWS prints a value that should have been a number.
func quotedValue(value any) string {
	if s, ok := value.(string); ok {
		return "\"" + s + "\""
	}
	return "\"" + jsonvalue.MustEncode(value) + "\""
}
