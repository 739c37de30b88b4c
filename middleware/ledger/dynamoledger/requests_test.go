package dynamoledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
)

// Proves: R25, R167
func TestCallCostsFewRequests(t *testing.T) {
	t.Parallel()
	small, large := []byte(`{"ok":true}`), bytes.Repeat([]byte("7"), 300_000)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := &counter{Client: newClient(startTable(t, kind), nil)}
			s := newStore(t, c, nil)
			look := map[string]string{dynoxide: "", dynalite: " get"}[kind] // where a refusal brings no item
			for _, result := range [][]byte{small, large} {
				key := freshKey()
				beside, read := "", ""
				if len(result) > ledger.InlineResult {
					beside, read = "put ", " get"
				}
				c.wants(t, fmt.Sprintf("fresh call, %d bytes", len(result)), "put "+beside+"update", func() {
					apply(t, s, complete(t, apply(t, s, start(t, key)), result))
				})
				c.wants(t, fmt.Sprintf("replay, %d bytes", len(result)), "put"+look, func() { refused(t, s, start(t, key)) })
				c.wants(t, fmt.Sprintf("replay with its result, %d bytes", len(result)), "put"+look+read, func() {
					got, err := s.Result(t.Context(), refused(t, s, start(t, key)))
					if err != nil || !bytes.Equal(got, result) {
						t.Errorf("result: %d bytes, %v", len(got), err)
					}
				})
			}
			key := freshKey()
			apply(t, s, start(t, key))
			c.wants(t, "conflict", "put"+look, func() { refused(t, s, start(t, key)) })
			c.wants(t, "journalled read", "put", func() {
				apply(t, s, must(t)(ledger.Record{}.Journal(stamp(), call(freshKey()), ledger.Settlement{Effect: ledger.Happened, Result: small})))
			})
			c.wants(t, "late settlement of an orphaned call", "update", func() { settlesOrphaned(t, s, c) })
		})
	}
}

func (c *counter) wants(t *testing.T, what, want string, do func()) {
	t.Helper()
	if ops, _ := c.since(t, do); ops != want {
		t.Errorf("%s: %s, want %s", what, ops, want)
	}
}

// settlesOrphaned lets an executor settle what it read as started and what has
// been orphaned since; only the settlement is counted.
func settlesOrphaned(t *testing.T, s *dynamoledger.Store, c *counter) {
	t.Helper()
	r := apply(t, s, start(t, freshKey()))
	late := ledger.Stamp{At: noon.Add(1e12), WriteID: "orphan"}
	apply(t, s, must(t)(r.Orphan(late)))
	c.since(t, func() {})
	if r = apply(t, s, complete(t, r, nil)); r.Status != ledger.Completed {
		t.Errorf("it is %s, want completed", r.State())
	}
}

func refused(tb testing.TB, s ledger.Store, m ledger.Move) ledger.Record {
	tb.Helper()
	r, err := s.Apply(tb.Context(), m)
	if !errors.Is(err, ledger.ErrStale) {
		tb.Fatalf("%s: got %v, want ErrStale", m.Event(), err)
	}
	return r
}

// A refused write costs what the item that refuses it would cost to write.
//
// Proves: R167
func TestReplayCostsOneUnitWhateverTheResult(t *testing.T) {
	t.Parallel()
	endpoint := startTable(t, dynoxide)
	s := newStore(t, newClient(endpoint, nil), nil)
	for _, size := range []int{0, 1, ledger.InlineResult, ledger.InlineResult + 1, 300_000} {
		key := freshKey()
		r := apply(t, s, start(t, key))
		if units := writeUnits(t, endpoint, key); units != 1 { // its index entry stays
			t.Errorf("undecided: writing the item costs %g units, want 1", units)
		}
		apply(t, s, complete(t, r, bytes.Repeat([]byte("7"), size)))
		if units := writeUnits(t, endpoint, key); units != 1 {
			t.Errorf("completed with %d bytes: writing the item costs %g units, want 1", size, units)
		}
	}
}

func TestFreshCallCostsTwoUnitsAWrite(t *testing.T) {
	t.Parallel()
	c := &counter{Client: newClient(startTable(t, dynoxide), nil)}
	s := newStore(t, c, nil)
	_, units := c.since(t, func() {
		apply(t, s, complete(t, apply(t, s, start(t, freshKey())), []byte(`{"ok":true}`)))
	})
	if want := []float64{2, 2}; !slices.Equal(units, want) { // the item, and its index entry made and removed
		t.Errorf("consumed %v units, want %v", units, want)
	}
}

// writeUnits asks the engine what a write costs that leaves the item as it is.
func writeUnits(t *testing.T, endpoint string, key ledger.Key) float64 {
	t.Helper()
	it := storedItem(t, endpoint, key)
	out, err := newClient(endpoint, nil).PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: aws.String(tableName), Item: it, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err != nil {
		t.Fatal(err)
	}
	return *out.ConsumedCapacity.CapacityUnits
}

func itemKey(key ledger.Key, sort string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		names.AttrPartition: &types.AttributeValueMemberS{Value: key.Tenant + "#" + key.RunID},
		names.AttrSort:      &types.AttributeValueMemberS{Value: sort},
	}
}

// storedItem reads the item of a call as it lies in the table.
func storedItem(tb testing.TB, endpoint string, key ledger.Key) map[string]types.AttributeValue {
	tb.Helper()
	return itemOf(tb, endpoint, key, "CALL#"+key.CallID)
}

func itemOf(tb testing.TB, endpoint string, key ledger.Key, sort string) map[string]types.AttributeValue {
	tb.Helper()
	out, err := newClient(endpoint, nil).GetItem(tb.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(tableName), ConsistentRead: aws.Bool(true), Key: itemKey(key, sort),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out.Item
}
