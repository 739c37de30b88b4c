package dynamoledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/onceward/onceward/internal/cursor"
	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
)

const (
	defaultLimit = 50
	maxLimit     = 500
)

// position is a place in the list. Its order is that of the index, and among
// items of one moment and one call that of the table.
type position struct {
	Index string `json:"i"`
	Sort  string `json:"s"`
}

func (p position) compare(q position) int {
	return cmp.Or(strings.Compare(p.Index, q.Index), strings.Compare(p.Sort, q.Sort))
}

// listed is one item of the index with its place and its tenant.
type listed struct {
	position
	tenant string
	it     item
}

// Unsettled implements [ledger.Store] with one query of each shard of the index,
// at the same time. An item that can't be read doesn't hide the others: the page
// comes with an error that is [ledger.ErrCorrupt] and joins a [CorruptItemError]
// for each. Limits above 500 are taken as 500.
func (s *Store) Unsettled(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	from, err := parseCursor(q.Cursor)
	if err != nil {
		return ledger.Page{}, err
	}
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	limit = min(limit, maxLimit)
	found, err := s.queryShards(ctx, q.Tenant, from, limit+1)
	if err != nil {
		return ledger.Page{}, fmt.Errorf("dynamoledger: unsettled of %q: %w", q.Tenant, err)
	}
	slices.SortFunc(found, func(a, b listed) int { return a.compare(b.position) })
	var next string
	if len(found) > limit {
		found = found[:limit]
		next = cursor.Encode(found[limit-1].position)
	}
	page, err := decodePage(found)
	page.Next = next
	return page, err
}

func (s *Store) queryShards(ctx context.Context, tenant string, from position, limit int) ([]listed, error) {
	shards := make([][]listed, s.options.Shards)
	errs := make([]error, s.options.Shards)
	var group sync.WaitGroup
	for n := range s.options.Shards {
		group.Go(func() { shards[n], errs[n] = s.queryShard(ctx, tenant, n, from, limit) })
	}
	group.Wait()
	return slices.Concat(shards...), errors.Join(errs...)
}

// queryShard returns the first items of a shard after from. The query begins at
// from's moment, and what the pages before have held of it is left out.
func (s *Store) queryShard(ctx context.Context, tenant string, n int, from position, limit int) ([]listed, error) {
	in := &dynamodb.QueryInput{
		TableName: s.table, IndexName: aws.String(names.Index), Limit: aws.Int32(int32(limit + 2)), //nolint:gosec // at most 503
		KeyConditionExpression:    aws.String(names.AttrIndexPartition + " = :shard AND " + names.AttrIndexSort + " >= :from"),
		ExpressionAttributeValues: item{":shard": str(shard(tenant, n)), ":from": str(cmp.Or(from.Index, "0"))},
	}
	var found []listed
	for {
		out, err := s.client.Query(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, it := range out.Items {
			d := decoder{it: it}
			l := listed{position{d.str(names.AttrIndexSort), d.str(names.AttrSort)}, tenant, it}
			if ours(l.Sort) && l.compare(from) > 0 {
				found = append(found, l)
			}
		}
		if len(found) >= limit || len(out.LastEvaluatedKey) == 0 {
			return found, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// ours are the records and the waits. Whoever else keeps items in the index has
// partitions of their own; what lies here all the same is passed over.
func ours(sort string) bool {
	return strings.HasPrefix(sort, callItems) || strings.HasPrefix(sort, waitItems)
}

func decodePage(found []listed) (ledger.Page, error) {
	var page ledger.Page
	var errs []error
	for _, l := range found {
		call, isCall := strings.CutPrefix(l.Sort, callItems)
		if !isCall {
			w, err := decodeWait(l.tenant, l.it)
			if err != nil {
				errs = append(errs, corruptItem(l.tenant, l.it, err))
				continue
			}
			page.Waits = append(page.Waits, w)
			continue
		}
		d := decoder{it: l.it}
		_, run, _ := strings.Cut(d.str(names.AttrPartition), "#")
		r, err := decodeRecord(ledger.Key{Tenant: l.tenant, RunID: run, CallID: call}, l.it)
		if err != nil {
			errs = append(errs, corruptItem(l.tenant, l.it, err))
			continue
		}
		page.Records = append(page.Records, r)
	}
	return page, errors.Join(errs...)
}

func parseCursor(given string) (position, error) {
	if given == "" {
		return position{}, nil
	}
	p, err := cursor.Decode[position](given)
	if err != nil || p.Index == "" || p.Sort == "" {
		return position{}, fmt.Errorf("dynamoledger: %w: cursor", ledger.ErrInvalid)
	}
	return p, nil
}
