package dynamoledger_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// wire is a transport that can lose answers after the engine has given them, and
// requests before it gets them. The client sees a broken connection both times.
type wire struct {
	mu    sync.Mutex
	lose  func(n int) fate
	seen  []string // the operations, in the order in which they were sent
	inner http.RoundTripper
}

type fate int

const (
	passes fate = iota
	answerLost
	requestLost
)

func newWire(lose func(n int) fate) *wire {
	return &wire{lose: lose, inner: http.DefaultTransport}
}

// RoundTrip implements [http.RoundTripper].
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	w.seen = append(w.seen, op)
	what := passes
	if w.lose != nil {
		what = w.lose(len(w.seen))
	}
	w.mu.Unlock()
	broken := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	if what == requestLost {
		return nil, broken
	}
	response, err := w.inner.RoundTrip(r)
	if err != nil || what == passes {
		return response, err
	}
	_, _ = io.Copy(io.Discard, response.Body) // the engine has done it
	_ = response.Body.Close()
	return nil, broken
}

func (w *wire) sent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.seen...)
}

// atRandom loses a third of what is sent, one way or the other.
func atRandom(seed uint64) func(int) fate {
	rng := rand.New(rand.NewPCG(seed, seed))
	return func(int) fate {
		switch rng.IntN(6) {
		case 0:
			return answerLost
		case 1:
			return requestLost
		}
		return passes
	}
}

// counter is a client that counts requests and capacity.
type counter struct {
	*dynamodb.Client
	mu    sync.Mutex
	ops   []string
	units []float64 // of each answered request; the engine's word
}

func (c *counter) note(op string, capacity *types.ConsumedCapacity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops = append(c.ops, op)
	if capacity != nil && capacity.CapacityUnits != nil {
		c.units = append(c.units, *capacity.CapacityUnits)
	}
}

// since returns what was counted during do.
func (c *counter) since(t *testing.T, do func()) (ops string, units []float64) {
	t.Helper()
	c.mu.Lock()
	c.ops, c.units = nil, nil
	c.mu.Unlock()
	do()
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.ops, " "), c.units
}

func (c *counter) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	asked := *in
	asked.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := c.Client.GetItem(ctx, &asked, o...)
	var capacity *types.ConsumedCapacity
	if out != nil {
		capacity = out.ConsumedCapacity
	}
	c.note("get", capacity)
	return out, err
}

func (c *counter) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	asked := *in
	asked.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := c.Client.PutItem(ctx, &asked, o...)
	var capacity *types.ConsumedCapacity
	if out != nil {
		capacity = out.ConsumedCapacity
	}
	c.note("put", capacity)
	return out, err
}

func (c *counter) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	asked := *in
	asked.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := c.Client.UpdateItem(ctx, &asked, o...)
	var capacity *types.ConsumedCapacity
	if out != nil {
		capacity = out.ConsumedCapacity
	}
	c.note("update", capacity)
	return out, err
}

func (c *counter) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := c.Client.Query(ctx, in, o...)
	c.note("query", nil)
	return out, err
}
