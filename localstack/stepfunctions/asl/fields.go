package asl

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// fields reads an object of the definition and remembers which members were
// read, so that done can refuse the others.
type fields struct {
	parser *parser
	at     string
	values map[string]any
	read   map[string]bool
}

func (p *parser) fields(value any, at string) (*fields, bool) {
	object, ok := value.(map[string]any)
	if !ok {
		p.report(CodeSchema, at, "Expected value of type Object")
		return nil, false
	}
	return &fields{parser: p, at: at, values: object, read: map[string]bool{}}, true
}

func (f *fields) place(name string) string { return f.at + "/" + pointerEscape(name) }

func (f *fields) fail(name, format string, args ...any) {
	f.parser.report(CodeSchema, f.place(name), fmt.Sprintf(format, args...))
}

// take returns a member; from then on it counts as known.
func (f *fields) take(name string) (any, bool) {
	f.read[name] = true
	value, ok := f.values[name]
	return value, ok
}

func (f *fields) has(name string) bool {
	_, ok := f.values[name]
	return ok
}

// require reports members that are missing.
func (f *fields) require(names ...string) {
	var missing []string
	for _, name := range names {
		if !f.has(name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		at := f.at
		if at == "" {
			at = "/"
		}
		f.parser.report(CodeSchema, at, fmt.Sprintf("These fields are required: [%s]", strings.Join(missing, ", ")))
	}
}

// exclusive reports two or more of names being given at once.
func (f *fields) exclusive(names ...string) (given int) {
	for _, name := range names {
		if f.has(name) {
			given++
		}
	}
	if given > 1 {
		f.parser.report(CodeSchema, f.at, fmt.Sprintf("Only one of these fields may be given: [%s]", strings.Join(names, ", ")))
	}
	return given
}

// done refuses every member that nobody read.
func (f *fields) done() {
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		if !f.read[name] {
			f.fail(name, "Field '%s' is not supported", name)
		}
	}
}

func (f *fields) text(name string) (string, bool) {
	value, ok := f.take(name)
	if !ok {
		return "", false
	}
	text, ok := value.(string)
	if !ok {
		f.fail(name, "Expected value of type String")
	}
	return text, ok
}

// oneOf reads a text that must be one of allowed.
func (f *fields) oneOf(name string, allowed ...string) string {
	text, ok := f.text(name)
	if ok && !slices.Contains(allowed, text) {
		f.fail(name, "Value is not supported. Supported values: [%s]", strings.Join(allowed, ", "))
	}
	return text
}

// integer reads a whole number between least and most.
func (f *fields) integer(name string, least, most, otherwise int64) int64 {
	value, ok := f.take(name)
	if !ok {
		return otherwise
	}
	if n, isNumber := value.(json.Number); isNumber {
		if i, whole := jsonvalue.Int64(n); whole && i >= least && i <= most {
			return i
		}
	}
	f.fail(name, "Expected a whole number from %d to %d", least, most)
	return otherwise
}

// path reads a path; otherwise is used when the field is absent.
func (f *fields) path(name, otherwise string) *Path {
	text := otherwise
	if value, ok := f.take(name); ok {
		if value == nil {
			return nil
		}
		if text, ok = value.(string); !ok {
			f.fail(name, "Expected a path or null")
			return nil
		}
	}
	path, err := ParsePath(text)
	if err != nil {
		f.fail(name, "%v", err)
		return nil
	}
	return &path
}

// reference reads a reference path or returns nil if the field is absent.
func (f *fields) reference(name string) *Path {
	text, ok := f.text(name)
	if !ok {
		return nil
	}
	path, err := ParseReference(text, true)
	if err != nil {
		f.fail(name, "%v", err)
		return nil
	}
	return &path
}

func (f *fields) resultPath() ResultPath {
	value, ok := f.take("ResultPath")
	if ok && value == nil {
		return ResultPath{Discard: true}
	}
	text := "$"
	if ok {
		if text, ok = value.(string); !ok {
			f.fail("ResultPath", "Expected a reference path or null")
			return ResultPath{}
		}
	}
	path, err := ParseReference(text, false)
	if err != nil {
		f.fail("ResultPath", "%v", err)
	}
	return ResultPath{Path: path}
}

// template reads a payload template; nil means that the field is absent.
func (f *fields) template(name string) *Template {
	value, ok := f.take(name)
	if !ok {
		return nil
	}
	if _, isObject := value.(map[string]any); !isObject {
		f.fail(name, "Expected value of type Object")
		return nil
	}
	t := parseTemplate(value, f.place(name), func(at string, err error) {
		f.parser.report(CodeSchema, at, err.Error())
	})
	return &t
}

// seconds reads the pair name and name + "Path".
func (f *fields) seconds(name string, least int64) Seconds {
	f.exclusive(name, name+"Path")
	if path := f.reference(name + "Path"); path != nil {
		return Seconds{Path: path, Given: true}
	}
	if !f.has(name) {
		f.read[name] = true
		return Seconds{}
	}
	return Seconds{Literal: f.integer(name, least, maxSeconds, least), Given: true}
}
