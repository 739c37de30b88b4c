package once

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/onceward/onceward/middleware/ledger"
)

// read runs a tool that changes nothing: directly, as often as its class allows,
// and records it once, afterwards, if its result has to travel by the ledger.
func (c *invocation) read(ctx context.Context) ending {
	end := c.readTries(ctx)
	c.cause = end.err
	what := end.what
	if end.err != nil {
		what = readFailure(end)
	}
	move, err := ledger.Record{}.Journal(c.stamp(), c.call(), what)
	if err != nil {
		return c.storeFault(ledger.Record{}, nil, err)
	}
	if c.direct() {
		return c.unrecorded(move, end, what)
	}
	// Stored now: what the read saw, and that a repeat gets the same. If we stop
	// before, a repeat reads anew.
	rec, err := c.apply(ctx, move)
	switch {
	case errors.Is(err, ledger.ErrStale):
		if e, other := c.foreign(rec); other {
			return e
		}
		r := c.report(rec, true)
		r.Replayed = true
		return c.recorded(ctx, rec, r)
	case err != nil:
		return c.lostReservation(ctx, err)
	}
	return c.fresh(ctx, rec, what, c.report(rec, true))
}

// unrecorded answers from the record that was not stored.
func (c *invocation) unrecorded(move ledger.Move, end ended, what ledger.Settlement) ending {
	rec, _ := move.Creates()
	e := ending{report: c.report(rec, true), result: what.Result}
	e.report.Since = time.Time{}
	if end.err == nil {
		e.value = end.value
		e.report.ModelSays = rec.ModelSays(what.Result)
	}
	return e
}

// readTries runs the tool until it succeeds, says no for good, or its attempts
// or the time are over.
func (c *invocation) readTries(ctx context.Context) ended {
	var pause *backoff.ExponentialBackOff
	for n := 1; ; n++ {
		end := c.readOnce(ctx, n)
		if end.err == nil || n >= c.t.attempts || hopeless(end) {
			return end
		}
		if pause == nil {
			pause = pauses(100*time.Millisecond, 2*time.Second)
		}
		d := pause.NextBackOff()
		if !c.enoughTime(ctx, d+c.t.timeout) || !sleep(ctx, d) {
			return end
		}
	}
}

func (c *invocation) readOnce(ctx context.Context, n int) ended {
	now := c.g.opts.Clock()
	a := &attempt{clock: c.g.opts.Clock, call: Call{Request: c.req, Tool: c.t.name, Class: c.t.class, Key: c.key, Deadline: now.Add(c.t.timeout)}}
	a.call.Attempt = n
	end, _ := watch(ctx, a, c.t.timeout, c.grace(), c.run)
	return end
}

// hopeless reports whether another try of a read would end the same: the
// receiver said no, or the tool's own code is broken.
func hopeless(end ended) bool {
	if _, panicked := errors.AsType[panicError](end.err); panicked {
		return true
	}
	what := settlementOf(end.err, end.a)
	return what.Effect == ledger.Happened || what.Effect == ledger.NoEffect && !what.Retryable
}

// readFailure says why a read failed. It had no effect, whatever went wrong.
func readFailure(end ended) ledger.Settlement {
	what := settlementOf(end.err, end.a)
	switch {
	case what.Effect == ledger.Happened:
		return what
	case what.Effect == ledger.Unknown:
		return ledger.Settlement{Effect: ledger.NoEffect, Code: codeReadFailed, Message: sentences[codeReadFailed]}
	case what.Retryable:
		what.Retryable, what.Code = false, codeReadFailed
	}
	return what
}
