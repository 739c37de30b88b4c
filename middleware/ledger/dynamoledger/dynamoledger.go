// Package dynamoledger keeps the ledger in one DynamoDB table. It alone knows
// how a record is an item and how a proof is a condition; which moves there are
// stands in the ledger's table. Every move is one conditional write, every read
// that decides is consistent, and no transaction is used. The client's retries
// stay on: a write that meets itself is recognised by its id. Start with [New].
package dynamoledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/middleware/ledger"
)

// Client is what the store needs of a [dynamodb.Client], and all the rights that
// its role needs on the table and its index.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

// Options changes what the defaults are. The zero Options are the defaults.
type Options struct {
	// InlineLimit is how many bytes of a result lie in the record. Defaults to
	// [ledger.InlineResult], which keeps a replay at one write unit; at most
	// 64 KiB.
	InlineLimit int

	// ResultWait is how long the write of a result beside its record may take,
	// and never more than half of what the context has left. After it the call is
	// completed and its result is not kept. Defaults to 5 seconds.
	ResultWait time.Duration

	// Retention is how long a settled record stays, at least. A guard on the store
	// must not let calls come later: once.New refuses an Options.Retention whose
	// total is longer. Defaults to the total of [ledger.DefaultRetention].
	Retention time.Duration

	// Shards is over how many partitions of the index a tenant's unsettled calls
	// are spread. Defaults to 8, at most 64. Raising it is safe; never lower it
	// while calls are unsettled, or the list misses some.
	Shards int
}

const (
	maxInline = 64 << 10
	maxShards = 64
)

func (o *Options) withDefaults() (Options, error) {
	var full Options
	if o != nil {
		full = *o
	}
	if full.InlineLimit < 0 || full.InlineLimit > maxInline || full.Shards < 0 || full.Shards > maxShards || full.Retention < 0 || full.ResultWait < 0 {
		return full, fmt.Errorf("dynamoledger: %w: options outside their bounds", ledger.ErrInvalid)
	}
	if full.InlineLimit == 0 {
		full.InlineLimit = ledger.InlineResult
	}
	if full.ResultWait == 0 {
		full.ResultWait = 5 * time.Second
	}
	if full.Retention == 0 {
		full.Retention = ledger.DefaultRetention().Total()
	}
	if full.Shards == 0 {
		full.Shards = 8
	}
	return full, nil
}

// Store is a [ledger.Store] and a [ledger.Waits] in a DynamoDB table. It is safe
// for concurrent use.
type Store struct {
	client  Client
	table   *string
	options Options
}

var (
	_ ledger.Store = (*Store)(nil)
	_ ledger.Waits = (*Store)(nil)
)

// New returns a store over table, which must exist. It makes no request. The
// error is [ledger.ErrInvalid] for options outside their bounds.
func New(client Client, table string, o *Options) (*Store, error) {
	if client == nil || table == "" {
		return nil, fmt.Errorf("dynamoledger: %w: no client or no table", ledger.ErrInvalid)
	}
	options, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Store{client: client, table: aws.String(table), options: options}, nil
}

// Retention returns how long a settled record stays, at least.
func (s *Store) Retention() time.Duration { return s.options.Retention }

// Load implements [ledger.Store] with one consistent read.
func (s *Store) Load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	found, err := s.get(ctx, callKey(key))
	if err != nil {
		return ledger.Record{}, fmt.Errorf("dynamoledger: load %s: %w", key, err)
	}
	return decodeRecord(key, found)
}

// get reads one item consistently; nil if there is none.
func (s *Store) get(ctx context.Context, key item) (item, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: s.table, Key: key, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}

// refusal returns the item that made a condition fail. Some engines don't send
// it along; a consistent read finds it then, or nothing if it has gone.
func (s *Store) refusal(ctx context.Context, err error, key item) (found item, refused bool, _ error) {
	failed, refused := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !refused {
		return nil, false, err
	}
	if len(failed.Item) > 0 {
		return failed.Item, true, nil
	}
	found, err = s.get(ctx, key)
	return found, true, err
}
