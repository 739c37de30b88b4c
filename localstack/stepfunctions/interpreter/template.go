package interpreter

import (
	"github.com/onceward/onceward/localstack/stepfunctions/asl"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// template evaluates a payload template; field names it in error texts.
func (e *evaluation) template(t asl.Template, field string, input any) (any, *Failure) {
	switch {
	case t.IsExpression():
		return e.expression(*t.Value, field, input)
	case t.IsList():
		out := make([]any, len(t.Items))
		for i, item := range t.Items {
			value, failure := e.template(item, field, input)
			if failure != nil {
				return nil, failure
			}
			out[i] = value
		}
		return out, nil
	case t.IsObject():
		out := make(map[string]any, len(t.Members))
		for _, member := range t.Members {
			value, failure := e.template(member.Value, member.Field, input)
			if failure != nil {
				return nil, failure
			}
			out[member.Name] = value
		}
		return out, nil
	default:
		return t.Literal, nil
	}
}

func (e *evaluation) expression(x asl.Expression, field string, input any) (any, *Failure) {
	if x.Call != nil {
		return e.call(*x.Call, field, input)
	}
	value, found := x.Path.Get(input, e.object)
	if !found {
		return nil, e.notFound(*x.Path, field, input)
	}
	return value, nil
}

func (e *evaluation) notFound(path asl.Path, field string, input any) *Failure {
	return e.runtime("The JSONPath '%s' specified for the field '%s' could not be found in the input '%s'", path, field, jsonvalue.MustEncode(input))
}
