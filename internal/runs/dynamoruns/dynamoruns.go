// Package dynamoruns keeps runs and their turns in the ledger's DynamoDB table:
// one item RUN and one item TURN#000001 and so on beside the run's calls. Every
// read is strongly consistent, every write is one conditional request that may
// be repeated by anybody. Start with [New]. The client should keep its own
// retries: a repeated write recognises itself.
package dynamoruns

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// API is what the store needs of a DynamoDB client.
type API interface {
	GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(ctx context.Context, in *dynamodb.ScanInput, opts ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// ErrOptions reports a store that can't be made. Nothing was asked of DynamoDB.
var ErrOptions = errors.New("dynamoruns: wrong options")

// Store is a [runs.Store] in a DynamoDB table. It is safe for concurrent use.
type Store struct {
	api       API
	table     string
	retention time.Duration
}

var _ runs.Store = (*Store)(nil)

// New returns a store in that table. retention counts from the end of a run; the
// zero Retention is [ledger.DefaultRetention].
func New(api API, table string, retention ledger.Retention) (*Store, error) {
	var missing []string
	if api == nil {
		missing = append(missing, "client")
	}
	if table == "" {
		missing = append(missing, "table")
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: missing: %s", ErrOptions, strings.Join(missing, ", "))
	}
	if retention == (ledger.Retention{}) {
		retention = ledger.DefaultRetention()
	}
	return &Store{api: api, table: table, retention: retention.Total()}, nil
}

// Load implements [runs.Store] with one consistent GetItem.
func (s *Store) Load(ctx context.Context, id runs.ID) (runs.Run, error) {
	found, err := s.get(ctx, id, sortRun)
	if err != nil || found == nil {
		return runs.Run{}, err
	}
	return s.run(ctx, id, found)
}

// run decodes a run, with its input wherever that lies.
func (s *Store) run(ctx context.Context, id runs.ID, found item) (runs.Run, error) {
	r, beside, err := decodeRun(id, found)
	if err != nil || beside == "" {
		return r, err
	}
	it, err := s.get(ctx, id, beside)
	if err != nil {
		return runs.Run{}, err
	}
	r.Input, err = decodeInput(id, it)
	return r, err
}

// Save implements [runs.Store] with one conditional PutItem of the whole item,
// and one consistent GetItem if it is refused without the item that stands. A
// long input is put beside the run once, before its first version.
func (s *Store) Save(ctx context.Context, r runs.Run) (runs.Run, error) {
	if r.Version == 1 && inputBeside(r) != "" {
		// Stored now: the input, under its digest. If we stop here nobody names
		// it; whoever begins the run with the same input puts the same again.
		if _, err := s.api.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(s.table), Item: encodeInput(r)}); err != nil {
			return runs.Run{}, fmt.Errorf("dynamoruns: save input: %w", err)
		}
	}
	in := &dynamodb.PutItemInput{
		TableName: aws.String(s.table), Item: s.encodeRun(r),
		ConditionExpression:                 aws.String("attribute_not_exists(" + names.AttrPartition + ")"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if r.Version > 1 {
		in.ConditionExpression = aws.String("#version = :read")
		in.ExpressionAttributeNames = map[string]string{"#version": attrVersion}
		in.ExpressionAttributeValues = item{":read": number(r.Version - 1)}
	}
	// Stored now: who drives the run, where it stands and what its driver was
	// told. If we stop here, a repeated plan reads it and tells the same again.
	_, err := s.api.PutItem(ctx, in)
	if err == nil {
		return r, nil
	}
	found, err := s.standing(ctx, err, r.Key(), sortRun)
	if err != nil {
		return runs.Run{}, fmt.Errorf("dynamoruns: save run: %w", err)
	}
	stands, err := s.run(ctx, r.Key(), found)
	switch {
	case err != nil:
		return runs.Run{}, err
	case stands.LastWrite == r.LastWrite: // stored at first, and its answer was lost
		return stands, nil
	}
	return stands, fmt.Errorf("%w: version %d, it is at %d", runs.ErrStale, r.Version, stands.Version)
}

// Turns implements [runs.Store] with consistent Queries, one for each megabyte.
func (s *Store) Turns(ctx context.Context, id runs.ID, from, to int) ([]runs.Turn, error) {
	last := lastTurn
	if to > 0 {
		last = min(to, lastTurn)
	}
	if from > last {
		return nil, nil // BETWEEN refuses bounds in the wrong order
	}
	in := &dynamodb.QueryInput{
		TableName: aws.String(s.table), ConsistentRead: aws.Bool(true),
		KeyConditionExpression:   aws.String("#pk = :pk AND #sk BETWEEN :from AND :last"),
		ExpressionAttributeNames: map[string]string{"#pk": names.AttrPartition, "#sk": names.AttrSort},
		ExpressionAttributeValues: item{
			":pk": text(partition(id)), ":from": text(sortTurn(max(from, 0))), ":last": text(sortTurn(last)),
		},
	}
	var turns []runs.Turn
	for pages := dynamodb.NewQueryPaginator(s.api, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("dynamoruns: read turns: %w", err)
		}
		for _, found := range page.Items {
			turn, err := decodeTurn(id, found)
			if err != nil {
				return nil, err
			}
			turns = append(turns, turn)
		}
	}
	return turns, nil
}

// PutTurn implements [runs.Store] with one conditional PutItem, and one
// consistent GetItem if it is refused without the item that stands.
func (s *Store) PutTurn(ctx context.Context, id runs.ID, t runs.Turn) (runs.Turn, error) {
	t.Heard = nil
	encoded, err := encodeTurn(id, t)
	if err != nil {
		return runs.Turn{}, err
	}
	// Stored now: what the model asked for, under the ids that its calls keep. If
	// we stop here nothing has run, and the next plan adopts the turn.
	_, err = s.api.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String(s.table), Item: encoded,
		ConditionExpression:                 aws.String("attribute_not_exists(" + names.AttrPartition + ")"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if err == nil {
		return t, nil
	}
	found, err := s.standing(ctx, err, id, sortTurn(t.Number))
	if err != nil {
		return runs.Turn{}, fmt.Errorf("dynamoruns: put turn %d: %w", t.Number, err)
	}
	return decodeTurn(id, found)
}

// Hear implements [runs.Store] with one conditional UpdateItem, and one
// consistent GetItem if it is refused without the item that stands.
func (s *Store) Hear(ctx context.Context, id runs.ID, n int, heard []runs.Heard) ([]runs.Heard, error) {
	encoded, err := document(heard)
	if err != nil {
		return nil, err
	}
	// Stored now: what the model hears of this turn, whose calls are closed. If
	// we stop here, whoever plans next tells exactly this.
	_, err = s.api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(s.table), Key: key(id, sortTurn(n)),
		UpdateExpression:                    aws.String("SET #heard = :heard"),
		ConditionExpression:                 aws.String("attribute_exists(#pk) AND attribute_not_exists(#heard)"),
		ExpressionAttributeNames:            map[string]string{"#pk": names.AttrPartition, "#heard": attrHeard},
		ExpressionAttributeValues:           item{":heard": encoded},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if err == nil {
		return heard, nil
	}
	found, err := s.standing(ctx, err, id, sortTurn(n))
	if err != nil {
		return nil, fmt.Errorf("dynamoruns: fix what was heard of turn %d: %w", n, err)
	}
	turn, err := decodeTurn(id, found)
	return turn.Heard, err
}

// expireAtOnce is how many items of an ended run are updated at the same time.
const expireAtOnce = 16

// Expire implements [runs.Store] with one UpdateItem for each turn, and one for
// an input beside the run, some at a time. It ends with ctx.
func (s *Store) Expire(ctx context.Context, r runs.Run) error {
	var sorts []string
	if beside := inputBeside(r); beside != "" {
		sorts = append(sorts, beside)
	}
	for n := 1; n <= r.Turn; n++ {
		sorts = append(sorts, sortTurn(n))
	}
	errs := make([]error, min(expireAtOnce, len(sorts)))
	var next atomic.Int64
	var group sync.WaitGroup
	for worker := range errs {
		group.Go(func() {
			for n := next.Add(1); n <= int64(len(sorts)) && errs[worker] == nil; n = next.Add(1) {
				errs[worker] = s.expire(ctx, r, sorts[n-1])
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (s *Store) expire(ctx context.Context, r runs.Run, sort string) error {
	// Stored now: when the broom may take the item. A run that has ended needs
	// none of them, so whoever repeats this finds the same to do.
	_, err := s.api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(s.table), Key: key(r.Key(), sort),
		UpdateExpression:          aws.String("SET #ttl = :at"),
		ConditionExpression:       aws.String("attribute_exists(#pk)"),
		ExpressionAttributeNames:  map[string]string{"#pk": names.AttrPartition, "#ttl": names.AttrTTL},
		ExpressionAttributeValues: item{":at": number(s.expiry(r))},
	})
	if _, gone := errors.AsType[*types.ConditionalCheckFailedException](err); err != nil && !gone {
		return fmt.Errorf("dynamoruns: expire %s: %w", sort, err)
	}
	return nil
}

// expiry returns when the broom may take the items of an ended run, in epoch
// seconds.
func (s *Store) expiry(r runs.Run) int64 {
	return r.EndedAt.Add(s.retention + ledger.BroomDelay).Unix()
}

func (s *Store) get(ctx context.Context, id runs.ID, sort string) (item, error) {
	out, err := s.api.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(s.table), Key: key(id, sort), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, fmt.Errorf("dynamoruns: read %s: %w", sort, err)
	}
	return out.Item, nil
}

// standing returns the item that refused a write; any other error is returned
// as it is. Some engines don't return the item with the refusal.
func (s *Store) standing(ctx context.Context, refusal error, id runs.ID, sort string) (item, error) {
	refused, ok := errors.AsType[*types.ConditionalCheckFailedException](refusal)
	if !ok {
		return nil, refusal
	}
	if len(refused.Item) > 0 {
		return refused.Item, nil
	}
	found, err := s.get(ctx, id, sort)
	if err == nil && len(found) == 0 {
		return nil, fmt.Errorf("%w: %s is not there", runs.ErrCorrupt, sort)
	}
	return found, err
}
