package dynamoledger

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
)

const (
	writeUnit = 1024 // bytes of an item that one write unit pays for
	settling  = 366  // bytes that a settlement adds: a result in the record, by whom, when
)

// fit cuts what a new record says to people until its item takes one write unit,
// so that the refused write of a replay does too. Of a call that has not ended
// it leaves room for its settlement, which takes the place of its index keys.
func (s *Store) fit(r ledger.Record) (ledger.Record, item) {
	it := s.encode(r)
	over := itemSize(it) - writeUnit
	if _, listed := it[names.AttrIndexSort]; listed {
		over = max(over, over-listing(it)+settling)
	}
	if over <= 0 {
		return r, it
	}
	return shortened(r, it, over)
}

// shortened cuts the words of a record that is over its unit. It is a function of
// its own so that a record that fits need not live on the heap.
func shortened(r ledger.Record, it item, over int) (ledger.Record, item) {
	for _, words := range []struct {
		attribute string
		field     *string
	}{{attrSummary, &r.Summary}, {attrPermission, &r.Permission}} {
		if over <= 0 || *words.field == "" {
			continue
		}
		kept := cut(*words.field, len(*words.field)-over)
		over -= attributeSize(words.attribute, it[words.attribute])
		*words.field = kept
		delete(it, words.attribute)
		if *words.field != "" {
			it[words.attribute] = str(*words.field)
			over += attributeSize(words.attribute, it[words.attribute])
		}
	}
	return r, it
}

// cut shortens text to at most limit bytes; below a few words it is dropped.
func cut(words string, limit int) string {
	const fewest = 8
	if limit < fewest {
		return ""
	}
	return ledger.Shorten(words, limit)
}

func listing(it item) int {
	return attributeSize(names.AttrIndexPartition, it[names.AttrIndexPartition]) + attributeSize(names.AttrIndexSort, it[names.AttrIndexSort])
}

// itemSize is what DynamoDB counts an item as, by its published rules; numbers
// are counted at their most.
func itemSize(it item) int {
	size := 0
	for name, v := range it {
		size += attributeSize(name, v)
	}
	return size
}

func attributeSize(name string, v types.AttributeValue) int { return len(name) + valueSize(v) }

func valueSize(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return len(v.Value)/2 + 2
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberBOOL:
		return 1
	case *types.AttributeValueMemberSS:
		size := 0
		for _, s := range v.Value {
			size += len(s)
		}
		return size
	case *types.AttributeValueMemberL:
		size := 3
		for _, inner := range v.Value {
			size += 1 + valueSize(inner)
		}
		return size
	case *types.AttributeValueMemberM:
		size := 3
		for name, inner := range v.Value {
			size += 1 + attributeSize(name, inner)
		}
		return size
	}
	return 0
}
