package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
	"github.com/onceward/onceward/middleware/once"
)

// newHandler guards the tools with the ledger that the environment names. Every
// missing or wrong variable is named in one error.
func newHandler(ctx context.Context, env func(string) string, logs io.Writer) (lambda.Handler, error) {
	table, err := required(env, names.EnvTable)
	service, serviceErr := required(env, names.EnvBilling)
	client, clientErr := required(env, names.EnvClient)
	if err := errors.Join(err, serviceErr, clientErr); err != nil {
		return nil, err
	}
	billing, err := newBilling(service, client)
	if err != nil {
		return nil, err
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("billing-tools: AWS configuration: %w", err)
	}
	store, err := dynamoledger.New(dynamodb.NewFromConfig(cfg), table, nil)
	if err != nil {
		return nil, err
	}
	guard, err := once.New(store, &once.Options{Observers: []once.Observer{logged(slog.New(slog.NewJSONHandler(logs, nil)))}})
	if err != nil {
		return nil, err
	}
	return guard.Handler(billing.findOrder(), billing.issueCredit())
}

func required(env func(string) string, name string) (string, error) {
	if value := env(name); value != "" {
		return value, nil
	}
	return "", fmt.Errorf("billing-tools: %s is not set", name)
}

// must ends the process, which Lambda reports as a failed start.
func must(h lambda.Handler, err error) lambda.Handler {
	if err != nil {
		slog.LogAttrs(context.Background(), slog.LevelError, "can't start", slog.Any("error", err))
		os.Exit(1)
	}
	return h
}
