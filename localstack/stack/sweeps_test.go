package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/localstack/stepfunctions"
)

// sweeper is a function that takes some time for each sweep.
type sweeper struct {
	takes time.Duration
	fails error

	mu     sync.Mutex
	now    int
	most   int // sweeps at once
	events []map[string]any
}

func (s *sweeper) invoke(ctx context.Context, payload []byte) error {
	var event map[string]any
	if err := json.Unmarshal(payload, &event); err != nil {
		return err
	}
	s.mu.Lock()
	s.events = append(s.events, event)
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	return s.fails
}

func TestScheduleSweepsEveryIntervalAndNeverTwiceAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		takes time.Duration
		want  int
	}{
		{"quick", time.Second, 6},
		{"slower than the schedule", 14 * time.Second, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &sweeper{takes: c.takes}
				s := newSweeps(f.invoke, 10*time.Second, slog.New(slog.DiscardHandler))
				s.start()
				time.Sleep(65 * time.Second) // of the bubble's own clock
				s.close()
				if len(f.events) != c.want || f.most != 1 {
					t.Errorf("%d sweeps, want %d; %d at once", len(f.events), c.want, f.most)
				}
				first := f.events[0]
				if first["detail-type"] != "Scheduled Event" || first["source"] != "aws.events" || first["account"] != "000000000000" || first["region"] != "us-east-1" || first["id"] == "" {
					t.Errorf("%v", first)
				}
				if _, err := time.Parse("2006-01-02T15:04:05Z", first["time"].(string)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestExecutionThatEndsBadlyIsSweptAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &sweeper{}
		s := newSweeps(f.invoke, time.Hour, slog.New(slog.DiscardHandler))
		s.start()
		s.tell(stepfunctions.StatusChange{DetailType: "Step Functions Execution Status Change", Detail: stepfunctions.StatusChangeDetail{Name: "run-1"}})
		synctest.Wait()
		s.close()
		if len(f.events) != 1 || f.events[0]["detail-type"] != "Step Functions Execution Status Change" || f.events[0]["detail"].(map[string]any)["name"] != "run-1" {
			t.Errorf("%v", f.events)
		}
		s.tell(stepfunctions.StatusChange{}) // too late: nobody is held up
	})
}

func TestManyEndsNeverHoldTheRunnerUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &sweeper{takes: time.Hour}
		s := newSweeps(f.invoke, time.Hour, slog.New(slog.DiscardHandler))
		s.start()
		for range 3 * waiting {
			s.tell(stepfunctions.StatusChange{})
		}
		s.close()
		if f.most > 1 {
			t.Errorf("%d sweeps at once", f.most)
		}
	})
}

func TestFailedSweepIsLoggedAndComesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := &sweeper{fails: errors.New("no such table")}
		s := newSweeps(f.invoke, time.Second, slog.New(slog.NewTextHandler(&log, nil)))
		s.start()
		time.Sleep(2500 * time.Millisecond) // of the bubble's own clock
		s.close()
		if n := strings.Count(log.String(), "no such table"); n != 2 || len(f.events) != 2 {
			t.Errorf("%d sweeps, %d logged: %s", len(f.events), n, log.String())
		}
	})
}

func TestWithoutAnIntervalNothingIsSwept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &sweeper{}
		s := newSweeps(f.invoke, 0, slog.New(slog.DiscardHandler))
		s.start()
		s.tell(stepfunctions.StatusChange{})
		time.Sleep(time.Hour) // of the bubble's own clock
		s.close()
		if len(f.events) != 0 {
			t.Errorf("%v", f.events)
		}
	})
}
