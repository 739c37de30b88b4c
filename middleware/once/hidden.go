package once

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/canonjson"
	"github.com/onceward/onceward/middleware/ledger"
)

// Calls are told apart by their arguments in JSON. A type may hide a part of
// itself there, by a marshaler of its own or a field that is left out; two calls
// that differ only in that part would be taken for one.

// shape is what can be said of an input's type before there is a value.
type shape struct {
	secret string // the path of a ledger.Secret, which prints the same for all; "" if there is none
	plain  bool   // whatever a value holds stands in its JSON, but for invalid UTF-8
}

func shapeOf(t reflect.Type) shape {
	w := typeWalk{seen: map[reflect.Type]bool{}, shape: shape{plain: true}}
	w.visit(t, "In")
	return w.shape
}

type typeWalk struct {
	seen map[reflect.Type]bool
	shape
}

// speaking are the interfaces by which a type decides itself what it shows.
var speaking = []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[interface{ IsZero() bool }]()}

func (w *typeWalk) visit(t reflect.Type, path string) {
	if t == reflect.TypeFor[ledger.Secret]() && w.secret == "" {
		w.secret = path
	}
	if w.seen[t] {
		return
	}
	w.seen[t] = true
	if slices.ContainsFunc(speaking, func(i reflect.Type) bool { return t.Implements(i) || reflect.PointerTo(t).Implements(i) }) {
		w.plain = false
	}
	switch t.Kind() { //nolint:exhaustive // the others hold no types and show all of themselves
	case reflect.Interface:
		w.plain = false
	case reflect.Map:
		w.visit(t.Key(), path)
		w.visit(t.Elem(), path)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		w.visit(t.Elem(), path)
	case reflect.Struct:
		w.fields(t, path)
	}
}

func (w *typeWalk) fields(t reflect.Type, path string) {
	names := map[string]bool{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		// Fields of one name, also of an embedded struct, are left out.
		if !f.IsExported() || f.Anonymous || name == "-" || names[name] {
			w.plain = false
		}
		names[name] = true
		if name != "-" && (f.IsExported() || f.Anonymous) {
			w.visit(f.Type, path+"."+f.Name)
		}
	}
}

// invalidUTF8 is what the encoder writes for it.
var invalidUTF8 = []byte("\uFFFD")

// hides reports whether v holds something that canonical, its JSON, does not.
func (s shape) hides(v reflect.Value, canonical []byte) bool {
	if s.plain && !bytes.Contains(canonical, invalidUTF8) {
		return false
	}
	return !readsBack(v, canonical)
}

// readsBack reports whether v's JSON means v.
func readsBack(v reflect.Value, canonical []byte) bool {
	back := reflect.New(v.Type())
	if guarded(func() error { return canonjson.Decode(canonical, back.Interface()) }) != nil {
		return false
	}
	return alike(v, back.Elem())
}

// alike is reflect.DeepEqual for values of one type, but that nil and empty are one, as are what the
// type itself calls equal, two spellings of one JSON text, and a value in an
// interface with what a generic decoder makes of it.
func alike(x, y reflect.Value) bool {
	if same, ok := ownEqual(x, y); ok {
		return same
	}
	switch x.Kind() { //nolint:exhaustive // the others are compared as a whole
	case reflect.Interface:
		switch {
		case x.IsNil():
			return y.IsNil()
		case y.IsNil() || x.Elem().Type() != y.Elem().Type():
			return x.Elem().CanInterface() && rereads(x.Elem())
		}
		return alike(x.Elem(), y.Elem())
	case reflect.Pointer:
		if x.IsNil() || y.IsNil() {
			return x.IsNil() && y.IsNil()
		}
		return alike(x.Elem(), y.Elem())
	case reflect.Slice, reflect.Array:
		for i := range min(x.Len(), y.Len()) {
			if !alike(x.Index(i), y.Index(i)) {
				return false
			}
		}
		return x.Len() == y.Len()
	case reflect.Map:
		for _, key := range x.MapKeys() {
			if other := y.MapIndex(key); !other.IsValid() || !alike(x.MapIndex(key), other) {
				return false
			}
		}
		return x.Len() == y.Len()
	case reflect.Struct:
		for i := range x.NumField() {
			if !alike(x.Field(i), y.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return x.IsZero() && y.IsZero()
	}
	return x.Equal(y)
}

// rereads reads the value of an interface back as what it is, since a generic
// decoder makes a float64 of an int.
func rereads(x reflect.Value) bool {
	raw, err := json.Marshal(x.Interface())
	if err != nil {
		return false
	}
	canonical, err := canonjson.Canonical(raw)
	return err == nil && readsBack(x, canonical)
}

// ownEqual asks the type: a time of one instant is one time.
func ownEqual(x, y reflect.Value) (same, ok bool) {
	if !x.CanInterface() || !y.CanInterface() || x.Kind() == reflect.Interface {
		return false, false
	}
	switch x.Type() {
	case reflect.TypeFor[json.RawMessage]():
		return sameText(x.Bytes(), y.Bytes()), true
	case reflect.TypeFor[json.Number]():
		return sameText([]byte(x.String()), []byte(y.String())), true
	}
	if x.Kind() == reflect.Pointer && (x.IsNil() || y.IsNil()) {
		return false, false
	}
	method := x.MethodByName("Equal")
	if !method.IsValid() || method.Type().NumIn() != 1 || method.Type().In(0) != x.Type() || method.Type().NumOut() != 1 || method.Type().Out(0).Kind() != reflect.Bool {
		return false, false
	}
	panicked := guarded(func() error { same = method.Call([]reflect.Value{y})[0].Bool(); return nil })
	return same && panicked == nil, true
}

func sameText(x, y []byte) bool {
	a, errA := canonjson.Canonical(orNull(x))
	b, errB := canonjson.Canonical(orNull(y))
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

func orNull(raw []byte) []byte {
	if len(raw) == 0 {
		return []byte("null")
	}
	return raw
}

// secretFault refuses an input type that can't be told apart at all.
func (s shape) secretFault() error {
	if s.secret == "" {
		return nil
	}
	return fmt.Errorf("%s is a ledger.Secret, which is the same text in every call's JSON, so that calls could not be told apart; use a string and a Summary that leaves it out", s.secret)
}
