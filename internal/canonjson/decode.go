package canonjson

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// The further reasons for which [Decode] refuses.
var (
	ErrUnknownName = errors.New("unknown name")
	ErrType        = errors.New("wrong type or form")
)

// strict decodes as encoding/json does, but matches names exactly and refuses
// names that the type lacks, duplicate names and invalid UTF-8.
var strict = json.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	jsonv1.ReportErrorsWithLegacySemantics(false),
	json.MatchCaseInsensitiveNames(false),
	json.RejectUnknownMembers(true),
	jsontext.AllowDuplicateNames(false),
	jsontext.AllowInvalidUTF8(false),
	// The library knows the standard Number only as a string.
	json.WithUnmarshalers(json.UnmarshalFunc(func(raw []byte, n *stdjson.Number) error {
		return stdjson.Unmarshal(raw, n)
	})),
)

// Decode reads raw, exactly one JSON value, into v as encoding/json does, but
// strictly: names must match exactly, stand once and be known to v. The error is
// an [*Error] with the field; v may be half filled then.
func Decode(raw []byte, v any) error {
	if !utf8.Valid(raw) {
		return &Error{err: ErrUTF8}
	}
	err := json.Unmarshal(raw, v, strict)
	if err == nil {
		return nil
	}
	e, semantic := errors.AsType[*json.SemanticError](err)
	if !semantic {
		return wrap(err, "")
	}
	if errors.Is(err, json.ErrUnknownName) {
		return &Error{Pointer: string(e.JSONPointer), err: ErrUnknownName}
	}
	return &Error{Pointer: string(e.JSONPointer), err: ErrType}
}

// Texts returns the strings at the pointers in raw, which need be no more than
// well formed: duplicate names elsewhere and invalid UTF-8 are let pass. ok is
// false if raw is not, or if one of the pointers stands there twice or is
// no string; a pointer that does not stand there is left out.
func Texts(raw []byte, pointers ...string) (texts map[string]string, ok bool) {
	texts = make(map[string]string, len(pointers))
	for _, p := range pointers {
		texts[p] = ""
	}
	found := make(map[string]string, len(pointers))
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for first := true; first || d.StackDepth() > 0; first = false {
		token, err := d.ReadToken()
		if err != nil {
			return nil, false
		}
		kind, size := d.StackIndex(d.StackDepth())
		if kind != '{' || size%2 != 0 || size == 0 {
			continue // a name, or no member of an object
		}
		p := string(d.StackPointer())
		if _, wanted := texts[p]; !wanted {
			continue
		}
		if _, twice := found[p]; twice || token.Kind() != '"' {
			return nil, false
		}
		found[p] = token.String()
	}
	return found, true
}

// Names returns the member names of an object in their order; none of any other
// value.
func Names(object []byte) []string {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	if start, err := d.ReadToken(); err != nil || start.Kind() != '{' {
		return nil
	}
	var names []string
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return names
		}
		names = append(names, name.String())
		if d.SkipValue() != nil {
			return names
		}
	}
	return names
}

// Field returns the pointer as documents write a field's name: a.0.b. It is ""
// for the whole text.
func (e *Error) Field() string {
	var names []string
	for name := range jsontext.Pointer(e.Pointer).Tokens() {
		names = append(names, name)
	}
	return strings.Join(names, ".")
}
