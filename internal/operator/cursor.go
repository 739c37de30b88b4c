package operator

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
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
func seal(scope, cursor string) string {
	if cursor == "" {
		return ""
	}
	text, err := json.Marshal(sealed{V: 1, Of: scope, Store: cursor})
	if err != nil {
		return "" // three plain fields always encode
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// unseal reads what seal returned for the same scope; anything else is a problem.
func unseal(scope, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var c sealed
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil || c.V != 1 || c.Of != scope || c.Store == "" {
		return "", problem(InvalidCursor, "").because(err)
	}
	return c.Store, nil
}
