package dynamoledger_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/ledgertest"
)

func harness(tb testing.TB, kind string) ledgertest.Harness {
	tb.Helper()
	endpoint := startTable(tb, kind)
	looker := newClient(endpoint, nil)
	return ledgertest.Harness{
		New: func(tb testing.TB) ledger.Store {
			tb.Helper()
			return newStore(tb, newClient(endpoint, checked(tb)), nil)
		},
		Lossy: func(tb testing.TB, seed uint64) ledger.Store {
			tb.Helper()
			lossy := newWire(atRandom(seed))
			lossy.inner = checked(tb)
			return newStore(tb, newClient(endpoint, lossy, quickRetries), nil)
		},
		Verify: func(tb testing.TB, r ledger.Record) { tb.Helper(); verify(tb, looker, r) },
	}
}

// quickRetries keeps the client's tries and shortens the pauses between them.
func quickRetries(o *dynamodb.Options) {
	o.RetryMaxAttempts = 3
	o.Retryer = withoutPause{o.Retryer}
}

type withoutPause struct{ aws.Retryer }

func (w withoutPause) RetryDelay(int, error) (time.Duration, error) { return 0, nil }

// Proves: R36, R38
func TestTableKeepsTheContract(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { ledgertest.Exercise(t, harness(t, kind)) })
	}
}

func TestTableKeepsTheContractOfWaits(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { ledgertest.ExerciseWaits(t, harness(t, kind)) })
	}
}

// verify looks at the stored item itself: its place in the index and its time to
// live must be those of the record's state, however it came to it.
func verify(tb testing.TB, c *dynamodb.Client, r ledger.Record) {
	tb.Helper()
	partition, sort := r.Key.Tenant+"#"+r.Key.RunID, "CALL#"+r.Key.CallID
	out, err := c.GetItem(tb.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(tableName), ConsistentRead: aws.Bool(true),
		Key: map[string]types.AttributeValue{
			names.AttrPartition: &types.AttributeValueMemberS{Value: partition}, names.AttrSort: &types.AttributeValueMemberS{Value: sort},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	_, indexed := out.Item[names.AttrIndexPartition]
	_, sorted := out.Item[names.AttrIndexSort]
	if want := r.State().Unsettled(); indexed != want || sorted != want {
		tb.Errorf("%s: in the index %tb, want %t", r.State(), indexed, want)
	}
	var ttl int64
	if n, ok := out.Item[names.AttrTTL].(*types.AttributeValueMemberN); ok {
		ttl, err = strconv.ParseInt(n.Value, 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
	}
	at, expires := r.Expiry(ledger.DefaultRetention().Total())
	switch {
	case !expires && ttl != 0:
		tb.Errorf("%s: has a time to live, and must stay", r.State())
	case expires && (ttl < at.Unix() || ttl > at.Unix()+1):
		tb.Errorf("%s: time to live is %d, want %d", r.State(), ttl, at.Unix())
	}
}
