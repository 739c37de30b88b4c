package dynamoledger_test

import (
	"crypto/rand"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
)

// processor is the CPU time that this process has used, in user and system mode.
// The engine is a process of its own and does not count.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// measure reports CPU time and requests of each iteration beside the time.
func measure(b *testing.B, requests float64, one func()) {
	b.Helper()
	b.ReportAllocs()
	one() // connections are open now
	began := processor(b)
	for b.Loop() {
		one()
	}
	b.ReportMetric(float64(processor(b)-began)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(requests, "requests/op")
}

// BenchmarkFreshCall is a call that starts and completes, beside the two SDK
// calls that somebody without a ledger would write for it: a conditional put, and
// an update that returns what it wrote.
func BenchmarkFreshCall(b *testing.B) {
	endpoint := startTable(b, dynoxide)
	b.Run("raw", func(b *testing.B) {
		c := newClient(endpoint, nil)
		measure(b, 2, func() { rawCall(b, c) })
	})
	b.Run("ledger", func(b *testing.B) {
		s := newStore(b, newClient(endpoint, nil), nil)
		measure(b, 2, func() {
			apply(b, s, complete(b, apply(b, s, start(b, freshKey())), []byte(`{"credit_id":"cr_9"}`)))
		})
	})
}

// BenchmarkFreshCallBesideRaw takes turns, so that both meet the same machine, and
// reports how much CPU time the ledger's call takes for each of the raw one's.
func BenchmarkFreshCallBesideRaw(b *testing.B) {
	endpoint := startTable(b, dynoxide)
	c := newClient(endpoint, nil)
	s := newStore(b, newClient(endpoint, nil), nil)
	var raw, guarded time.Duration
	turn := func() {
		const calls = 20
		began := processor(b)
		for range calls {
			rawCall(b, c)
		}
		middle := processor(b)
		for range calls {
			apply(b, s, complete(b, apply(b, s, start(b, freshKey())), []byte(`{"credit_id":"cr_9"}`)))
		}
		raw += middle - began
		guarded += processor(b) - middle
	}
	turn()
	raw, guarded = 0, 0
	for b.Loop() {
		turn()
	}
	b.ReportMetric(float64(guarded)/float64(raw), "cpu-ratio")
}

// BenchmarkReplay is the refused put of a call that has completed.
func BenchmarkReplay(b *testing.B) {
	endpoint := startTable(b, dynoxide)
	s := newStore(b, newClient(endpoint, nil), nil)
	key := freshKey()
	apply(b, s, complete(b, apply(b, s, start(b, key)), []byte(`{"credit_id":"cr_9"}`)))
	raw := newClient(endpoint, nil)
	first := rawCall(b, raw)
	b.Run("raw", func(b *testing.B) {
		measure(b, 1, func() {
			if _, err := raw.PutItem(b.Context(), first); err == nil {
				b.Fatal("the put was not refused")
			}
		})
	})
	b.Run("ledger", func(b *testing.B) {
		measure(b, 1, func() { refused(b, s, start(b, key)) })
	})
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func rawCall(b *testing.B, c *dynamodb.Client) *dynamodb.PutItemInput {
	b.Helper()
	key := itemKey(freshKey(), "CALL#toolu_01")
	token := text(rand.Text())
	it := map[string]types.AttributeValue{
		"status": text("started"), "token": token, "tool": text("issue_credit"), "fingerprint": text(string(ledger.DigestOf([]byte("asked")))),
		"arguments": text(`{"account_id":"A1","amount_cents":2500}`), "created_at": text(noon.Format(time.RFC3339Nano)), "deadline": text(noon.Format(time.RFC3339Nano)),
		names.AttrPartition: key[names.AttrPartition], names.AttrSort: key[names.AttrSort],
	}
	put := &dynamodb.PutItemInput{
		TableName: aws.String(tableName), Item: it, ConditionExpression: aws.String("attribute_not_exists(pk)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if _, err := c.PutItem(b.Context(), put); err != nil {
		b.Fatal(err)
	}
	_, err := c.UpdateItem(b.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(tableName), Key: key,
		UpdateExpression:         aws.String("SET #s = :s, #r = :r, completed_at = :at, external_id = :id, #t = :ttl"),
		ConditionExpression:      aws.String("#k = :k AND #s = :started"),
		ExpressionAttributeNames: map[string]string{"#s": "status", "#r": "result", "#k": "token", "#t": names.AttrTTL},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":s": text("completed"), ":r": text(`{"credit_id":"cr_9"}`), ":at": text(noon.Format(time.RFC3339Nano)), ":id": text("cr_9"),
			":k": token, ":started": text("started"), ":ttl": &types.AttributeValueMemberN{Value: "1800000000"},
		},
		ReturnValues: types.ReturnValueAllNew, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if err != nil {
		b.Fatal(err)
	}
	return put
}
