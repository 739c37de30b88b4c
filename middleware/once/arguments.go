package once

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	return a, a.normalise(t, normalize)
}

// typedArguments takes an input that is in this process already.
func typedArguments[In any](t *spec, normalize func(*In) error, in In) (arguments[In], error) {
	a := arguments[In]{in: in}
	canonical, err := a.canonical()
	if err != nil {
		return a, err
	}
	a.received = ledger.DigestOf(canonical)
	if normalize == nil {
		a.keep(t, canonical)
		return a, nil
	}
	return a, a.normalise(t, normalize)
}

func (a *arguments[In]) keep(t *spec, canonical []byte) {
	a.fingerprint, a.normal = fingerprint(t, canonical), canonical
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
func fingerprint(t *spec, canonical []byte) ledger.Digest {
	framed := slices.Concat([]byte(`{"arguments":`), canonical, []byte(`,"tool":"`+t.name+`","version":`+strconv.Itoa(t.version)+`}`))
	return ledger.DigestOf(framed)
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
