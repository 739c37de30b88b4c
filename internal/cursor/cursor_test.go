package cursor_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/cursor"
)

type place struct {
	Name  string `json:"n"`
	Since int64  `json:"s"`
}

func TestPlaceComesBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := place{rapid.String().Draw(t, "name"), rapid.Int64().Draw(t, "since")}
		if got, err := cursor.Decode[place](cursor.Encode(p)); got != p || err != nil {
			t.Errorf("%+v became %+v, %v", p, got, err)
		}
	})
}

func TestTextThatNobodyWroteIsAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "!", "bm8", "WzFd"} { // the last two: no, [1]
		if got, err := cursor.Decode[place](text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
