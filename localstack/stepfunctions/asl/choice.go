package asl

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

func (f *fields) choice(base Common) State {
	f.inputOutput(&base)
	state := &Choice{Common: base}
	state.Default, _ = f.text("Default")
	f.require("Choices")
	value, _ := f.take("Choices")
	list, ok := value.([]any)
	if f.has("Choices") && (!ok || len(list) == 0) {
		f.fail("Choices", "Expected a list of at least one rule")
	}
	for i, element := range list {
		rule, ok := f.parser.fields(element, fmt.Sprintf("%s/%d", f.place("Choices"), i))
		if !ok {
			continue
		}
		rule.require("Next")
		next, _ := rule.text("Next")
		state.Rules = append(state.Rules, Rule{Condition: rule.condition(), Next: next})
	}
	return state
}

// condition reads And, Or, Not or a comparison, and refuses anything beside it.
func (f *fields) condition() Condition {
	f.text("Comment")
	var out Condition
	switch f.exclusive("And", "Or", "Not", "Variable") {
	case 0:
		f.parser.report(CodeSchema, f.at, "One of these fields is required: [And, Or, Not, Variable]")
	case 1:
		out = f.oneCondition()
	}
	f.done()
	return out
}

func (f *fields) oneCondition() Condition {
	switch {
	case f.has("And"):
		return Condition{And: f.conditions("And"), Operator: "And"}
	case f.has("Or"):
		return Condition{Or: f.conditions("Or"), Operator: "Or"}
	case f.has("Not"):
		value, _ := f.take("Not")
		if inner, ok := f.parser.fields(value, f.place("Not")); ok {
			condition := inner.condition()
			return Condition{Not: &condition, Operator: "Not"}
		}
		return Condition{}
	default:
		return f.comparison()
	}
}

func (f *fields) conditions(name string) []Condition {
	value, _ := f.take(name)
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		f.fail(name, "Expected a list of at least one condition")
	}
	var out []Condition
	for i, element := range list {
		if inner, ok := f.parser.fields(element, fmt.Sprintf("%s/%d", f.place(name), i)); ok {
			out = append(out, inner.condition())
		}
	}
	return out
}

func (f *fields) comparison() Condition {
	comparison := &Comparison{}
	if variable := f.reference("Variable"); variable != nil {
		comparison.Variable = *variable
	}
	out := Condition{Compare: comparison}
	for _, field := range slices.Sorted(maps.Keys(f.values)) {
		name, isPath := strings.CutSuffix(field, "Path")
		operation, known := operations[name]
		if !known || isPath && !operation.hasPathForm() {
			continue // done reports it
		}
		if out.Operator != "" {
			f.fail(field, "Only one comparison operator may be given; there is also '%s'", out.Operator)
		}
		out.Operator, comparison.Operation = field, operation
		if isPath {
			comparison.ValuePath = f.reference(field)
			continue
		}
		comparison.Value, _ = f.take(field)
		if !operation.accepts(comparison.Value) {
			f.fail(field, "The value has not the type that '%s' compares", field)
		}
	}
	if out.Operator == "" {
		f.parser.report(CodeSchema, f.at, "A comparison operator is required")
	}
	return out
}

// accepts tells whether a literal has the type that the operation compares.
func (o Operation) accepts(value any) bool {
	if o.Order == Is {
		_, ok := value.(bool)
		return ok
	}
	switch o.Kind {
	case Numeric:
		_, ok := value.(json.Number)
		return ok
	case Boolean:
		_, ok := value.(bool)
		return ok
	case Timestamp:
		text, ok := value.(string)
		if ok {
			_, err := ParseTimestamp(text)
			ok = err == nil
		}
		return ok
	case String:
		_, ok := value.(string)
		return ok
	case Null, Present:
		return false
	default:
		return false
	}
}
