package dynamoledger

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// fill sets every field below v to something of its own.
func fill(v reflect.Value, n *int) {
	*n++
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(noon.Add(time.Duration(*n) * time.Second)))
		return
	}
	switch kind := v.Kind(); {
	case kind == reflect.String:
		v.SetString(fmt.Sprint("text-", *n))
	case v.CanInt():
		v.SetInt(int64(*n))
	case v.CanUint():
		v.SetUint(uint64(*n))
	case kind == reflect.Bool:
		v.SetBool(true)
	case kind == reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, n)
		}
	case kind == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		v.SetBytes(fmt.Append(nil, "bytes-", *n))
	case kind == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	default:
		panic("item_test: a record has a field of kind " + kind.String())
	}
}

func fullRecord() ledger.Record {
	var r ledger.Record
	n := 0
	fill(reflect.ValueOf(&r).Elem(), &n)
	r.Key = ledger.Key{Tenant: "acme", RunID: "run-1", CallID: "call-1"}
	r.Status, r.Flags = ledger.Started, 0
	return r.Kept()
}

func TestEveryFieldOfARecordHasAnAttribute(t *testing.T) {
	t.Parallel()
	for _, status := range ledger.Statuses() {
		for _, flag := range append(ledger.AllFlags(), 0, ledger.Retryable|ledger.Granted) {
			want := fullRecord()
			want.Status, want.Flags = status, flag
			if !want.State().Unsettled() {
				want.WaitsSince = time.Time{}
			}
			got, err := decodeRecord(want.Key, testStore(t).encode(want))
			if err != nil {
				t.Fatalf("%s: %v", want.State(), err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s differs (-want +got):\n%s", want.State(), diff)
			}
		}
	}
}

// Proves: R131
func TestItemThatDoesNotSayWhatItMustIsCorrupt(t *testing.T) {
	t.Parallel()
	s := testStore(t)
	for name, spoil := range map[string]func(item){
		"another schema version":     func(it item) { it[attrSchema] = &types.AttributeValueMemberN{Value: "2"} },
		"no schema version":          func(it item) { delete(it, attrSchema) },
		"an unknown status":          func(it item) { it[attrStatus] = str("paused") },
		"no status":                  func(it item) { delete(it, attrStatus) },
		"no version":                 func(it item) { delete(it, attrVersion) },
		"a version that is text":     func(it item) { it[attrVersion] = str("4") },
		"a version that is no count": func(it item) { it[attrVersion] = &types.AttributeValueMemberN{Value: "1.5"} },
		"no last write":              func(it item) { delete(it, attrLastWrite) },
		"no time":                    func(it item) { delete(it, attrCreatedAt) },
		"started without a token":    func(it item) { delete(it, attrToken) },
		"started without a deadline": func(it item) { delete(it, attrDeadline) },
		"a flag that is false":       func(it item) { it["granted"] = &types.AttributeValueMemberBOOL{} },
		"a flag that is text":        func(it item) { it["granted"] = str("yes") },
		"unsettled and not listed":   func(it item) { delete(it, names.AttrIndexSort) },
		"a place that is no time":    func(it item) { it[names.AttrIndexSort] = str("soon#run-1:call-1") },
		"another's key":              func(it item) { it[names.AttrSort] = str("CALL#call-2") },
		"an entry without an id": func(it item) {
			it[attrDecisions] = &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{}}}
		},
		"an entry that is text": func(it item) {
			it[attrEvidence] = &types.AttributeValueMemberL{Value: []types.AttributeValue{str("x")}}
		},
		"a token that is a number": func(it item) {
			it[attrEarlier] = &types.AttributeValueMemberL{Value: []types.AttributeValue{number(1)}}
		},
		"settled, and listed all the same": func(it item) { it[attrStatus] = str("completed") },
	} {
		it := maps.Clone(s.encode(fullRecord()))
		spoil(it)
		if r, err := decodeRecord(fullRecord().Key, it); !errors.Is(err, ledger.ErrCorrupt) || r.Exists() {
			t.Errorf("%s: got %s, %v, want ErrCorrupt", name, r.State(), err)
		}
	}
}

func longestKey() ledger.Key {
	return ledger.Key{
		Tenant: strings.Repeat("t", ledger.MaxTenant), RunID: strings.Repeat("r", ledger.MaxRunID), CallID: strings.Repeat("c", ledger.MaxCallID),
	}
}

func TestUndecidedCallTakesOneWriteUnitEvenWithTheLongestIDs(t *testing.T) {
	t.Parallel()
	s := testStore(t)
	c := ledger.Call{
		Key: longestKey(), Tool: strings.Repeat("t", 64), Class: "destructive", Agent: strings.Repeat("a", 64), Turn: 999,
		Fingerprint: ledger.DigestOf(nil), Received: ledger.DigestOf(nil),
		Summary: strings.Repeat("s", 1000), Permission: strings.Repeat("p", 300),
	}
	x := ledger.Executor{Token: ledger.AttemptToken(strings.Repeat("T", 26)), Attempt: 1, Deadline: noon, QuietAfter: noon, RequestID: strings.Repeat("i", 36)}
	stamp := ledger.Stamp{At: noon, WriteID: strings.Repeat("w", 26)}
	start, err := ledger.Record{}.Start(stamp, c, x)
	if err != nil {
		t.Fatal(err)
	}
	ask, err := ledger.Record{}.AskApproval(stamp, c, time.Hour, 7)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []ledger.Move{start, ask} {
		created, _ := m.Creates()
		r, it := s.fit(created.Kept())
		if size := itemSize(it); size > writeUnit {
			t.Errorf("%s: %d bytes, more than one write unit", m.Event(), size)
		}
		got, err := decodeRecord(r.Key, it)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Errorf("the record returned is not the one stored (-returned +stored):\n%s", diff)
		}
	}
}

func TestSummaryStaysWholeWithUsualIDs(t *testing.T) {
	t.Parallel()
	r := fullRecord()
	r.Key = ledger.Key{Tenant: "acme", RunID: "run-01KAXQ7M3Z5D8E2V9B4N6T1R0W", CallID: "toolu_01A09q90qw90lq917835lq9"}
	r.Decisions, r.Evidence, r.Outcome, r.Undo, r.Approval = nil, nil, ledger.Outcome{}, ledger.Undo{}, ledger.Approval{}
	r.Attempt.Earlier = nil
	r.Summary = strings.Repeat("s", 100)
	if fitted, it := testStore(t).fit(r); fitted.Summary != r.Summary {
		t.Errorf("cut to %q, at %d bytes", fitted.Summary, itemSize(it))
	}
}

func TestListingOrdersByTimeAsText(t *testing.T) {
	t.Parallel()
	last := ""
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(1, 0), noon.Add(-time.Millisecond), noon, noon.AddDate(200, 0, 0)} {
		text := sinceText(at)
		if len(text) != sinceDigits || text < last {
			t.Errorf("%s is %q after %q", at, text, last)
		}
		last = text
	}
}
