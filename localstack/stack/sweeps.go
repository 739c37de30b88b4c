package stack

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/localstack/lambda"
	"github.com/onceward/onceward/localstack/stepfunctions"
)

// scheduledEvent is what an EventBridge schedule sends.
type scheduledEvent struct {
	Version    string         `json:"version"`
	ID         string         `json:"id"`
	DetailType string         `json:"detail-type"`
	Source     string         `json:"source"`
	Account    string         `json:"account"`
	Time       time.Time      `json:"time"`
	Region     string         `json:"region"`
	Resources  []string       `json:"resources"`
	Detail     map[string]any `json:"detail"`
}

// sweeps plays EventBridge for the sweeper: a schedule, and a rule on executions
// that end badly. Each of the two invokes the function once at a time; the
// schedule leaves out what it has no time for. What fails is logged and comes
// again with the next sweep.
type sweeps struct {
	invoke func(ctx context.Context, event []byte) error
	every  time.Duration // zero: never
	log    *slog.Logger

	ended  chan stepfunctions.StatusChange
	cancel context.CancelFunc // nil unless started
	work   sync.WaitGroup
}

// waiting is how many executions that ended badly may wait for the sweeper; the
// schedule finds those beyond it.
const waiting = 100

func newSweeps(invoke func(context.Context, []byte) error, every time.Duration, log *slog.Logger) *sweeps {
	return &sweeps{invoke: invoke, every: every, log: log, ended: make(chan stepfunctions.StatusChange, waiting)}
}

func (s *sweeps) start() {
	if s.every == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.work.Go(func() { s.onSchedule(ctx) })
	s.work.Go(func() { s.onEnded(ctx) })
}

// tell lets the sweeper know of an execution that ended badly. It never waits.
func (s *sweeps) tell(change stepfunctions.StatusChange) {
	if s.every == 0 {
		return
	}
	select {
	case s.ended <- change:
	default:
	}
}

// close stops sweeping and returns when nothing here runs any more. A sweep
// under way is left to the function's own end.
func (s *sweeps) close() {
	if s.cancel == nil {
		return
	}
	s.cancel()
	s.work.Wait()
}

func (s *sweeps) onSchedule(ctx context.Context) {
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			s.sweep(ctx, scheduledEvent{
				Version: "0", ID: uuid.NewString(), DetailType: "Scheduled Event", Source: "aws.events", Account: lambda.Account,
				Time: now.UTC().Truncate(time.Second), Region: lambda.Region,
				Resources: []string{"arn:aws:events:" + lambda.Region + ":" + lambda.Account + ":rule/onceward-" + Stage + "-sweep"}, Detail: map[string]any{},
			})
		}
	}
}

func (s *sweeps) onEnded(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case change := <-s.ended:
			s.sweep(ctx, change)
		}
	}
}

func (s *sweeps) sweep(ctx context.Context, event any) {
	if ctx.Err() != nil {
		return
	}
	payload, err := json.Marshal(event)
	if err == nil {
		err = s.invoke(ctx, payload)
	}
	if err != nil && ctx.Err() == nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "sweep failed", slog.Any("error", err))
	}
}
