package asl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Template is a payload template: a JSON value in which a member whose name
// ends in ".$" is replaced by what its path or intrinsic function yields.
// Exactly one of its fields is used; Literal may be null.
type Template struct {
	Literal any
	Members []Member
	Items   []Template
	Value   *Expression
	kind    templateKind
}

type templateKind int

const (
	literal templateKind = iota
	object
	list
	expression
)

// Member is one member of a template object, Field as it stands in the
// definition and Name as it stands in the result, without ".$".
type Member struct {
	Field string
	Name  string
	Value Template
}

// Expression is a path or an intrinsic function; exactly one is set.
type Expression struct {
	Path *Path
	Call *Call
}

// IsObject tells whether the template is an object with at least one member that is computed.
func (t Template) IsObject() bool { return t.kind == object }

// IsList tells whether the template is an array with a computed part.
func (t Template) IsList() bool { return t.kind == list }

// IsExpression tells whether the template is one path or intrinsic function.
func (t Template) IsExpression() bool { return t.kind == expression }

// Member returns the template of the member called name in the result.
func (t Template) Member(name string) (Template, bool) {
	for _, member := range t.Members {
		if member.Name == name {
			return member.Value, true
		}
	}
	if object, ok := t.Literal.(map[string]any); ok && t.kind == literal {
		value, ok := object[name]
		return Template{Literal: value}, ok
	}
	return Template{}, false
}

// MemberNames returns the names of the members in the result, in order.
func (t Template) MemberNames() []string {
	if object, ok := t.Literal.(map[string]any); ok && t.kind == literal {
		return slices.Sorted(maps.Keys(object))
	}
	names := make([]string, 0, len(t.Members))
	for _, member := range t.Members {
		names = append(names, member.Name)
	}
	return names
}

var (
	errTwice         = errors.New("given twice, as a value and as a path")
	errNotExpression = errors.New("the value of a field whose name ends in .$ must be a path or an intrinsic function")
)

// parseTemplate compiles value; at is the JSON pointer of value and report
// takes what is wrong with it.
func parseTemplate(value any, at string, report func(at string, err error)) Template {
	switch v := value.(type) {
	case map[string]any:
		return parseTemplateObject(v, at, report)
	case []any:
		items := make([]Template, len(v))
		computed := false
		for i, element := range v {
			items[i] = parseTemplate(element, fmt.Sprintf("%s/%d", at, i), report)
			computed = computed || items[i].kind != literal
		}
		if computed {
			return Template{Items: items, kind: list}
		}
	}
	return Template{Literal: value}
}

func parseTemplateObject(v map[string]any, at string, report func(string, error)) Template {
	var members []Member
	computed := false
	for _, field := range slices.Sorted(maps.Keys(v)) {
		place := at + "/" + pointerEscape(field)
		name, isExpression := strings.CutSuffix(field, ".$")
		if !isExpression {
			t := parseTemplate(v[field], place, report)
			computed = computed || t.kind != literal
			members = append(members, Member{Field: field, Name: name, Value: t})
			continue
		}
		computed = true
		if _, both := v[name]; both {
			report(place, fmt.Errorf("%q is %w", name, errTwice))
		}
		text, ok := v[field].(string)
		if !ok {
			report(place, errNotExpression)
			continue
		}
		e, err := ParseExpression(text)
		if err != nil {
			report(place, err)
			continue
		}
		members = append(members, Member{Field: field, Name: name, Value: Template{Value: &e, kind: expression}})
	}
	if !computed {
		return Template{Literal: v}
	}
	return Template{Members: members, kind: object}
}

// ParseExpression reads a path ($ or $$) or an intrinsic function (States.…).
func ParseExpression(text string) (Expression, error) {
	if strings.HasPrefix(text, "$") {
		path, err := ParsePath(text)
		if err != nil {
			return Expression{}, err
		}
		return Expression{Path: &path}, nil
	}
	if !strings.HasPrefix(text, "States.") {
		return Expression{}, fmt.Errorf("%w, not %q", errNotExpression, text)
	}
	call, err := ParseCall(text)
	if err != nil {
		return Expression{}, err
	}
	return Expression{Call: &call}, nil
}
