package dynamoruns_test

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
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// consistent is a transport that complains of a read that may answer what stood
// before the last write. An index, and a list that decides nothing, may.
type consistent struct {
	complain func(format string, args ...any)

	mu   sync.Mutex
	seen map[string]int // consistent reads, by operation
}

// RoundTrip implements [http.RoundTripper].
func (c *consistent) RoundTrip(r *http.Request) (*http.Response, error) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if op != "GetItem" && op != "Query" && op != "BatchGetItem" && op != "TransactGetItems" {
		return http.DefaultTransport.RoundTrip(r)
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
	case op == "Query" && asked.IndexName != "":
	case !asked.ConsistentRead:
		c.complain("a %s may answer what stood before: %s", op, body)
	default:
		c.mu.Lock()
		c.seen[op]++
		c.mu.Unlock()
	}
	return http.DefaultTransport.RoundTrip(r)
}

func TestCheckOfConsistencyComplainsOfReadsThatAreNot(t *testing.T) {
	t.Parallel()
	url := engine(t, "dynoxide")
	for complains, read := range map[bool]*bool{true: nil, false: aws.Bool(true)} {
		said := 0
		c := &consistent{complain: func(string, ...any) { said++ }, seen: map[string]int{}}
		_, err := client(url, c).GetItem(t.Context(), &dynamodb.GetItemInput{
			TableName: aws.String(tableName), ConsistentRead: read,
			Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "acme#none"}, "sk": &types.AttributeValueMemberS{Value: "RUN"}},
		})
		if err != nil || (said == 1) != complains {
			t.Errorf("complains %t: %d, %v", complains, said, err)
		}
	}
}
