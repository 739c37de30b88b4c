package interpreter

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

func (e *evaluation) choice(s *asl.Choice, input any) (Step, *Failure) {
	next := s.Default
	for _, rule := range s.Rules {
		holds, failure := e.holds(rule.Condition, input)
		if failure != nil {
			return nil, failure
		}
		if holds {
			next = rule.Next
			break
		}
	}
	if next == "" {
		failure := e.runtime("Failed to transition out of the state. The state does not point to a next state.")
		failure.Error, failure.Fatal = asl.ErrorNoChoiceMatched, false
		return nil, failure
	}
	out, failure := e.advance(&s.Common, input)
	out.Next = next
	return step(out, failure)
}

// holds evaluates from left to right and stops when the answer is known, so
// that IsPresent can guard what follows it.
func (e *evaluation) holds(c asl.Condition, input any) (bool, *Failure) {
	switch {
	case c.Compare != nil:
		return e.compare(*c.Compare, input)
	case c.Not != nil:
		holds, failure := e.holds(*c.Not, input)
		return !holds, failure
	case c.And != nil:
		return e.until(false, c.And, input)
	default:
		return e.until(true, c.Or, input)
	}
}

// until looks for the first condition that is stop.
func (e *evaluation) until(stop bool, conditions []asl.Condition, input any) (bool, *Failure) {
	for _, condition := range conditions {
		holds, failure := e.holds(condition, input)
		if failure != nil {
			return false, failure
		}
		if holds == stop {
			return stop, nil
		}
	}
	return !stop, nil
}

func (e *evaluation) compare(c asl.Comparison, input any) (bool, *Failure) {
	value, found := c.Variable.Get(input, e.object)
	if c.Operation == (asl.Operation{Kind: asl.Present, Order: asl.Is}) {
		return found == c.Value.(bool), nil
	}
	if !found {
		return false, e.invalidVariable(c.Variable)
	}
	if c.Operation.Order == asl.Is {
		return isKind(c.Operation.Kind, value) == c.Value.(bool), nil
	}
	operand := c.Value
	if c.ValuePath != nil {
		if operand, found = c.ValuePath.Get(input, e.object); !found {
			return false, e.invalidVariable(*c.ValuePath)
		}
	}
	return relates(c.Operation, value, operand), nil
}

func (e *evaluation) invalidVariable(path asl.Path) *Failure {
	return e.runtime("Invalid path '%s': The choice state's condition path references an invalid value.", path)
}

func isKind(kind asl.OperandKind, value any) bool {
	switch kind {
	case asl.String:
		_, ok := value.(string)
		return ok
	case asl.Numeric:
		_, ok := value.(json.Number)
		return ok
	case asl.Boolean:
		_, ok := value.(bool)
		return ok
	case asl.Timestamp:
		_, ok := timestamp(value)
		return ok
	case asl.Null:
		return value == nil
	case asl.Present:
		return true
	default:
		return false
	}
}

func timestamp(value any) (time.Time, bool) {
	written, ok := value.(string)
	if !ok {
		return time.Time{}, false
	}
	at, err := asl.ParseTimestamp(written)
	return at, err == nil
}

// relates compares two values; values of another type than the operation's
// never relate.
func relates(o asl.Operation, value, operand any) bool {
	if !isKind(o.Kind, value) || !isKind(o.Kind, operand) {
		return false
	}
	if o.Order == asl.Matches {
		return matches(value.(string), operand.(string))
	}
	return ordered(o.Order, relation(o.Kind, value, operand))
}

// relation is below, at or above 0 as value is less than, equal to or greater
// than operand; both are of the kind.
func relation(kind asl.OperandKind, value, operand any) int {
	switch kind {
	case asl.String:
		return cmp.Compare(value.(string), operand.(string))
	case asl.Numeric:
		return jsonvalue.Compare(value.(json.Number), operand.(json.Number))
	case asl.Timestamp:
		a, _ := timestamp(value)
		b, _ := timestamp(operand)
		return a.Compare(b)
	case asl.Boolean, asl.Null, asl.Present:
		if value != operand {
			return 1
		}
		return 0
	default:
		return 1
	}
}

func ordered(order asl.Order, relation int) bool {
	switch order {
	case asl.Equals:
		return relation == 0
	case asl.LessThan:
		return relation < 0
	case asl.LessThanEquals:
		return relation <= 0
	case asl.GreaterThan:
		return relation > 0
	case asl.GreaterThanEquals:
		return relation >= 0
	case asl.Matches, asl.Is:
		return false
	default:
		return false
	}
}

// matches compares with a pattern in which * stands for any text; \* and \\
// stand for * and \.
func matches(value, pattern string) bool {
	parts := []string{}
	var part strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			part.WriteByte(pattern[i])
		case pattern[i] == '*':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(pattern[i])
		}
	}
	if len(parts) == 0 {
		return value == part.String()
	}
	rest, ok := strings.CutPrefix(value, parts[0])
	for _, middle := range parts[1:] {
		if !ok {
			return false
		}
		_, rest, ok = strings.Cut(rest, middle)
	}
	return ok && strings.HasSuffix(rest, part.String())
}
