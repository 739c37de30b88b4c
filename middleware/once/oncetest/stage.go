package oncetest

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// stage is one tool before one receiver and one fresh ledger, whose clock can be
// put forward.
type stage[In, Out any] struct {
	receiver *Receiver
	tool     once.Tool[In, Out]
	bound    *once.Bound[In, Out]
	store    *memledger.Store
	req      once.Request
	clock    *clock
	cause    error // what the tool's own code failed with last
}

// stageOf sets one up, days from now; ok is false if t was told why it can't be.
func stageOf[In, Out any](t testing.TB, build func(*Receiver) once.Tool[In, Out], days int) (s *stage[In, Out], ok bool) {
	t.Helper()
	s = &stage[In, Out]{receiver: NewReceiver(t), req: NewRequest(t), clock: &clock{}}
	s.clock.pass(time.Duration(days) * 24 * time.Hour)
	s.tool = build(s.receiver)
	s.tool.ApproveWithin = 0 // people are not what is checked
	if s.tool.Permission != "" {
		s.req.Permissions = []string{s.tool.Permission}
	}
	store, err := memledger.New()
	if err != nil {
		t.Errorf("oncetest: %v", err)
		return nil, false
	}
	s.store = store
	watch := func(ctx context.Context, _ once.Call) (context.Context, func(once.Report, error)) {
		return ctx, func(_ once.Report, cause error) { s.cause = cause }
	}
	guard, err := once.New(store, &once.Options{Clock: s.clock.now, Observers: []once.Observer{watch}})
	if err != nil {
		t.Errorf("oncetest: %v", err)
		return nil, false
	}
	if s.bound, err = once.Bind(guard, s.tool); err != nil {
		t.Errorf("%s: %v", s.tool.Name, err)
		return nil, false
	}
	return s, true
}

// strike arms fault for one of the writes to come, counted from 1, and names it.
func (s *stage[In, Out]) strike(fault Fault, place int) (name string) {
	name = fault.String()
	if fault != 0 {
		s.receiver.Next(append(make([]Fault, place-1), fault)...)
	}
	if place > 1 {
		name += " at write " + strconv.Itoa(place)
	}
	return name
}

// askUndo lets a person ask for the call's next undo, and know that it may be
// unknown; ok is false if the table has no such move.
func (s *stage[In, Out]) askUndo(ctx context.Context) (undo once.Request, ok bool) {
	rec, err := s.store.Load(ctx, s.req.Key())
	if err != nil {
		return once.Request{}, false
	}
	d := ledger.Decision{ID: "ask", Actor: "a tester", Reason: "to check the contract", Version: rec.Version}
	move, err := rec.AskUndo(ledger.Stamp{At: s.clock.now(), WriteID: d.ID}, d, ledger.UndoAsk{KnowsUnknown: true})
	if err == nil {
		_, err = s.store.Apply(ctx, move)
	}
	undo = s.req
	undo.CallID = s.req.Key().Undo(rec.Undo.N + 1).CallID
	return undo, err == nil
}

// settleAs lets a person settle the call as one that took effect under that id; ok
// is false if it is not unknown.
func (s *stage[In, Out]) settleAs(ctx context.Context, externalID string) (ok bool) {
	rec, err := s.store.Load(ctx, s.req.Key())
	if err != nil || rec.Status != ledger.Indeterminate {
		return false
	}
	d := ledger.Decision{ID: "settle", Actor: "a tester", Reason: "to check the contract", Version: rec.Version}
	move, err := rec.Resolve(ledger.Stamp{At: s.clock.now(), WriteID: d.ID}, d, ledger.Settlement{Effect: ledger.Happened, ExternalID: externalID})
	if err == nil {
		_, err = s.store.Apply(ctx, move)
	}
	return err == nil
}

// quiet is longer than the tool's timeout and settle delay, their defaults too.
func (s *stage[In, Out]) quiet() time.Duration {
	return s.tool.Timeout + s.tool.Downstream.SettleDelay + 5*time.Minute
}

// clock is real time, put forward.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) pass(d time.Duration) { c.ahead.Add(int64(d)) }
