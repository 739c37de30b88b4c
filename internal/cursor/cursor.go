// Package cursor writes a place in a list as the text that a page's reader brings
// back for the next one, and reads it again. The text is for URLs and is no
// secret: whoever reads it checks what it says. Start with [Encode] and [Decode].
package cursor

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// Encode returns the text of a place. It panics if JSON can't hold the place,
// which is for its type to rule out.
func Encode[P any](place P) string {
	text, err := json.Marshal(place)
	if err != nil {
		panic(fmt.Sprintf("cursor: %T: %v", place, err))
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// Decode reads what [Encode] wrote. Any other text is an error, or a place that
// nobody wrote: it may lack any of its parts.
func Decode[P any](text string) (place P, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &place)
	}
	if err != nil {
		return place, fmt.Errorf("cursor: %w", err)
	}
	return place, nil
}
