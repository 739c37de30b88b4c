package main

import (
	"context"
	"encoding/json"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/runs"
)

// Handle answers one request of the state machine. An error asks it to repeat
// the request.
func (p *Planner) Handle(ctx context.Context, payload json.RawMessage) (Answer, error) {
	req, err := decodeRequest(payload)
	if err == nil {
		return p.Plan(ctx, req)
	}
	return failed(runs.Failure{Error: names.FailBadInput, Cause: err.Error()}), nil // the answer is how the run fails; an error would repeat the request
}
