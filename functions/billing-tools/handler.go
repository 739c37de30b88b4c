package main

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/startup"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
	"github.com/onceward/onceward/middleware/once"
)

// newHandler guards the tools with the ledger that the environment names. Every
// missing or wrong variable is named in one error.
func newHandler(ctx context.Context, env func(string) string, logs io.Writer) (lambda.Handler, error) {
	table, err := startup.Setting(env, names.EnvTable)
	service, serviceErr := startup.Setting(env, names.EnvBilling)
	client, clientErr := startup.Setting(env, names.EnvClient)
	if err := errors.Join(err, serviceErr, clientErr); err != nil {
		return nil, err
	}
	billing, err := newBilling(service, client)
	if err != nil {
		return nil, err
	}
	cfg, err := startup.AWS(ctx)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewJSONHandler(logs, nil))
	store, err := dynamoledger.New(dynamodb.NewFromConfig(cfg), table, nil)
	if err != nil {
		return nil, err
	}
	guard, err := once.New(store, &once.Options{Observers: []once.Observer{logged(log)}})
	if err != nil {
		return nil, err
	}
	return guard.Handler(billing.findOrder(), billing.issueCredit(), billing.closeAccount())
}
