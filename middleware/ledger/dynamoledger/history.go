package dynamoledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
)

// How many older entries stay when a full list takes one more. Decisions come
// one at a time and are recognised by what is in the record, so only one makes
// room; evidence may come from many at once, so it makes room for several.
const (
	keptDecisions = ledger.MaxEntries - 1
	keptEvidence  = ledger.MaxEntries / 2
)

// The attributes of an entry that lies beside its record.
const (
	attrOrder = "order"
	attrEntry = "entry"
)

func staying(list []ledger.Entry, kept int) []ledger.Entry {
	return slices.Clone(list[max(0, len(list)-kept):])
}

// spill stores the older entries of a full list beside the record, before the
// move that makes them leave it. They live as long as the record would after the
// move; those of a call that is not settled then, until somebody removes them.
func (s *Store) spill(ctx context.Context, m ledger.Move, r, next ledger.Record) (bool, error) {
	kind, list, kept := decisionItems, r.Decisions, keptDecisions
	switch c := m.Change(); {
	case c.Decision != nil:
	case c.Evidence != nil:
		kind, list, kept = evidenceItems, r.Evidence, keptEvidence
	default:
		return false, nil
	}
	if len(list) < ledger.MaxEntries {
		return false, nil
	}
	for i, e := range list[:len(list)-kept] {
		it := besideKey(kind, r.Key, e.ID)
		it[attrSchema] = version
		it[attrOrder] = number((r.Version+r.Rev)*ledger.MaxEntries + int64(i))
		it[attrEntry] = &types.AttributeValueMemberM{Value: encodeEntry(e)}
		if at, ok := next.Expiry(s.options.Retention); ok {
			it[names.AttrTTL] = seconds(at)
		}
		// Stored now: an entry that the record still holds too. If we stop here the
		// next move puts it again, the same.
		if _, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: s.table, Item: it}); err != nil {
			return false, fmt.Errorf("keep an older entry: %w", err)
		}
	}
	return true, nil
}

// History returns all decisions and evidence of a call, those that its record no
// longer holds too, oldest first. It is for people; the ledger decides by what
// is in the record.
func (s *Store) History(ctx context.Context, key ledger.Key) ([]ledger.Entry, error) {
	r, err := s.Load(ctx, key)
	if err != nil {
		return nil, err
	}
	var all []ledger.Entry
	seen := make(map[string]bool)
	add := func(entries []ledger.Entry) {
		for _, e := range entries {
			if !seen[e.ID] {
				seen[e.ID] = true
				all = append(all, e)
			}
		}
	}
	for _, list := range []struct {
		kind string
		held []ledger.Entry
	}{{decisionItems, r.Decisions}, {evidenceItems, r.Evidence}} {
		older, err := s.spilled(ctx, list.kind, key)
		if err != nil {
			return nil, err
		}
		add(older)
		add(list.held)
	}
	slices.SortStableFunc(all, func(a, b ledger.Entry) int { return a.At.Compare(b.At) })
	return all, nil
}

func (s *Store) spilled(ctx context.Context, kind string, key ledger.Key) ([]ledger.Entry, error) {
	items, err := s.beside(ctx, kind, key)
	if err != nil {
		return nil, fmt.Errorf("dynamoledger: history of %s: %w", key, err)
	}
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Compare((&decoder{it: a}).num(attrOrder), (&decoder{it: b}).num(attrOrder))
	})
	var all []ledger.Entry
	for _, it := range items {
		d := decoder{it: it}
		if d.number(attrSchema) != schemaVersion {
			d.fail("unknown schema version")
		}
		if m, ok := attribute[*types.AttributeValueMemberM](&d, attrEntry); ok {
			all = append(all, d.entry(m.Value))
		}
		if d.wrong != "" {
			return nil, fmt.Errorf("dynamoledger: history of %s: %w: %s", key, ledger.ErrCorrupt, d.wrong)
		}
	}
	return all, nil
}

// beside reads all items of a kind that belong to a call, consistently.
func (s *Store) beside(ctx context.Context, kind string, key ledger.Key) ([]item, error) {
	in := &dynamodb.QueryInput{
		TableName: s.table, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String(names.AttrPartition + " = :part AND begins_with(" + names.AttrSort + ", :kind)"),
		ExpressionAttributeValues: item{":part": str(partition(key)), ":kind": str(kind + key.CallID + "#")},
	}
	var all []item
	for {
		out, err := s.client.Query(ctx, in)
		if err != nil {
			return nil, err
		}
		all = append(all, out.Items...)
		if len(out.LastEvaluatedKey) == 0 {
			return all, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}
