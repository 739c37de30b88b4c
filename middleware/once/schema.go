package once

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// argumentSchema is what a tool asks for, as the model sees it.
type argumentSchema struct {
	raw  json.RawMessage
	tree *jsonschema.Schema
}

// schemaOf returns the declared schema, or the one that In implies.
func schemaOf[In any](declared json.RawMessage) (*argumentSchema, error) {
	tree := &jsonschema.Schema{}
	if len(declared) > 0 {
		if err := json.Unmarshal(declared, tree); err != nil {
			return nil, fmt.Errorf("is not a JSON Schema: %w", err)
		}
	} else {
		var err error
		if tree, err = jsonschema.For[In](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[json.RawMessage](): {},
			reflect.TypeFor[json.Number]():     {Type: "number"},
			reflect.TypeFor[[]byte]():          {Types: []string{"null", "string"}, ContentEncoding: "base64"},
		}}); err != nil {
			return nil, err
		}
	}
	if tree.Type == "" && len(tree.Types) == 0 {
		tree.Type = "object"
	}
	if name := keyProperty(tree); name != "" {
		return nil, fmt.Errorf("property %q: the key is the guard's business and must not be the model's", name)
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	return &argumentSchema{raw: raw, tree: tree}, nil
}

var errNotObject = errors.New("the arguments are an object in the envelope; want a struct or a map as In")

// servable reports whether an envelope's arguments, an object, can be meant.
func (s *argumentSchema) servable() error {
	if s.tree.Type == "object" || slices.Contains(s.tree.Types, "object") {
		return nil
	}
	return errNotObject
}

// keyProperty returns the name of a property that asks the model for an
// idempotency key: it would be new on every try, and protect nothing.
func keyProperty(s *jsonschema.Schema) string {
	for name := range s.Properties {
		plain := strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
		if strings.Contains(plain, "idempotency") {
			return name
		}
	}
	for child := range children(s) {
		if name := keyProperty(child); name != "" {
			return name
		}
	}
	return ""
}

func children(s *jsonschema.Schema) func(func(*jsonschema.Schema) bool) {
	return func(yield func(*jsonschema.Schema) bool) {
		for _, child := range s.Properties {
			if child != nil && !yield(child) {
				return
			}
		}
		for _, child := range []*jsonschema.Schema{s.Items, s.AdditionalProperties} {
			if child != nil && !yield(child) {
				return
			}
		}
	}
}

// missing returns the path of the first required property that value lacks, or
// has as a null that its type does not allow; "" if there is none.
func (s *argumentSchema) missing(canonical []byte) string {
	var value any
	if json.Unmarshal(canonical, &value) != nil {
		return ""
	}
	return missing(s.tree, value, nil)
}

func missing(s *jsonschema.Schema, value any, path []string) string {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range s.Required {
			if given, ok := v[name]; !ok || given == nil && !nullable(s.Properties[name]) {
				return strings.Join(append(path, name), ".")
			}
		}
		for name, child := range s.Properties {
			if given, ok := v[name]; ok && child != nil {
				if at := missing(child, given, append(slices.Clone(path), name)); at != "" {
					return at
				}
			}
		}
	case []any:
		for i, item := range v {
			if s.Items == nil {
				break
			}
			if at := missing(s.Items, item, append(slices.Clone(path), strconv.Itoa(i))); at != "" {
				return at
			}
		}
	}
	return ""
}

func nullable(s *jsonschema.Schema) bool {
	if s == nil {
		return true
	}
	return s.Type == "" && (len(s.Types) == 0 || slices.Contains(s.Types, "null"))
}
