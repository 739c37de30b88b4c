package dynamoledger_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// What a guarded call may cost in CPU beside the SDK calls that somebody without
// a ledger would write for it. A replay brings the whole record back, which the
// SDK parses twice.
const (
	freshCPU  = 1.25
	replayCPU = 1.35
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

// contender is one way to make a call, with what it may cost in requests.
type contender struct {
	name     string
	requests int64 // of one call
	one      func()
	sent     *tally

	cpu, wall []time.Duration // of each turn
	calls     int
}

// tally counts the requests that a client sends.
type tally struct {
	base http.RoundTripper
	n    atomic.Int64
}

func (c *tally) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.base.RoundTrip(r)
}

func newTally() *tally {
	return &tally{base: http.DefaultTransport.(*http.Transport).Clone()} //nolint:forcetypeassert // it is one
}

// middle returns the median, so that a turn in which the machine did something
// else does not count.
func middle[T cmp.Ordered](all []T) T {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

// sideBySide lets the contenders take turns, so that all meet the same machine,
// and reports what each costs beside the first.
func sideBySide(b *testing.B, most float64, contenders ...*contender) {
	b.Helper()
	const calls = 20
	for _, c := range contenders {
		c.one() // connections are open now
		c.sent.n.Store(0)
	}
	for b.Loop() {
		for _, c := range contenders {
			wall, cpu := time.Now(), processor(b)
			for range calls {
				c.one()
			}
			c.wall = append(c.wall, time.Since(wall))
			c.cpu = append(c.cpu, processor(b)-cpu)
			c.calls += calls
		}
	}
	raw := contenders[0]
	for _, c := range contenders {
		if sent := c.sent.n.Load(); sent != c.requests*int64(c.calls) {
			b.Errorf("%s: %d requests for %d calls, want %d each", c.name, sent, c.calls, c.requests)
		}
		b.ReportMetric(float64(middle(c.cpu).Microseconds())/calls, c.name+"-cpu-us/call")
		b.ReportMetric(float64(middle(c.wall).Microseconds())/calls, c.name+"-wall-us/call")
		if c == raw {
			continue
		}
		ratios := make([]float64, len(c.cpu))
		for i := range c.cpu {
			ratios[i] = float64(c.cpu[i]) / float64(raw.cpu[i])
		}
		ratio := middle(ratios)
		b.ReportMetric(ratio, c.name+"-cpu-ratio")
		if c.calls >= enough && ratio > most {
			b.Errorf("%s takes %.2f times the CPU of the raw calls, want at most %.2f", c.name, ratio, most)
		}
	}
	b.ReportMetric(0, "ns/op") // an iteration is a turn of all: its time says nothing
}

// enough is how many calls a ratio is judged on; the first rounds of a benchmark
// are too short.
const enough = 1000

type creditIn struct {
	AccountID   string `json:"account_id"`
	AmountCents int64  `json:"amount_cents"`
}

type credit struct {
	CreditID string `json:"credit_id"`
}

// newTool returns a call through the guard whose handler does nothing.
func newTool(b *testing.B, endpoint string, sent *tally) func(ledger.Key) {
	b.Helper()
	guard, err := once.New(newStore(b, newClient(endpoint, sent), nil), nil)
	if err != nil {
		b.Fatal(err)
	}
	tool, err := once.Bind(guard, once.Tool[creditIn, credit]{
		Name: "issue_credit", Description: "Credit an account.", Class: once.External,
		Run:        func(context.Context, creditIn) (credit, error) { return credit{CreditID: "cr_9"}, nil },
		ExternalID: func(c credit) string { return c.CreditID },
	})
	if err != nil {
		b.Fatal(err)
	}
	return func(k ledger.Key) {
		out := tool.Do(b.Context(), once.Request{Tenant: k.Tenant, RunID: k.RunID, CallID: k.CallID, Turn: 3}, creditIn{AccountID: "A1", AmountCents: 2500})
		if out.Status != once.Completed {
			b.Fatal(out.Report)
		}
	}
}

// BenchmarkFreshCall is a call that starts and completes: by two SDK calls, by
// the ledger alone and through the guard.
func BenchmarkFreshCall(b *testing.B) {
	endpoint := startTable(b, dynoxide)
	raw, led, gua := newTally(), newTally(), newTally()
	client := newClient(endpoint, raw)
	store := newStore(b, newClient(endpoint, led), nil)
	tool := newTool(b, endpoint, gua)
	sideBySide(b, freshCPU,
		&contender{name: "raw", requests: 2, sent: raw, one: func() { rawCall(b, client) }},
		&contender{name: "ledger", requests: 2, sent: led, one: func() {
			apply(b, store, complete(b, apply(b, store, start(b, freshKey())), []byte(`{"credit_id":"cr_9"}`)))
		}},
		&contender{name: "guard", requests: 2, sent: gua, one: func() { tool(freshKey()) }},
	)
}

// BenchmarkReplay is the refused put of a call that has completed.
func BenchmarkReplay(b *testing.B) {
	endpoint := startTable(b, dynoxide)
	raw, led, gua := newTally(), newTally(), newTally()
	client := newClient(endpoint, raw)
	store := newStore(b, newClient(endpoint, led), nil)
	tool := newTool(b, endpoint, gua)
	first, key := rawCall(b, client), freshKey()
	tool(key)
	sideBySide(b, replayCPU,
		&contender{name: "raw", requests: 1, sent: raw, one: func() {
			if _, err := client.PutItem(b.Context(), rawPut(first, text(rand.Text()))); err == nil {
				b.Fatal("the put was not refused")
			}
		}},
		&contender{name: "ledger", requests: 1, sent: led, one: func() { refused(b, store, start(b, key)) }},
		&contender{name: "guard", requests: 1, sent: gua, one: func() { tool(key) }},
	)
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// rawPut is the reservation that somebody without a ledger would write.
func rawPut(key map[string]types.AttributeValue, token types.AttributeValue) *dynamodb.PutItemInput {
	it := map[string]types.AttributeValue{
		"status": text("started"), "token": token, "tool": text("issue_credit"), "fingerprint": text(string(ledger.DigestOf([]byte("asked")))),
		"arguments": text(`{"account_id":"A1","amount_cents":2500}`), "created_at": text(noon.Format(time.RFC3339Nano)), "deadline": text(noon.Format(time.RFC3339Nano)),
		names.AttrPartition: key[names.AttrPartition], names.AttrSort: key[names.AttrSort],
		names.AttrIndexPartition: text("t#3"), names.AttrIndexSort: token, // it wants to list what is open, too
	}
	return &dynamodb.PutItemInput{
		TableName: aws.String(tableName), Item: it, ConditionExpression: aws.String("attribute_not_exists(pk)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

func rawCall(b *testing.B, c *dynamodb.Client) (key map[string]types.AttributeValue) {
	b.Helper()
	key = itemKey(freshKey(), "CALL#toolu_01")
	token := text(rand.Text())
	put := rawPut(key, token)
	if _, err := c.PutItem(b.Context(), put); err != nil {
		b.Fatal(err)
	}
	_, err := c.UpdateItem(b.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(tableName), Key: key,
		UpdateExpression:         aws.String("SET #s = :s, #r = :r, completed_at = :at, external_id = :id, #t = :ttl REMOVE upk, usk"),
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
	return key
}
