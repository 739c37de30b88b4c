package runs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// problems gathers everything that is wrong with a document, so that whoever
// wrote it hears of all of it at once.
type problems []WrongField

// WrongField is one thing that is wrong with a document. It does not repeat the
// value. Path is such as "script.turns[0].calls", and "" is the document itself.
type WrongField struct{ Path, Why string }

// InputError is an [ErrBadInput] with every wrong field.
type InputError struct{ Fields []WrongField }

// Error names every wrong field.
func (e *InputError) Error() string {
	return ErrBadInput.Error() + ": " + inOneLine(e.Fields)
}

// Unwrap returns [ErrBadInput].
func (e *InputError) Unwrap() error { return ErrBadInput }

func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, WrongField{Path: path, Why: fmt.Sprintf(format, args...)})
}

// inOneLine is for an error's text.
func inOneLine(fields []WrongField) string {
	var words []string
	for _, f := range fields {
		words = append(words, cmp.Or(f.Path, "document")+": "+f.Why)
	}
	return strings.Join(words, "; ")
}

// object returns the members of a JSON object in their order; unknown and
// repeated names are problems. known is nil where any name will do.
func (p *problems) object(path string, raw json.RawMessage, known ...string) []member {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		p.add(path, "want an object")
		return nil
	}
	var found []member
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			p.add(path, "is not JSON")
			return nil
		}
		m := member{Name: fmt.Sprint(name)}
		if err := dec.Decode(&m.Value); err != nil {
			p.add(path, "is not JSON")
			return nil
		}
		m.Path = strings.TrimPrefix(path+"."+shortName(m.Name), ".")
		switch {
		case len(known) > 0 && !slices.Contains(known, m.Name):
			p.add(m.Path, "unknown field")
		case slices.ContainsFunc(found, func(f member) bool { return f.Name == m.Name }):
			p.add(m.Path, "given twice")
		default:
			found = append(found, m)
		}
	}
	if _, err := dec.Token(); err != nil {
		p.add(path, "is not JSON")
		return nil
	}
	if dec.More() {
		p.add(path, "more than one JSON value")
	}
	return found
}

// member is one name and value of an object.
type member struct {
	Name, Path string
	Value      json.RawMessage
}

func (p *problems) list(path string, raw json.RawMessage) []json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil || items == nil {
		p.add(path, "want a list")
		return nil
	}
	return items
}

// text returns a string of at most limit bytes.
func (p *problems) text(path string, raw json.RawMessage, limit int) string {
	var s *string
	switch {
	case json.Unmarshal(raw, &s) != nil || s == nil:
		p.add(path, "want a string")
		return ""
	case !utf8.Valid(raw):
		p.add(path, "is not UTF-8")
	case len(*s) > limit:
		p.add(path, "%d bytes: at most %d", len(*s), limit)
	}
	return *s
}

// shortName keeps a name that somebody else chose from flooding a message.
func shortName(name string) string {
	if len(name) > 40 {
		return fmt.Sprintf("%q…", name[:40])
	}
	return name
}
