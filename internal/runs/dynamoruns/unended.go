package dynamoruns

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
	"github.com/onceward/onceward/internal/runs"
)

// place is where an item lies in the index.
type place struct {
	Partition string `json:"p"` // of the table
	Shard     string `json:"u"`
	Sort      string `json:"s"`
}

// Unended implements [runs.Store]. Of one tenant it asks each shard of the index
// once, at the same time, and the oldest of all come first; of all tenants it
// scans the index, passing over what are no runs.
func (s *Store) Unended(ctx context.Context, q runs.Query) (runs.Page, error) {
	from, err := parseCursor(q.Cursor)
	if err != nil {
		return runs.Page{}, err
	}
	limit := min(cmp.Or(max(q.Limit, 0), runs.DefaultPage), runs.MaxPage)
	list := s.ofTenant
	if q.AllTenants {
		list = s.ofAll
	}
	found, more, err := list(ctx, q.Tenant, from, limit)
	if err != nil {
		return runs.Page{}, fmt.Errorf("dynamoruns: list runs: %w", err)
	}
	page, err := decodePage(found)
	if more {
		page.Next = cursor.Encode(placeOf(found[len(found)-1]))
	}
	return page, err
}

// ofTenant merges the shards. In one tenant the index's sort key is a run's own.
func (s *Store) ofTenant(ctx context.Context, of string, from place, limit int) (found []item, more bool, err error) {
	of = tenant(runs.ID{Tenant: of})
	parts := make([][]item, shards)
	errs := make([]error, shards)
	var group sync.WaitGroup
	for n := range shards {
		group.Go(func() {
			parts[n], errs[n] = s.ofShard(ctx, fmt.Sprintf("%s%s%d", of, runShard, n), from.Sort, limit+1)
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, false, err
	}
	found = slices.Concat(parts...)
	slices.SortFunc(found, func(a, b item) int { return strings.Compare(placeOf(a).Sort, placeOf(b).Sort) })
	if len(found) > limit {
		return found[:limit], true, nil
	}
	return found, false, nil
}

func (s *Store) ofShard(ctx context.Context, shard, after string, limit int) ([]item, error) {
	in := &dynamodb.QueryInput{
		TableName: aws.String(s.table), IndexName: aws.String(names.Index), Limit: aws.Int32(int32(limit)), //nolint:gosec // at most 501
		KeyConditionExpression:    aws.String("#upk = :shard AND #usk > :after"),
		ExpressionAttributeNames:  map[string]string{"#upk": names.AttrIndexPartition, "#usk": names.AttrIndexSort},
		ExpressionAttributeValues: item{":shard": text(shard), ":after": text(cmp.Or(after, "0"))},
	}
	var found []item
	for pages := dynamodb.NewQueryPaginator(s.api, in); pages.HasMorePages() && len(found) < limit; {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		found = append(found, page.Items...)
	}
	return found, nil
}

func (s *Store) ofAll(ctx context.Context, _ string, from place, limit int) (found []item, more bool, err error) {
	in := &dynamodb.ScanInput{
		TableName: aws.String(s.table), IndexName: aws.String(names.Index), FilterExpression: aws.String("#sk = :run"),
		ExpressionAttributeNames: map[string]string{"#sk": names.AttrSort}, ExpressionAttributeValues: item{":run": text(sortRun)},
	}
	if from != (place{}) {
		in.ExclusiveStartKey = item{
			names.AttrPartition: text(from.Partition), names.AttrSort: text(sortRun),
			names.AttrIndexPartition: text(from.Shard), names.AttrIndexSort: text(from.Sort),
		}
	}
	for pages := dynamodb.NewScanPaginator(s.api, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, false, err
		}
		found = append(found, page.Items...)
		if len(found) > limit {
			return found[:limit], true, nil
		}
	}
	return found, false, nil
}

func decodePage(found []item) (runs.Page, error) {
	var page runs.Page
	var errs []error
	for _, it := range found {
		id := idOf(it)
		r, _, err := decodeRun(id, it)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		page.Runs = append(page.Runs, r)
	}
	return page, errors.Join(errs...)
}

// idOf reads back what partition made.
func idOf(it item) runs.ID {
	d := decoder{item: it}
	of, run, _ := strings.Cut(d.text(names.AttrPartition), "#")
	if of == noTenant {
		of = ""
	}
	return runs.ID{Tenant: of, Run: run}
}

func placeOf(it item) place {
	d := decoder{item: it}
	return place{Partition: d.text(names.AttrPartition), Shard: d.text(names.AttrIndexPartition), Sort: d.text(names.AttrIndexSort)}
}

func parseCursor(given string) (place, error) {
	if given == "" {
		return place{}, nil
	}
	p, err := cursor.Decode[place](given)
	if err != nil || p.Partition == "" || p.Shard == "" || p.Sort == "" {
		return place{}, fmt.Errorf("%w: cursor", runs.ErrInvalid)
	}
	return p, nil
}
