package dynamoledger

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
)

// decodeRecord reads a record's item; no item is the zero Record. Whatever the
// item does not say, or says in a way that this version does not know, is
// [ledger.ErrCorrupt]: nothing may run on a guess.
func decodeRecord(key ledger.Key, it item) (ledger.Record, error) {
	if len(it) == 0 {
		return ledger.Record{}, nil
	}
	d := decoder{it: it}
	r := ledger.Record{
		Key: key, Tool: d.str(attrTool), Class: d.str(attrClass), Agent: d.str(attrAgent), Turn: int(d.num(attrTurn)),
		Status: ledger.Status(d.need(attrStatus)), Flags: d.flags(), Version: d.num(attrVersion), Rev: d.num(attrRev),
		LastWrite: d.need(attrLastWrite), LastNote: d.str(attrLastNote), Fingerprint: ledger.Digest(d.str(attrFingerprint)),
		Received: ledger.Digest(d.str(attrReceived)), Summary: d.str(attrSummary), Permission: d.str(attrPermission), Owner: d.str(attrOwner),
		Attempt: ledger.Attempt{
			Number: int(d.num(attrAttempt)), Token: ledger.AttemptToken(d.str(attrToken)), Earlier: d.tokens(attrEarlier), StartedAt: d.time(attrStartedAt),
			Deadline: d.time(attrDeadline), QuietAfter: d.time(attrQuietAfter), RequestID: d.str(attrRequestID),
		},
		Approval: ledger.Approval{
			By: d.str(attrApprovedBy), At: d.time(attrApprovedAt), ExpiresAt: d.time(attrApprovalUntil),
			Fingerprint: ledger.Digest(d.str(attrApprovalPrint)), Policy: int(d.num(attrApprovalPolicy)),
		},
		Undo: ledger.Undo{N: int(d.num(attrUndoN)), AskedAt: d.time(attrUndoAt)},
		Outcome: ledger.Outcome{
			ExternalID: d.str(attrExternalID), Result: d.bytes(attrResult), Code: d.str(attrCode), Message: d.str(attrMessage),
			Ref: ledger.ResultRef{
				WriteID: d.str(attrResultID), Digest: ledger.Digest(d.str(attrResultDigest)), Bytes: int(d.num(attrResultBytes)), NotKept: d.truth(attrResultNotKept),
			},
			By: ledger.Settler{Kind: ledger.SettlerKind(d.str(attrByKind)), ID: d.str(attrByID)}, At: d.time(attrSettledAt),
		},
		CreatedAt: d.time(attrCreatedAt), Decisions: d.entries(attrDecisions), Evidence: d.entries(attrEvidence),
	}
	if r.Attempt.Token != "" && r.Attempt.StartedAt.IsZero() {
		r.Attempt.StartedAt = r.CreatedAt
	}
	r.WaitsSince = d.since(r.State().Unsettled())
	d.check(r)
	if d.wrong != "" {
		return ledger.Record{}, fmt.Errorf("dynamoledger: item of %s: %w: %s", key, ledger.ErrCorrupt, d.wrong)
	}
	return r, nil
}

// check is what must be so for a record to decide anything.
func (d *decoder) check(r ledger.Record) {
	switch {
	case d.str(names.AttrPartition) != partition(r.Key) || d.str(names.AttrSort) != callItems+r.Key.CallID:
		d.fail("it has another key")
	case d.number(attrSchema) != schemaVersion:
		d.fail("schema version is " + strconv.Quote(d.number(attrSchema)))
	case !slices.Contains(ledger.Statuses(), r.Status):
		d.fail("status is " + strconv.Quote(string(r.Status)))
	case r.Version <= 0 || r.CreatedAt.IsZero():
		d.fail("no version or no time")
	case r.Status == ledger.Started && (r.Attempt.Token == "" || r.Attempt.Number <= 0 || r.Attempt.Deadline.IsZero()):
		d.fail("started by nobody, or without a deadline")
	case r.Status == ledger.Reserved && r.Approval.ExpiresAt.IsZero():
		d.fail("reserved without a window")
	case r.Status == ledger.Follower && r.Owner == "":
		d.fail("follows nobody")
	}
}

// decoder reads attributes and remembers the first that is not what it must be.
type decoder struct {
	it    item
	wrong string
}

func (d *decoder) fail(why string) {
	if d.wrong == "" {
		d.wrong = why
	}
}

func attribute[T types.AttributeValue](d *decoder, name string) (v T, ok bool) {
	stored, there := d.it[name]
	if !there {
		return v, false
	}
	v, ok = stored.(T)
	if !ok {
		d.fail(name + " is of another type")
	}
	return v, ok
}

func (d *decoder) str(name string) string {
	if v, ok := attribute[*types.AttributeValueMemberS](d, name); ok {
		return v.Value
	}
	return ""
}

func (d *decoder) need(name string) string {
	s := d.str(name)
	if s == "" {
		d.fail("no " + name)
	}
	return s
}

func (d *decoder) number(name string) string {
	if v, ok := attribute[*types.AttributeValueMemberN](d, name); ok {
		return v.Value
	}
	return ""
}

func (d *decoder) num(name string) int64 {
	text := d.number(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		d.fail(name + " is no whole number")
	}
	return n
}

func (d *decoder) time(name string) time.Time {
	if _, there := d.it[name]; !there {
		return time.Time{}
	}
	return time.UnixMilli(d.num(name)).UTC()
}

func (d *decoder) truth(name string) bool {
	v, ok := attribute[*types.AttributeValueMemberBOOL](d, name)
	return ok && v.Value
}

func (d *decoder) bytes(name string) []byte {
	if v, ok := attribute[*types.AttributeValueMemberB](d, name); ok {
		return v.Value
	}
	return nil
}

// flags are one attribute each, so that a condition can ask for them; one that
// is there and not true is none of ours.
func (d *decoder) flags() ledger.Flags {
	var set ledger.Flags
	for i, name := range flagNames {
		if _, there := d.it[name]; !there {
			continue
		}
		if !d.truth(name) {
			d.fail(name + " is not true")
		}
		set |= allFlags[i]
	}
	return set
}

var (
	allFlags  = ledger.AllFlags()
	flagNames = namesOf(allFlags)
)

func namesOf(flags []ledger.Flags) []string {
	all := make([]string, len(flags))
	for i, flag := range flags {
		all[i] = flag.String()
	}
	return all
}

func (d *decoder) tokens(name string) []ledger.AttemptToken {
	list, ok := attribute[*types.AttributeValueMemberL](d, name)
	if !ok {
		return nil
	}
	all := make([]ledger.AttemptToken, len(list.Value))
	for i, v := range list.Value {
		s, ok := v.(*types.AttributeValueMemberS)
		if !ok {
			d.fail(name + " holds what is no text")
			return nil
		}
		all[i] = ledger.AttemptToken(s.Value)
	}
	return all
}

func (d *decoder) entries(name string) []ledger.Entry {
	list, ok := attribute[*types.AttributeValueMemberL](d, name)
	if !ok {
		return nil
	}
	var all []ledger.Entry
	for _, v := range list.Value {
		m, ok := v.(*types.AttributeValueMemberM)
		if !ok {
			d.fail(name + " holds what is no entry")
			return nil
		}
		all = append(all, d.entry(m.Value))
	}
	return all
}

func (d *decoder) entry(it item) ledger.Entry {
	in := decoder{it: it}
	e := ledger.Entry{
		ID: in.need(entryID), Kind: ledger.Event(in.str(entryKind)), By: in.str(entryBy), Reason: in.str(entryReason),
		At: in.time(entryAt), Before: in.str(entryBefore), After: in.str(entryAfter),
	}
	if in.wrong != "" {
		d.fail("entry: " + in.wrong)
	}
	return e
}

// since reads from the sort key of the index when the record began to need
// somebody. A record is in the index exactly while it does.
func (d *decoder) since(unsettled bool) time.Time {
	sort := d.str(names.AttrIndexSort)
	if unsettled != (sort != "") {
		d.fail("its state and its place in the index differ")
	}
	if sort == "" {
		return time.Time{}
	}
	digits, _, ok := strings.Cut(sort, "#")
	ms, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil {
		d.fail("its place in the index can't be read")
	}
	return time.UnixMilli(ms).UTC()
}
