package dynamoledger

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/onceward/onceward/internal/cursor"
	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
)

// ScanClient is a [Client] that may also scan the index, which only
// [Store.Scan] does: a tool's function needs no such right.
type ScanClient interface {
	Client
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

var _ ledger.Scanner = (*Store)(nil)

// Scan implements [ledger.Scanner] with one scan of the index for each page. The
// store's client must be a [ScanClient], otherwise the error is
// [ledger.ErrInvalid]. An item that can't be read doesn't hide the others: the
// page comes with an error that is [ledger.ErrCorrupt] and joins a
// [CorruptItemError] for each. Limits above 500 are taken as 500.
func (s *Store) Scan(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	client, ok := s.client.(ScanClient)
	if !ok {
		return ledger.Page{}, fmt.Errorf("dynamoledger: %w: this client can't scan", ledger.ErrInvalid)
	}
	segment, segments, err := q.Parts()
	if err != nil {
		return ledger.Page{}, fmt.Errorf("dynamoledger: %w", err)
	}
	from, err := parseScanCursor(q.Cursor)
	if err != nil {
		return ledger.Page{}, err
	}
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	in := &dynamodb.ScanInput{
		TableName: s.table, IndexName: aws.String(names.Index), ExclusiveStartKey: from,
		Limit: aws.Int32(int32(min(limit, maxLimit))),
		// Runs lie in the same index; they need not travel.
		FilterExpression:          aws.String("begins_with(" + names.AttrSort + ", :calls) OR begins_with(" + names.AttrSort + ", :waits)"),
		ExpressionAttributeValues: item{":calls": str(callItems), ":waits": str(waitItems)},
	}
	if segments > 1 {
		in.Segment, in.TotalSegments = aws.Int32(int32(segment)), aws.Int32(int32(segments)) //nolint:gosec // at most 64
	}
	out, err := client.Scan(ctx, in)
	if err != nil {
		return ledger.Page{}, fmt.Errorf("dynamoledger: scan: %w", err)
	}
	page, err := decodePage(listedIn(out.Items))
	page.Next = scanCursor(out.LastEvaluatedKey)
	return page, err
}

// listedIn returns the calls and waits among the items, each with the tenant
// that its key names.
func listedIn(items []item) []listed {
	var found []listed
	for _, it := range items {
		d := decoder{it: it}
		l := listed{position{d.str(names.AttrIndexSort), d.str(names.AttrSort)}, tenantOf(d.str(names.AttrPartition)), it}
		if ours(l.Sort) {
			found = append(found, l)
		}
	}
	return found
}

// tenantOf reads the tenant's name from a partition's.
func tenantOf(partition string) string {
	name, _, _ := strings.Cut(partition, "#")
	if name == noTenant {
		return ""
	}
	return name
}

// scanKey is the place of an item in the index, as a scan goes on from it.
type scanKey struct {
	Partition      string `json:"p"`
	Sort           string `json:"s"`
	IndexPartition string `json:"q"`
	IndexSort      string `json:"i"`
}

func scanCursor(last item) string {
	if len(last) == 0 {
		return ""
	}
	d := decoder{it: last}
	return cursor.Encode(scanKey{
		d.str(names.AttrPartition), d.str(names.AttrSort), d.str(names.AttrIndexPartition), d.str(names.AttrIndexSort),
	})
}

func parseScanCursor(given string) (item, error) {
	if given == "" {
		return nil, nil
	}
	k, err := cursor.Decode[scanKey](given)
	if err != nil || slices.Contains([]string{k.Partition, k.Sort, k.IndexPartition, k.IndexSort}, "") {
		return nil, fmt.Errorf("dynamoledger: %w: cursor", ledger.ErrInvalid)
	}
	return item{
		names.AttrPartition: str(k.Partition), names.AttrSort: str(k.Sort),
		names.AttrIndexPartition: str(k.IndexPartition), names.AttrIndexSort: str(k.IndexSort),
	}, nil
}
