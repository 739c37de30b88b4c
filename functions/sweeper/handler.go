package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/onceward/onceward/internal/sweeper"
)

// errEvent reports an event that is no JSON object. Nothing was swept.
var errEvent = errors.New("sweeper: the event is not a JSON object")

// event is what is read of EventBridge's events, for the log only: whatever
// brought it, a sweep goes through everything.
type event struct {
	Kind   string `json:"detail-type"`
	Detail struct {
		Name   string `json:"name"` // of the execution that ended
		Status string `json:"status"`
	} `json:"detail"`
}

type sweeps interface {
	Sweep(ctx context.Context) (sweeper.Report, error)
}

// handler sweeps for each event.
type handler struct {
	sweeper sweeps
	log     *slog.Logger
}

// Handle makes one sweep and answers its report. An error means that something
// could not be listed, so that the invocation counts as failed and is made again
// by who made it; what was done stays done.
func (h handler) Handle(ctx context.Context, payload json.RawMessage) (sweeper.Report, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(payload, &object); err != nil || object == nil {
		return sweeper.Report{}, errEvent
	}
	var e event
	if err := json.Unmarshal(payload, &e); err == nil && e.Detail.Status != "" {
		h.log.LogAttrs(ctx, slog.LevelInfo, "an execution ended", slog.String("execution", e.Detail.Name), slog.String("status", e.Detail.Status))
	}
	return h.sweeper.Sweep(ctx)
}
