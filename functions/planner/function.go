package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/dynamoruns"
	"github.com/onceward/onceward/internal/startup"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
)

type function func(ctx context.Context, payload json.RawMessage) (Answer, error)

// newFunction connects the planner to AWS as the environment says. Every missing
// or wrong variable is named in one error.
func newFunction(ctx context.Context, env func(string) string, logs io.Writer) (function, error) {
	table, err := startup.Setting(env, names.EnvTable)
	tools, toolsErr := runs.ToolsOf(env)
	if err := errors.Join(err, toolsErr); err != nil {
		return nil, err
	}
	cfg, err := startup.AWS(ctx)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewJSONHandler(logs, nil))
	database := dynamodb.NewFromConfig(cfg)
	store, err := dynamoledger.New(database, table, nil)
	if err != nil {
		return nil, err
	}
	stored, err := dynamoruns.New(database, table, ledger.Retention{})
	if err != nil {
		return nil, err
	}
	planner := &Planner{
		Runs: stored, Ledger: store, Tools: tools, ModelFor: scriptedModel, Machine: env(names.EnvMachine),
		Now: time.Now, NewID: rand.Text, Log: log, inputs: &lastInput{},
	}
	return planner.Handle, nil
}
