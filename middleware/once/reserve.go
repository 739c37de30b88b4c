package once

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// mostMoves bounds how often one invocation decides again because somebody else
// moved the record meanwhile.
const mostMoves = 8

// reserve writes the call down before anything runs: one conditional write
// decides which of many executors runs it, or asks for an approval.
func (c *invocation) reserve(ctx context.Context) ending {
	if c.t.approveWithin > 0 {
		return c.askApproval(ctx)
	}
	return c.start(ctx, ledger.Record{})
}

// askApproval keeps the call from running until a person allows it.
func (c *invocation) askApproval(ctx context.Context) ending {
	move, err := ledger.Record{}.AskApproval(c.stamp(), c.call(), c.t.approveWithin, c.t.approvalPolicy)
	if err != nil {
		return c.storeFault(ledger.Record{}, err, err)
	}
	// Stored now: the wish to run. If we stop here, a person finds it in the list
	// and the sweeper when its window is over.
	rec, err := c.apply(ctx, move)
	if errors.Is(err, ledger.ErrStale) {
		return c.standing(ctx, rec, true)
	}
	if err != nil {
		return c.lostReservation(ctx, err)
	}
	return c.recorded(ctx, rec, c.report(rec, false))
}

// start reserves the call from rec, the zero Record if there is none yet, and
// runs it if this process won.
func (c *invocation) start(ctx context.Context, rec ledger.Record) ending {
	now := c.g.opts.Clock()
	deadline := now.Add(c.t.timeout).Truncate(time.Millisecond) // as stores keep it, or others would give up first
	x := ledger.Executor{
		Token: ledger.AttemptToken(rand.Text()), Attempt: c.req.Attempt, Deadline: deadline,
		QuietAfter: deadline.Add(c.t.downstream.SettleDelay), RequestID: requestID(ctx),
	}
	move, err := rec.Start(ledger.Stamp{At: now, WriteID: rand.Text()}, c.call(), x)
	if err != nil {
		return c.storeFault(rec, err, err)
	}
	// Stored now: who runs the call and until when. If we stop here, the deadline
	// passes and the next one to look makes the call unknown.
	after, err := c.apply(ctx, move)
	switch {
	case errors.Is(err, ledger.ErrStale):
		return c.standing(ctx, after, true)
	case err != nil:
		return c.lostReservation(ctx, err)
	}
	return c.execute(ctx, after, x)
}

// lostReservation answers that nobody can say whether the reservation was
// stored. The tool does not run on it; if it was stored, it is orphaned later.
func (c *invocation) lostReservation(ctx context.Context, cause error) ending {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.g.opts.Reserve)
	defer cancel()
	rec, readErr := c.g.store.Load(ctx, c.key)
	return c.storeFault(rec, readErr, cause)
}

// standing answers from a record that stands already. It makes the moves that
// the table allows now: a start by an approval, a grant or a named next attempt,
// if mayStart; the end of what is over; and what the look-up finds.
func (c *invocation) standing(ctx context.Context, rec ledger.Record, mayStart bool) ending {
	w := waiting{mayStart: mayStart, mayJoin: mayStart}
	for range mostMoves {
		if e, other := c.foreign(rec); other {
			return e
		}
		if !rec.State().Unsettled() && !rec.Flags.Has(ledger.Retryable) {
			break // settled for good: the replay, which has no time to lose
		}
		if w.mayStart && c.startable(rec) {
			if !c.enoughTime(ctx, c.t.timeout) {
				return c.refuseSeen(rec, codeTooLittleTime, nil)
			}
			return c.start(ctx, rec)
		}
		after, moved, err := c.advance(ctx, rec, &w)
		if err != nil {
			return c.storeFault(rec, nil, err)
		}
		if !moved {
			break
		}
		rec = after
	}
	r := c.report(rec, w.looked)
	r.Replayed, r.Joined = true, w.joined
	if w.mayStart && c.changed(rec) {
		c.withheld(ctx, rec, &r)
	}
	if c.lookOnly && w.saw != "" && r.Status == Indeterminate && r.Code != codeContradicted {
		r.Code, r.Message = w.saw, sentences[w.saw]
	}
	if w.lookAgain > 0 && r.Status == Indeterminate {
		r.Next, r.RetryAfter = ledger.Look, w.lookAgain
	}
	return c.recorded(ctx, rec, r)
}

// startable reports whether the table lets the call start from rec now. A tool
// that came to need approval starts what had none only by a person's grant.
func (c *invocation) startable(rec ledger.Record) bool {
	if c.t.approveWithin > 0 && rec.Approval.ExpiresAt.IsZero() && !rec.Flags.Has(ledger.Granted) {
		return false
	}
	if c.outdated(rec) || c.changed(rec) {
		return false
	}
	_, err := rec.Start(c.stamp(), ledger.Call{Key: c.key, KeyWindow: c.t.downstream.KeyWindow}, ledger.Executor{Attempt: c.req.Attempt})
	return err == nil
}

// changed reports whether the arguments come to something else by now than what
// a person approved, or what failed and may run again: a deploy has changed the
// tool's defaults or version. A replay is excused that, a start is not.
func (c *invocation) changed(rec ledger.Record) bool {
	switch rec.Status {
	case ledger.Reserved:
		return rec.Approval.Fingerprint != c.fingerprint
	case ledger.Failed:
		return rec.Flags.Has(ledger.Retryable) && rec.Fingerprint != c.fingerprint
	case ledger.None, ledger.Started, ledger.Completed, ledger.Indeterminate, ledger.Compensated, ledger.Follower:
	}
	return false
}

// withheld says why a call that a person may have allowed did not start, in the
// answer and on the record, where the person finds it.
func (c *invocation) withheld(ctx context.Context, rec ledger.Record, r *Report) {
	switch {
	case rec.Status == ledger.Reserved:
		r.Message = "the arguments come to something else by now than what a person sees: deny the call, or roll the tool back"
	case rec.Flags.Has(ledger.Granted) && r.Next == ledger.Again:
		r.Message = "the arguments come to something else by now than what was granted: withdraw the grant, or roll the tool back"
		r.Next, r.RetryAfter = ledger.Done, 0
	default:
		return // it is answered as the failure that it is
	}
	// Stored now: a remark. If it is lost, the next repeat makes it.
	c.note(ctx, rec, ledger.Entry{Kind: ledger.Note, By: string(ledger.ByExecutor), Reason: r.Message})
}

// outdated reports whether the record's approval was given under older rules.
func (c *invocation) outdated(rec ledger.Record) bool {
	return !rec.Approval.At.IsZero() && rec.Approval.Policy < c.t.approvalPolicy
}

// advance makes the one move, or waits for the one change, that gets an existing
// record further without running the tool.
func (c *invocation) advance(ctx context.Context, rec ledger.Record, w *waiting) (after ledger.Record, moved bool, err error) {
	move, err := c.overdue(rec, w.mayStart)
	switch {
	case err == nil:
		// Stored now: that a deadline or a window is over. If we stop here, the
		// record is where the sweeper would have put it.
		after, err = c.apply(ctx, move)
		if errors.Is(err, ledger.ErrStale) {
			err = nil
		}
		return after, true, err
	case statusOf(rec) == InProgress && w.mayJoin && !w.joined:
		w.joined = true
		return c.join(ctx, rec)
	case statusOf(rec) == Indeterminate && c.look != nil && !w.looked:
		return c.lookUp(ctx, rec, w)
	}
	return rec, false, nil
}

// overdue returns the move that time or a deploy has made due, or ErrNotAllowed.
func (c *invocation) overdue(rec ledger.Record, mayStart bool) (ledger.Move, error) {
	if move, err := rec.Orphan(c.stamp()); err == nil {
		return move, nil
	}
	if move, err := rec.Expire(c.stamp()); err == nil {
		return move, nil
	}
	if c.outdated(rec) || mayStart && rec.Status == ledger.Reserved && c.changed(rec) {
		return rec.NewPolicy(c.stamp(), max(rec.Approval.Policy, c.t.approvalPolicy))
	}
	return ledger.Move{}, ledger.ErrNotAllowed
}
