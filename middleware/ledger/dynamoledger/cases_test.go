package dynamoledger_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
)

// stored returns the item of a call, past the store.
func stored(t *testing.T, endpoint string, k ledger.Key) map[string]types.AttributeValue {
	t.Helper()
	out, err := newClient(endpoint, nil).GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(tableName), ConsistentRead: aws.Bool(true),
		Key: map[string]types.AttributeValue{
			names.AttrPartition: &types.AttributeValueMemberS{Value: k.Tenant + "#" + k.RunID},
			names.AttrSort:      &types.AttributeValueMemberS{Value: "CALL#" + k.CallID},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

// DynamoDB takes a time to live in seconds; milliseconds would be a date in
// fifty thousand years, and the item would stay for ever.
func TestTimeToLiveIsInSecondsAndNeverBeforeRetentionEnds(t *testing.T) {
	t.Parallel()
	endpoint := startTable(t, dynoxide)
	for _, retention := range []time.Duration{time.Hour, 46 * 24 * time.Hour, 400*24*time.Hour + 7*time.Millisecond} {
		for _, at := range []time.Time{noon, noon.Add(time.Millisecond), noon.Add(999 * time.Millisecond)} {
			s := newStore(t, newClient(endpoint, nil), &dynamoledger.Options{Retention: retention})
			r := apply(t, s, start(t, freshKey()))
			if ttl, ok := stored(t, endpoint, r.Key)[names.AttrTTL]; ok {
				t.Errorf("a started call expires at %v", ttl)
			}
			settled := must(t)(r.Settle(ledger.Stamp{At: at, WriteID: "w" + r.LastWrite}, r.Attempt.Token, ledger.Settlement{Effect: ledger.Happened}))
			apply(t, s, settled)
			n, ok := stored(t, endpoint, r.Key)[names.AttrTTL].(*types.AttributeValueMemberN)
			if !ok {
				t.Fatal("a settled call never expires")
			}
			ttl, err := strconv.ParseInt(n.Value, 10, 64)
			end := at.Add(retention + ledger.BroomDelay)
			if late := time.Unix(ttl, 0).Sub(end); err != nil || late < 0 || late >= time.Second {
				t.Errorf("settled at %v, kept for %v: expires %v after that, %v", at, retention, late, err)
			}
		}
	}
}

// DynamoDB removes an expired item days later. Until then it is a record like
// any other: a repeat is answered from it and does not run.
func TestRecordThatTheBroomIsLateForStillAnswers(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		endpoint := startTable(t, kind)
		s := newStore(t, newClient(endpoint, nil), &dynamoledger.Options{Retention: time.Hour})
		key := freshKey()
		long := time.Now().Add(-365 * 24 * time.Hour)
		r := apply(t, s, must(t)(ledger.Record{}.Start(ledger.Stamp{At: long, WriteID: "w1" + key.Tenant}, call(key), executor())))
		r = apply(t, s, must(t)(r.Settle(ledger.Stamp{At: long, WriteID: "w2" + key.Tenant}, r.Attempt.Token, ledger.Settlement{Effect: ledger.Happened, Result: []byte(`"paid"`)})))
		if item := stored(t, endpoint, key); item == nil {
			t.Skipf("%s removes expired items at once", kind)
		}
		again, err := s.Apply(t.Context(), start(t, key))
		if !errors.Is(err, ledger.ErrStale) || again.Status != ledger.Completed || again.Version != r.Version {
			t.Errorf("%s: a repeat meets %s, %v", kind, again.State(), err)
		}
		if result, err := s.Result(t.Context(), again); err != nil || string(result) != `"paid"` {
			t.Errorf("%s: result %s, %v", kind, result, err)
		}
	}
}

// What a tenant, a run and a call are can't be confused, whatever their ids.
func TestCallsOfManyRunsLieInPartitionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	endpoint := startTable(t, dynoxide)
	s := newStore(t, newClient(endpoint, nil), nil)
	base := freshKey()
	partitions := map[string]bool{}
	for i := range 50 {
		k := ledger.Key{Tenant: base.Tenant, RunID: "run-" + strconv.Itoa(i), CallID: "toolu_01"}
		apply(t, s, start(t, k))
		item := stored(t, endpoint, k)
		partitions[item[names.AttrPartition].(*types.AttributeValueMemberS).Value] = true
		index := item[names.AttrIndexPartition].(*types.AttributeValueMemberS).Value
		partitions["index "+index] = true
	}
	var items, shards int
	for name := range partitions {
		if len(name) > 6 && name[:6] == "index " {
			shards++
		} else {
			items++
		}
	}
	if items != 50 || shards < 6 || shards > 8 {
		t.Errorf("50 runs lie in %d partitions and their list in %d shards", items, shards)
	}
}
