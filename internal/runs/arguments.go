package runs

import (
	"github.com/onceward/onceward/internal/canonjson"
	"github.com/onceward/onceward/middleware/ledger"
)

// SameArguments reports whether the record may be of a call with these
// arguments, a JSON object as the model wrote it. A record that does not say what
// it received, such as one that was closed unseen, may be of any. Arguments
// without a canonical form are refused by every guard, so no record is of them.
func SameArguments(r ledger.Record, arguments string) bool {
	if r.Received == "" {
		return true
	}
	canonical, err := canonjson.Canonical([]byte(arguments))
	return err == nil && r.Received == ledger.DigestOf(canonical)
}
