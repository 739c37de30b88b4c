// Package canonjson turns JSON into the one form that its meaning has, RFC 8785,
// so that a digest of it can be compared. It refuses what that form would change:
// numbers that a double can't hold, duplicate names, invalid UTF-8. Text is not
// normalised: a composed and a decomposed "é" differ, and so do 1 and "1"; 1, 1.0
// and 1e0 are one number. Start with [Canonical].
package canonjson

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// The reasons for a refusal. An error of this package is an [*Error] that wraps
// exactly one of them.
var (
	ErrSyntax    = errors.New("not one JSON value")
	ErrUTF8      = errors.New("invalid UTF-8 or surrogate pair")
	ErrDuplicate = errors.New("duplicate name")
	ErrNumber    = errors.New("number does not survive as a double")
)

// Error says what is wrong with a text and where. It does not quote values,
// which may be secret.
type Error struct {
	Pointer string // RFC 6901; "" is the whole text
	err     error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Pointer == "" {
		return "canonjson: " + e.err.Error()
	}
	return fmt.Sprintf("canonjson: %s: %s", e.Pointer, e.err)
}

// Unwrap returns one of the reasons.
func (e *Error) Unwrap() error { return e.err }

// Canonical returns the canonical form of raw in new memory. raw must hold
// exactly one JSON value.
func Canonical(raw []byte) ([]byte, error) {
	if !utf8.Valid(raw) {
		return nil, &Error{err: ErrUTF8}
	}
	if !allSurvive(raw) {
		if err := findNumber(raw); err != nil {
			return nil, err
		}
	}
	out := jsontext.Value(bytes.Clone(raw))
	if err := out.Canonicalize(); err != nil {
		return nil, wrap(err, "")
	}
	return out, nil
}

// allSurvive reports whether every number in raw survives. It only finds where
// numbers begin and end; whether raw is JSON at all is the decoder's business.
func allSurvive(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(raw) && strings.IndexByte("+-.0123456789eE", raw[end]) >= 0 {
				end++
			}
			if !survives(string(raw[i:end])) {
				return false
			}
			i = end - 1
		}
	}
	return true
}

// findNumber returns the first fault of raw: what is wrong before a number that
// does not survive, or that number, with where it stands.
func findNumber(raw []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	for first := true; first || d.StackDepth() > 0; first = false {
		token, err := d.ReadToken()
		if err != nil {
			return wrap(err, string(d.StackPointer()))
		}
		if token.Kind() == '0' && !survives(token.String()) {
			return &Error{Pointer: string(d.StackPointer()), err: ErrNumber}
		}
	}
	return nil
}

func wrap(err error, pointer string) error {
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok && e.JSONPointer != "" {
		pointer = string(e.JSONPointer)
	}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &Error{Pointer: pointer, err: ErrDuplicate}
	case strings.Contains(err.Error(), "surrogate"): // the library has no name for it
		return &Error{Pointer: pointer, err: ErrUTF8}
	}
	return &Error{err: ErrSyntax}
}
