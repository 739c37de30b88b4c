package billing

import (
	"maps"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"
)

// Effects says what took effect, counted from the data file. Sends counts every
// write request (credit, void or close) that arrived with a valid session,
// replays, dropped and refused ones included; Keys are those they carried, sorted.
type Effects struct {
	Credits int      `json:"credits"`
	Voids   int      `json:"voids"`
	Sends   int      `json:"sends"`
	Keys    []string `json:"keys"`
}

// effects counts what match accepts.
func (s *store) effects(match func(account, key string) bool) (Effects, error) {
	var out Effects
	keys := map[string]bool{}
	err := s.db.View(func(tx *bolt.Tx) error {
		err := each(tx.Bucket(bucketCredits), func(c Credit) {
			if match(c.AccountID, c.Key) {
				out.Credits++
			}
		})
		if err != nil {
			return err
		}
		err = each(tx.Bucket(bucketVoids), func(v Void) {
			if match(v.AccountID, v.Key) {
				out.Voids++
			}
		})
		if err != nil {
			return err
		}
		return each(tx.Bucket(bucketSends), func(n send) {
			if !match(n.AccountID, n.Key) {
				return
			}
			out.Sends++
			if n.Key != "" {
				keys[n.Key] = true
			}
		})
	})
	out.Keys = slices.AppendSeq([]string{}, maps.Keys(keys))
	slices.Sort(out.Keys)
	return out, err
}

// keyHasPrefix reports whether key starts with prefix, with or without the
// tenant in front. A prefix ends at a boundary, so that run-1 does not count
// run-10: it ends with, or is followed by, one of ":/~", or is the whole key.
// A prefix that ends with "-" or "_" covers every run id that starts so.
func keyHasPrefix(key, prefix string) bool {
	if startsAtBoundary(key, prefix) {
		return true
	}
	_, bare, tenanted := strings.Cut(key, "/")
	return tenanted && startsAtBoundary(bare, prefix)
}

func startsAtBoundary(key, prefix string) bool {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return false
	}
	return rest == "" || strings.ContainsAny(rest[:1], ":/~") || strings.ContainsAny(prefix[len(prefix)-1:], ":/~-_")
}
