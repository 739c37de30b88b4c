package asl

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"
)

var (
	errPathSyntax    = errors.New("not a JSONPath that is supported here")
	errPathAmbiguous = errors.New("not a reference path: it must name exactly one node, by names and indices")
)

// Path selects from a state's input or, when it begins with $$, from the
// context object. A definite path names one node; any other path selects a
// list, which may be empty. The zero Path selects nothing.
type Path struct {
	text    string
	context bool
	steps   []step
	query   *jsonpath.Path
	ordered bool
}

// step is a member name or, when isIndex, an array index.
type step struct {
	name    string
	index   int
	isIndex bool
}

// ParsePath reads a path. What the grammar of RFC 9535 lacks (functions at the
// end, members with a dash after a dot) is refused.
func ParsePath(text string) (Path, error) {
	path := Path{text: text}
	body, isContext := strings.CutPrefix(text, "$$")
	if isContext {
		path.context, body = true, "$"+body
	} else {
		body = text
	}
	if !strings.HasPrefix(body, "$") {
		return Path{}, fmt.Errorf("%w: %q does not begin with $", errPathSyntax, text)
	}
	query, err := jsonpath.Parse(body)
	if err != nil {
		return Path{}, fmt.Errorf("%w: %q: %w", errPathSyntax, text, err)
	}
	path.query = query
	steps, definite := definiteSteps(query.Query().Segments())
	if definite {
		path.steps = steps
		path.query = nil
		return path, nil
	}
	path.ordered, err = listOrder(query.Query().Segments())
	if err != nil {
		return Path{}, fmt.Errorf("%w: %q: %w", errPathSyntax, text, err)
	}
	return path, nil
}

// ParseReference reads a reference path: names and indices only, from the
// input or, if allowContext, from the context object.
func ParseReference(text string, allowContext bool) (Path, error) {
	path, err := ParsePath(text)
	if err != nil {
		return Path{}, err
	}
	if path.query != nil {
		return Path{}, fmt.Errorf("%w: %q", errPathAmbiguous, text)
	}
	if path.context && !allowContext {
		return Path{}, fmt.Errorf("%w: %q points into the context object", errPathAmbiguous, text)
	}
	for _, s := range path.steps {
		if s.isIndex && s.index < 0 {
			return Path{}, fmt.Errorf("%w: %q has a negative index", errPathAmbiguous, text)
		}
	}
	return path, nil
}

// String returns the path as it was written.
func (p Path) String() string { return p.text }

// FromContext tells whether the path begins with $$.
func (p Path) FromContext() bool { return p.context }

// Get selects from input or context. It reports false if a definite path finds
// nothing; a list that is empty has been found.
func (p Path) Get(input, context any) (any, bool) {
	root := input
	if p.context {
		root = context
	}
	if p.query == nil {
		return descend(root, p.steps)
	}
	located := p.query.SelectLocated(root)
	if p.ordered {
		// Objects are iterated in random order; without this an output would change from run to run.
		located.Sort()
	}
	list := make([]any, 0, len(located))
	for node := range located.Nodes() {
		list = append(list, node)
	}
	return list, true
}

// Missing names, in the notation of AWS's messages, the node that Get did not
// find, such as $['a']['b'].
func (p Path) Missing() string {
	var out strings.Builder
	out.WriteString("$")
	for _, s := range p.steps {
		if s.isIndex {
			fmt.Fprintf(&out, "[%d]", s.index)
		} else {
			fmt.Fprintf(&out, "['%s']", s.name)
		}
	}
	return out.String()
}

func descend(node any, steps []step) (any, bool) {
	for _, s := range steps {
		switch {
		case s.isIndex:
			list, ok := node.([]any)
			i := s.index
			if i < 0 {
				i += len(list)
			}
			if !ok || i < 0 || i >= len(list) {
				return nil, false
			}
			node = list[i]
		default:
			object, ok := node.(map[string]any)
			if !ok {
				return nil, false
			}
			if node, ok = object[s.name]; !ok {
				return nil, false
			}
		}
	}
	return node, true
}

func definiteSteps(segments []*spec.Segment) ([]step, bool) {
	steps := make([]step, 0, len(segments))
	for _, segment := range segments {
		if segment.IsDescendant() || len(segment.Selectors()) != 1 {
			return nil, false
		}
		switch selector := segment.Selectors()[0].(type) {
		case spec.Name:
			steps = append(steps, step{name: string(selector)})
		case spec.Index:
			steps = append(steps, step{index: int(selector), isIndex: true})
		default:
			return nil, false
		}
	}
	return steps, true
}

var errListOrder = errors.New("a list of selectors or a step below zero can't be combined with *, .. or a filter: the order of the result would be open")

// listOrder tells whether the nodes of a list are sorted by their place in the
// document, or stay as the selectors name them.
func listOrder(segments []*spec.Segment) (sorted bool, err error) {
	named, open := false, false
	for _, segment := range segments {
		named = named || len(segment.Selectors()) > 1
		open = open || segment.IsDescendant()
		for _, selector := range segment.Selectors() {
			switch s := selector.(type) {
			case spec.WildcardSelector, *spec.FilterSelector:
				open = true
			case spec.SliceSelector:
				named = named || s.Step() < 0
			}
		}
	}
	if named && open {
		return false, errListOrder
	}
	return !named, nil
}

// Set returns a copy of document in which the node named by the reference path
// is value. Missing members are made, missing array elements are not. It
// reports false when a node on the way is neither, and never changes document.
func (p Path) Set(document, value any) (any, bool) {
	return assign(document, p.steps, value)
}

func assign(node any, steps []step, value any) (any, bool) {
	if len(steps) == 0 {
		return value, true
	}
	if steps[0].isIndex {
		list, ok := node.([]any)
		if !ok || steps[0].index >= len(list) {
			return nil, false
		}
		element, ok := assign(list[steps[0].index], steps[1:], value)
		if !ok {
			return nil, false
		}
		out := append([]any(nil), list...)
		out[steps[0].index] = element
		return out, true
	}
	object, ok := node.(map[string]any)
	if !ok {
		return nil, false
	}
	child, found := object[steps[0].name]
	if !found {
		// Only members can be made out of nothing.
		child = map[string]any{}
	}
	member, ok := assign(child, steps[1:], value)
	if !ok {
		return nil, false
	}
	out := make(map[string]any, len(object)+1)
	maps.Copy(out, object)
	out[steps[0].name] = member
	return out, true
}
