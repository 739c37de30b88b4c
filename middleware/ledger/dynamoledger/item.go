package dynamoledger

import (
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
)

// schemaVersion of the items. A store reads no other: what an unknown version
// means for an effect can't be guessed.
const schemaVersion = "1"

// The attributes of a record. Zero values are not stored, but for the counters.
// Those that expressions name are none of DynamoDB's reserved words, but for the
// ones that [ref] knows.
const (
	attrSchema         = "schema"
	attrTool           = "tool"
	attrClass          = "class"
	attrAgent          = "agent"
	attrTurn           = "turn"
	attrStatus         = "status"
	attrVersion        = "version"
	attrRev            = "rev"
	attrLastWrite      = "last_write"
	attrLastNote       = "last_note"
	attrFingerprint    = "fingerprint"
	attrReceived       = "received"
	attrSummary        = "summary"
	attrPermission     = "permission"
	attrOwner          = "owner"
	attrCreatedAt      = "created_at"
	attrAttempt        = "attempt"
	attrToken          = "attempt_token"
	attrEarlier        = "earlier_tokens"
	attrStartedAt      = "started_at"
	attrDeadline       = "deadline"
	attrQuietAfter     = "quiet_after"
	attrRequestID      = "request_id"
	attrApprovedBy     = "approved_by"
	attrApprovedAt     = "approved_at"
	attrApprovalUntil  = "approval_until"
	attrApprovalPrint  = "approval_print"
	attrApprovalPolicy = "approval_policy"
	attrUndoN          = "undo_n"
	attrUndoAt         = "undo_at"
	attrExternalID     = "external_id"
	attrResult         = "result_json"
	attrResultID       = "result_id"
	attrResultDigest   = "result_digest"
	attrResultBytes    = "result_bytes"
	attrResultNotKept  = "result_not_kept"
	attrCode           = "code"
	attrMessage        = "message"
	attrByKind         = "by_kind"
	attrByID           = "by_id"
	attrSettledAt      = "settled_at"
	attrDecisions      = "decisions"
	attrEvidence       = "evidence"
	attrNoted          = "noted" // ids of the evidence, so that none is appended twice
)

// put takes an attribute; a nil value means that it is not there.
type put func(name string, v types.AttributeValue)

func str(s string) types.AttributeValue {
	if s == "" {
		return nil
	}
	return &types.AttributeValueMemberS{Value: s}
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func count[N int | int64](n N) types.AttributeValue {
	if n == 0 {
		return nil
	}
	return number(int64(n))
}

func instant(t time.Time) types.AttributeValue {
	if t.IsZero() {
		return nil
	}
	return number(t.UnixMilli())
}

func truth(b bool) types.AttributeValue {
	if !b {
		return nil
	}
	return isTrue
}

// Values that never change are made once; the client only reads them.
var (
	isTrue  = &types.AttributeValueMemberBOOL{Value: true}
	version = &types.AttributeValueMemberN{Value: schemaVersion}
)

func raw(b []byte) types.AttributeValue {
	if len(b) == 0 {
		return nil
	}
	return &types.AttributeValueMemberB{Value: b}
}

// encode returns the whole item of a record.
func (s *Store) encode(r ledger.Record) item {
	it := make(item, 28)
	set := func(name string, v types.AttributeValue) {
		if v != nil {
			it[name] = v
		}
	}
	set(names.AttrPartition, str(partition(r.Key)))
	set(names.AttrSort, str(callItems+r.Key.CallID))
	set(attrSchema, version)
	set(attrTool, str(r.Tool))
	set(attrClass, str(r.Class))
	set(attrAgent, str(r.Agent))
	set(attrTurn, count(r.Turn))
	set(attrStatus, str(string(r.Status)))
	for _, flag := range r.Flags.Names() {
		set(flag, truth(true))
	}
	set(attrVersion, number(r.Version))
	set(attrRev, number(r.Rev))
	set(attrLastWrite, str(r.LastWrite))
	set(attrLastNote, str(r.LastNote))
	set(attrFingerprint, str(string(r.Fingerprint)))
	set(attrReceived, str(string(r.Received)))
	set(attrSummary, str(r.Summary))
	set(attrPermission, str(r.Permission))
	set(attrOwner, str(r.Owner))
	set(attrCreatedAt, instant(r.CreatedAt))
	putAttempt(r.Attempt, set)
	if r.Attempt.StartedAt.Equal(r.CreatedAt) {
		delete(it, attrStartedAt) // a call that started at once says it once
	}
	putApproval(r.Approval, set)
	putUndo(r.Undo, set)
	putOutcome(r.Outcome, set)
	set(attrDecisions, entries(r.Decisions))
	set(attrEvidence, entries(r.Evidence))
	set(attrNoted, noted(r.Evidence))
	s.putListing(r, set)
	return it
}

// putListing sets what follows from the state that r is in: its place in the
// list of what is unsettled, and when the broom may take it.
func (s *Store) putListing(r ledger.Record, set put) {
	var part, sort, ttl types.AttributeValue
	if r.State().Unsettled() {
		part, sort = s.indexKeys(r.Key, r.WaitsSince)
	}
	if at, ok := r.Expiry(s.options.Retention); ok {
		ttl = seconds(at)
	}
	set(names.AttrIndexPartition, part)
	set(names.AttrIndexSort, sort)
	set(names.AttrTTL, ttl)
}

// seconds rounds up: the broom may come late, never early.
func seconds(t time.Time) types.AttributeValue {
	return number(t.Add(time.Second - 1).Unix())
}

func putAttempt(a ledger.Attempt, set put) {
	set(attrAttempt, count(a.Number))
	set(attrToken, str(string(a.Token)))
	set(attrEarlier, tokens(a.Earlier))
	set(attrStartedAt, instant(a.StartedAt))
	set(attrDeadline, instant(a.Deadline))
	set(attrQuietAfter, instant(a.QuietAfter))
	set(attrRequestID, str(a.RequestID))
}

func putApproval(a ledger.Approval, set put) {
	set(attrApprovedBy, str(a.By))
	set(attrApprovedAt, instant(a.At))
	set(attrApprovalUntil, instant(a.ExpiresAt))
	set(attrApprovalPrint, str(string(a.Fingerprint)))
	set(attrApprovalPolicy, count(a.Policy))
}

func putUndo(u ledger.Undo, set put) {
	set(attrUndoN, count(u.N))
	set(attrUndoAt, instant(u.AskedAt))
}

func putOutcome(o ledger.Outcome, set put) {
	set(attrExternalID, str(o.ExternalID))
	set(attrResult, raw(o.Result))
	set(attrResultID, str(o.Ref.WriteID))
	set(attrResultDigest, str(string(o.Ref.Digest)))
	set(attrResultBytes, count(o.Ref.Bytes))
	set(attrResultNotKept, truth(o.Ref.NotKept))
	set(attrCode, str(o.Code))
	set(attrMessage, str(o.Message))
	set(attrByKind, str(string(o.By.Kind)))
	set(attrByID, str(o.By.ID))
	set(attrSettledAt, instant(o.At))
}

func tokens(all []ledger.AttemptToken) types.AttributeValue {
	if len(all) == 0 {
		return nil
	}
	list := make([]types.AttributeValue, len(all))
	for i, token := range all {
		list[i] = &types.AttributeValueMemberS{Value: string(token)}
	}
	return &types.AttributeValueMemberL{Value: list}
}

// The attributes of an entry, short because a record holds several.
const (
	entryID     = "id"
	entryKind   = "kind"
	entryBy     = "by"
	entryReason = "why"
	entryAt     = "at"
	entryBefore = "from"
	entryAfter  = "to"
)

func entries(all []ledger.Entry) types.AttributeValue {
	if len(all) == 0 {
		return nil
	}
	list := make([]types.AttributeValue, len(all))
	for i, e := range all {
		list[i] = &types.AttributeValueMemberM{Value: encodeEntry(e)}
	}
	return &types.AttributeValueMemberL{Value: list}
}

func encodeEntry(e ledger.Entry) item {
	it := make(item, 7)
	set := func(name string, v types.AttributeValue) {
		if v != nil {
			it[name] = v
		}
	}
	set(entryID, str(e.ID))
	set(entryKind, str(string(e.Kind)))
	set(entryBy, str(e.By))
	set(entryReason, str(e.Reason))
	set(entryAt, instant(e.At))
	set(entryBefore, str(e.Before))
	set(entryAfter, str(e.After))
	return it
}

func noted(evidence []ledger.Entry) types.AttributeValue {
	if len(evidence) == 0 {
		return nil
	}
	ids := make([]string, len(evidence))
	for i, e := range evidence {
		ids[i] = e.ID
	}
	return &types.AttributeValueMemberSS{Value: ids}
}
