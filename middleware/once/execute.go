package once

import (
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// attention is how long after its deadline a handler may still end by itself,
// so that one which honours its context is heard.
const attention = 200 * time.Millisecond

// ended is how the tool's code ended.
type ended struct {
	yield
	err  error
	over error // what had become of its context by then
	a    *attempt
}

// execute runs the reserved call and stores what became of it.
func (c *invocation) execute(ctx context.Context, rec ledger.Record, x ledger.Executor) ending {
	a := &attempt{clock: c.g.opts.Clock, call: Call{Request: c.req, Tool: c.t.name, Class: c.t.class, Key: c.key, Deadline: x.Deadline}}
	a.call.Attempt = rec.Attempt.Number
	left := x.Deadline.Sub(c.g.opts.Clock())
	if left <= 0 {
		// The process slept between reservation and run. Others may have given
		// it up already; starting now would be a send after the deadline.
		return c.settled(ctx, rec, x, ledger.Settlement{Effect: ledger.NoEffect, Retryable: true, Code: codeNeverRan, Message: sentences[codeNeverRan]})
	}
	end, late := watch(ctx, a, left, c.grace(), c.run)
	c.cause = end.err
	e := c.settled(ctx, rec, x, c.settlement(end))
	if late != nil {
		go c.settleLate(context.WithoutCancel(ctx), rec, x, late)
	}
	return e
}

func (c *invocation) grace() time.Duration { return min(attention, c.g.opts.Reserve/8) }

// watch runs f within d in a goroutine of its own, so that one that does not
// listen can't hold the answer up. If it has not ended some grace after its time,
// late tells how it does, once it does.
func watch(ctx context.Context, a *attempt, d, grace time.Duration, f func(context.Context) (yield, error)) (end ended, late <-chan ended) {
	ctx, cancel := context.WithTimeout(a.in(ctx), d)
	defer cancel()
	done := make(chan ended, 1)
	go func() {
		end := ended{err: panicError{errGoexit}, a: a}
		defer func() { done <- end }() // also when f ends its goroutine
		end.err = guarded(func() (err error) { end.yield, err = f(ctx); return err })
	}()
	select {
	case end = <-done:
		end.over = ctx.Err()
		return end, nil
	case <-ctx.Done():
	}
	last := time.NewTimer(grace)
	defer last.Stop()
	select {
	case end = <-done:
		end.over = ctx.Err()
		return end, nil
	case <-last.C:
	}
	return ended{err: errSilent, over: ctx.Err(), a: a}, done
}

var errSilent = errors.New("once: the tool's code goes on after its time")

// settlement says what the tool's end means for the effect. Unmarked errors,
// panics and silence mean that nobody knows.
func (c *invocation) settlement(end ended) ledger.Settlement {
	if end.err == nil {
		return end.what
	}
	what := settlementOf(end.err, end.a)
	if what.Effect != ledger.Unknown {
		return what
	}
	_, panicked := errors.AsType[panicError](end.err)
	switch {
	case panicked:
		what.Code = codePanic
	case errors.Is(end.over, context.Canceled):
		what.Code = codeInterrupted
	case end.over != nil, errors.Is(end.err, context.DeadlineExceeded):
		what.Code = codeTimeout
	default:
		what.Code = codeUnknown
	}
	what.Message = sentences[what.Code]
	return what
}

// settled stores the settlement and answers from what is stored then.
func (c *invocation) settled(ctx context.Context, rec ledger.Record, x ledger.Executor, what ledger.Settlement) ending {
	after, err := c.settle(context.WithoutCancel(ctx), rec, x, what)
	if err != nil {
		r := refusal(c.key, codeNotRecorded, "").Report
		r.Status, r.Effect, r.Next = Indeterminate, ledger.Unknown, ledger.Look
		r.Attempt, r.Since, r.ModelSays = rec.Attempt.Number, x.Deadline.Add(-c.t.timeout), rec.ModelSays(nil)
		return ending{report: r, err: err}
	}
	return c.fresh(context.WithoutCancel(ctx), after, what, c.report(after, false))
}

// fresh answers from what this process has just stored, which it need not read.
func (c *invocation) fresh(ctx context.Context, rec ledger.Record, what ledger.Settlement, r Report) ending {
	own := r.Status == Completed && rec.Outcome.By.Kind == ledger.ByExecutor && !rec.Outcome.Ref.NotKept && what.Result != nil
	if !own || c.brief {
		return c.recorded(ctx, rec, r)
	}
	r.ModelSays = rec.ModelSays(what.Result)
	return ending{report: r, result: what.Result}
}

// settle stores what the executor knows, by its token, inside the reserve and
// on a context that outlives its caller's. Where somebody settled the call
// before, evidence is left.
func (c *invocation) settle(ctx context.Context, rec ledger.Record, x ledger.Executor, what ledger.Settlement) (ledger.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, c.g.opts.Reserve*3/4)
	defer cancel()
	for range mostMoves {
		if !rec.Exists() {
			return rec, errVanished
		}
		move, err := rec.Settle(c.stamp(), x.Token, what)
		if err != nil {
			c.leaveEvidence(ctx, rec, what)
			return rec, nil
		}
		// Stored now: what became of the call. If we stop before, the deadline passes
		// and the next one to look makes the call unknown.
		after, err := c.apply(ctx, move)
		if !errors.Is(err, ledger.ErrStale) {
			return after, err
		}
		rec = after
	}
	return rec, ledger.ErrStale
}

var errVanished = errors.New("once: the record is gone from the ledger")

// leaveEvidence notes an outcome that came after the call was settled by others.
// It is lost if the ledger can't take it: the status stands without it.
func (c *invocation) leaveEvidence(ctx context.Context, rec ledger.Record, what ledger.Settlement) {
	if what.Effect == ledger.Unknown {
		return // no news
	}
	kind, reason := ledger.Reject, "the executor reports that nothing happened: "+what.Message
	if what.Effect == ledger.Happened {
		kind, reason = ledger.Complete, "the executor reports the effect "+what.ExternalID
	}
	c.note(ctx, rec, ledger.Entry{Kind: kind, By: string(ledger.ByExecutor), Reason: reason})
}

func (c *invocation) note(ctx context.Context, rec ledger.Record, entry ledger.Entry) {
	if n := len(rec.Evidence); n > 0 && rec.Evidence[n-1].Kind == entry.Kind && rec.Evidence[n-1].By == entry.By && rec.Evidence[n-1].Reason == entry.Reason {
		return // said already; a poller must not fill the record
	}
	move, err := rec.Note(c.stamp(), entry)
	if err != nil {
		return
	}
	// Stored now: a remark. If we stop before, it is lost and the status stands.
	_, _ = c.apply(ctx, move)
}

// settleLate waits for a handler that did not end in time and settles what it
// says then, for as long as the process lives.
func (c *invocation) settleLate(ctx context.Context, rec ledger.Record, x ledger.Executor, late <-chan ended) {
	end := <-late
	what := c.settlement(end)
	if what.Effect == ledger.Unknown {
		return
	}
	// Stored now: a late word, which an unknown call takes as its outcome and a
	// settled one as evidence. If it is lost, the call stays as it is.
	_, _ = c.settle(ctx, rec, x, what)
}
