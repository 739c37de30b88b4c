package dynamoledger

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
)

type item = map[string]types.AttributeValue

// The kinds of items, as their sort keys begin.
const (
	callItems     = "CALL#"
	resultItems   = "RESULT#"
	waitItems     = "WAIT#"
	decisionItems = "DECISION#"
	evidenceItems = "EVIDENCE#"
)

// noTenant stands for the empty tenant; no tenant can be named so.
const noTenant = "."

func tenant(name string) string {
	if name == "" {
		return noTenant
	}
	return name
}

func partition(k ledger.Key) string { return tenant(k.Tenant) + "#" + k.RunID }

func callKey(k ledger.Key) item { return itemKey(k, callItems+k.CallID) }

// besideKey is the key of an item that belongs to a call: a result, a wait, or
// an entry that its record no longer holds.
func besideKey(kind string, k ledger.Key, id string) item {
	return itemKey(k, kind+k.CallID+"#"+id)
}

func itemKey(k ledger.Key, sort string) item {
	return item{names.AttrPartition: str(partition(k)), names.AttrSort: str(sort)}
}

// indexKeys are what puts an item into the list of what is unsettled.
func (s *Store) indexKeys(k ledger.Key, since time.Time) (part, sort types.AttributeValue) {
	call := k.RunID + ":" + k.CallID
	h := fnv.New32a()
	_, _ = h.Write([]byte(call))                                                                             // a hash never fails
	return str(shard(k.Tenant, int(h.Sum32()%uint32(s.options.Shards)))), str(sinceText(since) + "#" + call) //nolint:gosec // Shards is at most 64
}

func shard(of string, n int) string { return tenant(of) + "#" + strconv.Itoa(n) }

// sinceDigits orders times from 1970 to 2286 as text.
const sinceDigits = 13

func sinceText(t time.Time) string {
	digits := strconv.FormatInt(max(0, t.UnixMilli()), 10)
	return strings.Repeat("0", max(0, sinceDigits-len(digits))) + digits
}
