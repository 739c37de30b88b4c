// Package ledger holds the rules for one tool call: its record, the moves that
// are allowed and the proof that each needs. It does no I/O, reads no clock and
// makes no random values. The rules stand in one table, see [Table]; start with
// [Record.Start]. Whoever stores records implements [Store]. Authors of tools
// meet only [Record] and [Key].
package ledger

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrStale reports that a proof did not hold: somebody moved the record since
// it was read. Nothing was stored. The record that stands is returned with it.
var ErrStale = errors.New("ledger: record has moved")

// ErrNotAllowed reports a move that the table does not have. Nothing was
// stored; [Record.Next] says what to do instead.
var ErrNotAllowed = errors.New("ledger: not allowed")

// ErrInvalid reports ids or a decision that can't be stored as they are.
// Nothing was stored.
var ErrInvalid = errors.New("ledger: invalid")

// The lengths that keep an undecided call's item below one write unit.
const (
	MaxTenant  = 40
	MaxRunID   = 60
	MaxCallID  = 128
	MaxSummary = 160 // bytes of a redacted argument summary
	MaxMessage = 160 // bytes of a reason
)

// Key names one call within a tenant. It is comparable and holds no secret.
type Key struct {
	Tenant, RunID, CallID string
}

// String returns the key as a receiver should see it: "run:call", with
// "tenant/" in front when there is a tenant.
func (k Key) String() string {
	if k.Tenant == "" {
		return k.RunID + ":" + k.CallID
	}
	return k.Tenant + "/" + k.RunID + ":" + k.CallID
}

// Short returns a hashed form of 26 upper-case letters and digits, for
// receivers with a length limit and for logs.
func (k Key) Short() string {
	sum := sha256.Sum256([]byte(k.String()))
	return base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])
}

// Check returns [ErrInvalid] with every id that is outside its charset or
// length: tenant 0-40 and run 1-60 of A-Za-z0-9_-, call 1-128 of A-Za-z0-9._-
// or one that we made: "~t<turn>-<position>" and, longer than that,
// "<call>~undo<n>" with n from 1.
func (k Key) Check() error {
	var wrong []string
	if !wellFormed(k.Tenant, "_-", MaxTenant) && k.Tenant != "" {
		wrong = append(wrong, fmt.Sprintf("tenant: want at most %d of A-Za-z0-9_-", MaxTenant))
	}
	if !wellFormed(k.RunID, "_-", MaxRunID) {
		wrong = append(wrong, fmt.Sprintf("run id: want 1 to %d of A-Za-z0-9_-", MaxRunID))
	}
	if !wellFormedCall(k.CallID) {
		wrong = append(wrong, fmt.Sprintf("call id: want 1 to %d of A-Za-z0-9._-", MaxCallID))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%w: %s", ErrInvalid, strings.Join(wrong, "; "))
	}
	return nil
}

// ParseKey reads what [Key.String] writes.
func ParseKey(s string) (Key, error) {
	var k Key
	rest := s
	if tenant, after, ok := strings.Cut(s, "/"); ok {
		k.Tenant, rest = tenant, after
		if tenant == "" {
			return Key{}, fmt.Errorf("%w: key: empty tenant", ErrInvalid)
		}
	}
	run, call, ok := strings.Cut(rest, ":")
	if !ok {
		return Key{}, fmt.Errorf("%w: key: want <run>:<call>", ErrInvalid)
	}
	k.RunID, k.CallID = run, call
	return k, k.Check()
}

// ProviderCallID reports whether id is well formed as a model provider's call
// id; ids of our own making are not.
func ProviderCallID(id string) bool { return wellFormed(id, "._-", MaxCallID) }

// PlannedCallID returns the id of the call at position (from 0) of turn, for
// calls whose provider's id is missing, malformed or not new in the run.
func PlannedCallID(turn, position int) string { return fmt.Sprintf("~t%d-%d", turn, position) }

// undoMark stands between a call's id and the number of its undo.
const undoMark = "~undo"

// Undo returns the key of the call's n-th undo, which is a call of its own.
func (k Key) Undo(n int) Key {
	k.CallID += undoMark + strconv.Itoa(n)
	return k
}

// UndoOf returns the key of the call that the key's call undoes, and the undo's
// number; ok is false if it is no undo.
func (k Key) UndoOf() (owner Key, n int, ok bool) {
	base, number, ok := strings.Cut(k.CallID, undoMark)
	if !ok || !digits(number) || number[0] == '0' {
		return Key{}, 0, false
	}
	n, err := strconv.Atoi(number)
	owner = k
	owner.CallID = base
	return owner, n, err == nil
}

func wellFormed(s, extra string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for _, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.Contains(extra, string(c)) {
			return false
		}
	}
	return true
}

func wellFormedCall(id string) bool {
	if owner, _, ok := (Key{CallID: id}).UndoOf(); ok {
		id = owner.CallID // so that a call with the longest id can be undone too
	}
	return wellFormed(id, "._-", MaxCallID) || planned(id)
}

func planned(id string) bool {
	rest, ok := strings.CutPrefix(id, "~t")
	if !ok {
		return false
	}
	turn, position, ok := strings.Cut(rest, "-")
	return ok && digits(turn) && digits(position) && len(id) <= MaxCallID
}

func digits(s string) bool {
	return s != "" && len(s) <= 9 && strings.Trim(s, "0123456789") == ""
}

// AttemptToken is the random name of one try. Only the process that holds it
// may settle the call as its executor.
type AttemptToken string

// Digest is a SHA-256 in base64url without padding: of what a call asks for, of
// the arguments as they came, or of a stored result. "" is none.
type Digest string

// Secret is text that formats, logs and marshals as "redacted".
type Secret string

// String returns "redacted"; convert to string to use the secret.
func (Secret) String() string { return "redacted" }

// GoString returns "redacted".
func (Secret) GoString() string { return "redacted" }

// MarshalText returns "redacted".
func (Secret) MarshalText() ([]byte, error) { return []byte("redacted"), nil }
