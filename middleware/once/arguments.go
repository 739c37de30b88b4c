package once

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/onceward/onceward/internal/canonjson"
	"github.com/onceward/onceward/middleware/ledger"
)

// arguments are a call's input in the forms that the guard needs.
type arguments[In any] struct {
	in          In
	received    ledger.Digest // of the canonical form as it came
	fingerprint ledger.Digest // of tool, version and canonical normalised form
	normal      []byte        // that canonical normalised form
	hidden      bool          // in holds something that its JSON does not
}

// argumentError refuses arguments; it is turned into a refusal of its request.
type argumentError struct{ code, message string }

func (f argumentError) Error() string { return f.message }

// decodeArguments reads what a model sent. raw must hold an object.
func decodeArguments[In any](t *spec, normalize func(*In) error, raw []byte) (arguments[In], error) {
	var a arguments[In]
	if len(raw) > MaxArguments {
		return a, argumentError{codeTooLarge, fmt.Sprintf("arguments: %d bytes, want at most %d", len(raw), MaxArguments)}
	}
	canonical, err := canonical(raw)
	if err != nil {
		return a, err
	}
	if canonical[0] != '{' {
		return a, argumentError{codeBadArguments, "arguments: want an object"}
	}
	if err := canonjson.Decode(canonical, &a.in); err != nil {
		return a, argumentError{codeBadArguments, whatIsWrong(err)}
	}
	if at := t.schema.missing(canonical); at != "" {
		return a, argumentError{codeBadArguments, at + ": is missing"}
	}
	a.received = ledger.DigestOf(canonical)
	if a.hidden, err = a.hides(t); err != nil {
		return a, err
	}
	return a, a.normalise(t, normalize)
}

// typedArguments takes an input that is in this process already.
func typedArguments[In any](t *spec, normalize func(*In) error, in In) (arguments[In], error) {
	a := arguments[In]{in: in}
	canonical, err := a.canonical()
	if err != nil {
		return a, err
	}
	if t.input.hides(reflect.ValueOf(&a.in).Elem(), canonical) {
		return a, argumentError{codeBadArguments, "arguments: hold something that their JSON does not, so that calls could not be told apart"}
	}
	a.received = ledger.DigestOf(canonical)
	if normalize == nil {
		a.keep(t, canonical)
		return a, nil
	}
	return a, a.normalise(t, normalize)
}

func (a *arguments[In]) keep(t *spec, canonical []byte) {
	a.fingerprint, a.normal = fingerprint(t, canonical, a.unshown()), canonical
}

// hides reports whether a decoded input holds something that its own JSON does
// not.
func (a *arguments[In]) hides(t *spec) (bool, error) {
	if t.input.plain {
		return false, nil // invalid UTF-8 can't have come
	}
	canonical, err := a.canonical()
	if err != nil {
		return false, err
	}
	return t.input.hides(reflect.ValueOf(&a.in).Elem(), canonical), nil
}

// unshown stands in the fingerprint for what the normalised form does not show.
func (a *arguments[In]) unshown() ledger.Digest {
	if a.hidden {
		return a.received
	}
	return ""
}

func (a *arguments[In]) normalise(t *spec, normalize func(*In) error) error {
	if normalize != nil {
		if err := guarded(func() error { return normalize(&a.in) }); err != nil {
			if _, panicked := errors.AsType[panicError](err); panicked {
				return argumentError{codeBadArguments, "arguments: the tool could not check them"}
			}
			return argumentError{codeBadArguments, err.Error()}
		}
	}
	canonical, err := a.canonical()
	if err != nil {
		return err
	}
	a.keep(t, canonical)
	return nil
}

func (a *arguments[In]) canonical() ([]byte, error) {
	raw, err := json.Marshal(a.in)
	if err != nil {
		return nil, argumentError{codeBadArguments, "arguments: can't be written as JSON"}
	}
	out, err := canonical(raw)
	if err == nil && len(out) > MaxArguments {
		return nil, argumentError{codeTooLarge, fmt.Sprintf("arguments: %d bytes, want at most %d", len(out), MaxArguments)}
	}
	return out, err
}

// fingerprint frames the arguments in canonical JSON. The tool's name needs no
// escapes, and the names are in order, so that it can be put together here.
func fingerprint(t *spec, canonical []byte, unshown ledger.Digest) ledger.Digest {
	framed := make([]byte, 0, len(canonical)+160)
	framed = append(append(framed, `{"arguments":`...), canonical...)
	if unshown != "" {
		framed = append(append(append(framed, `,"received":"`...), unshown...), '"')
	}
	framed = append(append(append(framed, `,"tool":"`...), t.name...), `","version":`...)
	return ledger.DigestOf(append(strconv.AppendInt(framed, int64(t.version), 10), '}'))
}

func canonical(raw []byte) ([]byte, error) {
	out, err := canonjson.Canonical(raw)
	if err == nil {
		return out, nil
	}
	at := fieldOf(err)
	switch {
	case errors.Is(err, canonjson.ErrNumber):
		return nil, argumentError{codeBadNumber, at + ": the number does not survive as a double; send it as a string"}
	case errors.Is(err, canonjson.ErrDuplicate):
		return nil, argumentError{codeDuplicate, at + ": stands twice"}
	case errors.Is(err, canonjson.ErrUTF8):
		return nil, argumentError{codeBadUTF8, at + ": invalid UTF-8 or half a surrogate pair"}
	}
	return nil, argumentError{codeBadArguments, at + ": is not JSON"}
}

// whatIsWrong names the field and not its value, which may be secret.
func whatIsWrong(err error) string {
	if errors.Is(err, canonjson.ErrUnknownName) {
		return fieldOf(err) + ": is unknown"
	}
	return fieldOf(err) + ": has the wrong type or form"
}

func fieldOf(err error) string {
	if e, ok := errors.AsType[*canonjson.Error](err); ok && e.Pointer != "" {
		return e.Field()
	}
	return "arguments"
}

// summary is what people see of the arguments.
func (a *arguments[In]) summary(summarise func(In) string) string {
	if summarise == nil {
		return ledger.Shorten(strings.Join(canonjson.Names(a.normal), ", "), ledger.MaxSummary)
	}
	var text string
	if guarded(func() error { text = summarise(a.in); return nil }) != nil {
		return ""
	}
	return ledger.Shorten(text, ledger.MaxSummary)
}
