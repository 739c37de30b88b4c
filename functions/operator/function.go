package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/onceward/onceward/internal/doorbell/sfnbell"
	"github.com/onceward/onceward/internal/executions/sfnexecutions"
	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/operator/operatorhttp"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/dynamoruns"
	"github.com/onceward/onceward/internal/runs/launch"
	"github.com/onceward/onceward/internal/startup"
	"github.com/onceward/onceward/internal/toolcall/lambdatools"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
)

type function func(ctx context.Context, event events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error)

// newFunction connects the API to AWS as the environment says. Every missing or
// wrong variable is named in one error.
func newFunction(ctx context.Context, env func(string) string, logs io.Writer) (function, error) {
	table, err := startup.Setting(env, names.EnvTable)
	tools, toolsErr := runs.ToolsOf(env)
	machine, machineErr := startup.Setting(env, names.EnvMachine)
	if err := errors.Join(err, toolsErr, machineErr); err != nil {
		return nil, err
	}
	cfg, err := startup.AWS(ctx)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewJSONHandler(logs, nil))
	database, steps := dynamodb.NewFromConfig(cfg), sfn.NewFromConfig(cfg)
	store, err := dynamoledger.New(database, table, nil)
	if err != nil {
		return nil, err
	}
	stored, err := dynamoruns.New(database, table, ledger.Retention{})
	if err != nil {
		return nil, err
	}
	launcher := launch.Launcher{
		Runs: stored, Machine: sfnexecutions.New(steps), StateMachine: machine, Now: time.Now, NewID: rand.Text, Log: log,
	}
	service, err := operator.New(operator.Config{
		Store: store, Waits: store, History: store, Runs: stored, Log: log, Bell: sfnbell.New(steps),
		Tools: lambdatools.New(lambdatools.Client(cfg), tools), Machine: launcher.Machine, Launcher: launcher,
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
