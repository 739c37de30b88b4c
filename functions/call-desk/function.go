package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/startup"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
	"github.com/onceward/onceward/middleware/once"
)

type function func(ctx context.Context, payload json.RawMessage) (once.Answer, error)

// newFunction connects the desk to AWS as the environment says.
func newFunction(ctx context.Context, env func(string) string, logs io.Writer) (function, error) {
	table, err := startup.Setting(env, names.EnvTable)
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
	desk := &Desk{Store: store, Bell: sfn.NewFromConfig(cfg), Now: time.Now, NewID: rand.Text, Log: log}
	return desk.Handle, nil
}
