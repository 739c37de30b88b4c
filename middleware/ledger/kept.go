package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"time"
)

// What every store keeps to, so that a test in memory sees what a table does.
const (
	InlineResult = 256       // bytes of a result inside its record; a longer one lies beside it
	MaxResult    = 350 << 10 // bytes of a result that is kept at all
	MaxEntries   = 8         // decisions in a record, and as many pieces of evidence; older ones lie beside it
)

// DigestOf returns the digest of b.
func DigestOf(b []byte) Digest {
	sum := sha256.Sum256(b)
	return Digest(base64.RawURLEncoding.EncodeToString(sum[:]))
}

// Kept returns a copy of r as stores keep it: times in UTC and cut to the
// millisecond, empty slices nil, and no memory shared with r.
func (r Record) Kept() Record {
	for _, at := range []*time.Time{
		&r.CreatedAt, &r.WaitsSince, &r.Attempt.StartedAt, &r.Attempt.Deadline, &r.Attempt.QuietAfter,
		&r.Approval.At, &r.Approval.ExpiresAt, &r.Undo.AskedAt, &r.Outcome.At,
	} {
		*at = keptTime(*at)
	}
	r.Attempt.Earlier = append([]AttemptToken(nil), r.Attempt.Earlier...)
	if len(r.Outcome.Result) == 0 {
		r.Outcome.Result = nil
	}
	r.Outcome.Result = bytes.Clone(r.Outcome.Result)
	r.Decisions, r.Evidence = keptEntries(r.Decisions), keptEntries(r.Evidence)
	return r
}

func keptEntries(entries []Entry) []Entry {
	if len(entries) == 0 {
		return nil
	}
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].At = keptTime(entries[i].At)
	}
	return entries
}

func keptTime(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}
