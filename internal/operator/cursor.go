package operator

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/onceward/onceward/internal/cursor"
)

// sealed is a cursor as clients hold it, bound to what it is a cursor of.
type sealed struct {
	V     int    `json:"v"`
	Of    string `json:"of"`
	Store string `json:"c"`
}

// scopeOf names what a cursor belongs to, such as a tenant with a list's filters.
func scopeOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// seal returns the cursor for clients, "" for none.
func seal(scope, stores string) string {
	if stores == "" {
		return ""
	}
	return cursor.Encode(sealed{V: 1, Of: scope, Store: stores})
}

// unseal reads what seal returned for the same scope; anything else is a problem.
func unseal(scope, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	c, err := cursor.Decode[sealed](text)
	if err != nil || c.V != 1 || c.Of != scope || c.Store == "" {
		return "", problem(InvalidCursor, "").because(err)
	}
	return c.Store, nil
}
