package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/runs/launch"
	"github.com/onceward/onceward/internal/sweeper"
)

// errEvent reports an event that is no JSON object. Nothing was swept.
var errEvent = errors.New("sweeper: nothing was swept: the event is not a JSON object")

// event is what is read of EventBridge's events: of an execution that ended badly.
// Whatever brought it, a sweep goes through everything.
type event struct {
	Kind   string `json:"detail-type"`
	Detail struct {
		Name      string `json:"name"` // of the execution
		Status    string `json:"status"`
		Machine   string `json:"stateMachineArn"`
		StartedAt int64  `json:"startDate"` // milliseconds of the epoch
		Input     string `json:"input"`     // "" where it is too long for an event
		Error     string `json:"error"`
	} `json:"detail"`
}

type sweeps interface {
	Sweep(ctx context.Context) (sweeper.Report, error)
}

// adopts puts the runs of executions that ended before their first plan.
type adopts interface {
	Adopt(ctx context.Context, o launch.Orphan) (bool, error)
}

// handler sweeps for each event.
type handler struct {
	sweeper sweeps
	drivers adopts
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
		h.adopt(ctx, e)
	}
	return h.sweeper.Sweep(ctx)
}

// adopt sees to it that a run which was accepted and never planned is listed. One
// whose input the planner has refused is no run.
func (h handler) adopt(ctx context.Context, e event) {
	if e.Detail.Input == "" || e.Detail.Error == names.FailBadInput {
		return
	}
	_, err := h.drivers.Adopt(ctx, launch.Orphan{
		Machine: e.Detail.Machine, Execution: e.Detail.Name, Input: json.RawMessage(e.Detail.Input), StartedAt: time.UnixMilli(e.Detail.StartedAt).UTC(),
	})
	if err != nil {
		h.log.LogAttrs(ctx, slog.LevelWarn, "an execution ended, and its run could not be looked at: if it never planned, nothing but Step Functions lists it",
			slog.String("execution", e.Detail.Name), slog.Any("error", err))
	}
}
