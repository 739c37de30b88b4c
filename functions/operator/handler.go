package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/onceward/onceward/internal/doorbell/sfnbell"
	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/operator/operatorhttp"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/dynamoruns"
	"github.com/onceward/onceward/internal/startup"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
)

// lookUpTimeout is longer than any tool function runs (20 s), so that its answer
// is not given up on while it may still come, and shorter than this function
// (29 s), which API Gateway waits for no longer than 30 s.
const lookUpTimeout = 25 * time.Second

type function func(ctx context.Context, event events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error)

// newHandler connects the API to AWS as the environment says. Every missing or
// wrong variable is named in one error.
func newHandler(ctx context.Context, env func(string) string, logs io.Writer) (function, error) {
	log := slog.New(slog.NewJSONHandler(logs, nil))
	table, err := startup.Setting(env, names.EnvTable)
	tools, toolsErr := runs.ToolsOf(env)
	if err := errors.Join(err, toolsErr); err != nil {
		return nil, err
	}
	cfg, err := startup.AWS(ctx)
	if err != nil {
		return nil, err
	}
	database := dynamodb.NewFromConfig(cfg)
	store, err := dynamoledger.New(database, table, nil)
	if err != nil {
		return nil, err
	}
	stored, err := dynamoruns.New(database, table, ledger.Retention{})
	if err != nil {
		return nil, err
	}
	service, err := operator.New(operator.Config{
		Store: store, Waits: store, History: store, Runs: stored, Log: log,
		Bell:  sfnbell.New(sfn.NewFromConfig(cfg)),
		Tools: toolFunctions{client: toolClient(cfg), tools: tools},
	})
	if err != nil {
		return nil, err
	}
	api, err := operatorhttp.New(service, log) //nolint:contextcheck // each request brings its own context
	if err != nil {
		return nil, err
	}
	return behindGateway(api, log), nil
}

// toolClient invokes tools once: what may still be running is asked again by a
// person, not by a client.
func toolClient(cfg aws.Config) *lambda.Client {
	return lambda.NewFromConfig(cfg, func(o *lambda.Options) {
		o.Retryer, o.RetryMaxAttempts = aws.NopRetryer{}, 1 // both: the environment may ask for more
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(lookUpTimeout)
	})
}
