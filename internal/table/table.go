// Package table makes the ledger's table, for tests and for stacks on one
// machine. A deployed stack declares the same table in its template; the store
// itself needs no right to do so. Start with [Create].
package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/onceward/onceward/internal/names"
)

// Client is what making a table needs of a [dynamodb.Client].
type Client interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
}

// Input returns what the table is made of: on-demand, a partition and a sort
// key, and the sparse index of what is unsettled, with all attributes.
func Input(name string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName: aws.String(name), BillingMode: types.BillingModePayPerRequest,
		KeySchema: keys(names.AttrPartition, names.AttrSort),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String(names.Index), KeySchema: keys(names.AttrIndexPartition, names.AttrIndexSort),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
		}},
	}
	for _, attribute := range []string{names.AttrPartition, names.AttrSort, names.AttrIndexPartition, names.AttrIndexSort} {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(attribute), AttributeType: types.ScalarAttributeTypeS,
		})
	}
	return in
}

func keys(partition, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(partition), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sort), KeyType: types.KeyTypeRange},
	}
}

// Create makes the table, waits at most a minute until it is there and switches
// its time to live on. A table that exists already is taken as it is. An engine
// that knows no time to live is fine: it only means that nothing is removed.
func Create(ctx context.Context, client Client, name string) error {
	_, err := client.CreateTable(ctx, Input(name))
	if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
		return fmt.Errorf("table: create %s: %w", name, err)
	}
	waiter := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 20*time.Millisecond, time.Second
	})
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(name)}, time.Minute); err != nil {
		return fmt.Errorf("table: wait for %s: %w", name, err)
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: aws.String(name), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(names.AttrTTL), Enabled: aws.Bool(true)},
	})
	if err != nil && !tolerable(err) {
		return fmt.Errorf("table: time to live of %s: %w", name, err)
	}
	return nil
}

// tolerable are the answers of engines without a time to live, and of tables
// whose time to live is on already.
func tolerable(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return false
	}
	switch api.ErrorCode() {
	case "UnknownOperationException", "UnknownOperation", "ValidationException":
		return true
	}
	return false
}
