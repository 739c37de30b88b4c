package dynamoledger_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
)

// consistent is a transport that complains of a read that may answer what stood
// before the last write. An index can't be read consistently, and decides nothing.
type consistent struct {
	inner    http.RoundTripper
	complain func(format string, args ...any)

	mu   sync.Mutex
	seen map[string]int // consistent reads, by operation
}

func checked(tb testing.TB) *consistent {
	tb.Helper()
	return &consistent{inner: http.DefaultTransport, complain: tb.Errorf, seen: map[string]int{}}
}

// RoundTrip implements [http.RoundTripper].
func (c *consistent) RoundTrip(r *http.Request) (*http.Response, error) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if op != "GetItem" && op != "Query" && op != "Scan" && op != "BatchGetItem" && op != "TransactGetItems" {
		return c.inner.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var asked struct {
		IndexName      string
		ConsistentRead bool
	}
	switch err := json.Unmarshal(body, &asked); {
	case err != nil:
		return nil, err
	case op != "GetItem" && asked.IndexName != "":
	case !asked.ConsistentRead:
		c.complain("a %s may answer what stood before: %s", op, body)
	default:
		c.mu.Lock()
		c.seen[op]++
		c.mu.Unlock()
	}
	return c.inner.RoundTrip(r)
}

func TestEveryReadThatDecidesIsConsistent(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := checked(t)
			s := newStore(t, newClient(startTable(t, kind), c), &dynamoledger.Options{InlineLimit: 10})
			key := freshKey()
			done := apply(t, s, complete(t, apply(t, s, start(t, key)), bytes.Repeat([]byte("7"), 5000)))
			refused(t, s, start(t, key))
			for name, read := range map[string]func() error{
				"GetItem, load":   func() error { _, err := s.Load(t.Context(), key); return err },
				"GetItem, result": func() error { _, err := s.Result(t.Context(), done); return err },
				"Query, history":  func() error { _, err := s.History(t.Context(), key); return err },
				"Query, waits":    func() error { _, err := s.Waits(t.Context(), key); return err },
			} {
				op, _, _ := strings.Cut(name, ",")
				before := c.seen[op]
				if err := read(); err != nil || c.seen[op] == before {
					t.Errorf("%s: %d consistent reads, %v", name, c.seen[op]-before, err)
				}
			}
		})
	}
}

func TestCheckOfConsistencyComplainsOfReadsThatAreNot(t *testing.T) {
	t.Parallel()
	endpoint := startTable(t, dynoxide)
	for complains, read := range map[bool]*bool{true: nil, false: aws.Bool(true)} {
		said := 0
		c := checked(t)
		c.complain = func(string, ...any) { said++ }
		_, err := newClient(endpoint, c).GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(tableName), ConsistentRead: read, Key: itemKey(freshKey(), "RUN")})
		if err != nil || (said == 1) != complains {
			t.Errorf("complains %t: %d, %v", complains, said, err)
		}
	}
}
