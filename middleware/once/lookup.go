package once

import (
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// lookUp asks the tool's hook about a call that nobody knows of. The version
// that was read before it proves that nobody decided meanwhile.
func (c *invocation) lookUp(ctx context.Context, rec ledger.Record, w *waiting) (after ledger.Record, moved bool, err error) {
	bounded, cancel := c.bounded(ctx, c.t.timeout)
	defer cancel()
	if bounded.Err() != nil {
		return rec, false, nil // no time to look; the answer says so by its next
	}
	w.looked = true
	began := c.g.opts.Clock()
	a := &attempt{clock: c.g.opts.Clock, lookUp: true, call: Call{Request: c.req, Tool: c.t.name, Class: c.t.class, Key: c.key, Deadline: began.Add(c.t.timeout)}}
	end, _ := watch(bounded, a, c.t.timeout, c.grace(), func(ctx context.Context) (yield, error) { return c.look(ctx, rec) })
	c.cause = end.err
	if end.err != nil {
		w.saw = codeCannotTell
		c.note(ctx, rec, ledger.Entry{Kind: ledger.Note, By: string(ledger.ByHook), Reason: "the look-up could not tell"})
		return rec, false, nil
	}
	move, err := rec.Look(c.stamp(), began, c.absenceProves(rec), end.what)
	if err != nil {
		c.note(ctx, rec, finding(end.what))
		if end.what.Effect == ledger.NoEffect {
			w.saw = codeFoundNothing
		}
		w.lookAgain = c.proofIn(rec)
		return rec, false, nil
	}
	// Stored now: what the look-up saw. If we stop before, the next one looks
	// again.
	after, err = c.apply(ctx, move)
	if errors.Is(err, ledger.ErrStale) {
		return c.outrun(ctx, after, began, end.what) // somebody was faster, and it is theirs that stands
	}
	return after, true, err
}

// outrun keeps what a look-up saw of a call that somebody settled meanwhile: an
// effect that they deny is flagged, so that somebody looks, or at least noted.
func (c *invocation) outrun(ctx context.Context, rec ledger.Record, began time.Time, what ledger.Settlement) (after ledger.Record, moved bool, err error) {
	if what.Effect != ledger.Happened {
		return rec, true, nil
	}
	for range mostMoves {
		if !rec.Exists() || rec.Effect() == ledger.Happened {
			return rec, true, nil
		}
		move, err := rec.Look(c.stamp(), began, false, what)
		if errors.Is(err, ledger.ErrNotAllowed) {
			c.note(ctx, rec, finding(what))
			return rec, true, nil
		} else if err != nil {
			return rec, true, err
		}
		// Stored now: that the effect is there, against what stands. If we stop
		// before, it is lost with this process, as the look-up is.
		after, err := c.apply(ctx, move)
		if !errors.Is(err, ledger.ErrStale) {
			return after, true, err
		}
		rec = after
	}
	return rec, true, nil
}

// absenceProves reports whether finding nothing would prove that nothing
// happened. A look-up by arguments that come to something else by now than those
// that ran looks for something else.
func (c *invocation) absenceProves(rec ledger.Record) bool {
	return c.t.downstream.AbsenceIsProof && (c.t.looksByKey || rec.Fingerprint == c.fingerprint)
}

// finding is the evidence of a look-up whose word the table does not take now.
func finding(what ledger.Settlement) ledger.Entry {
	if what.Effect == ledger.Happened {
		return ledger.Entry{Kind: ledger.Find, By: string(ledger.ByHook), Reason: "the look-up found the effect " + what.ExternalID}
	}
	return ledger.Entry{Kind: ledger.FindAbsent, By: string(ledger.ByHook), Reason: "the look-up found nothing, which proves nothing yet"}
}

// proofIn returns in how much time a look-up that finds nothing will be proof; 0
// if it never will.
func (c *invocation) proofIn(rec ledger.Record) time.Duration {
	left := rec.Attempt.QuietAfter.Sub(c.g.opts.Clock())
	if !c.absenceProves(rec) || left < 0 {
		return 0
	}
	return left + time.Second
}

// reconcile looks up only; it can't run the tool. The result is for those who
// may make the call; others hear where it stands. An answer that leaves the call
// unknown says what the look-up saw; a repeat of the call itself says why the
// call is unknown. An undo has no look-up: it is answered as it stands.
func (c *invocation) reconcile(ctx context.Context, refused *Error) ending {
	c.lookOnly = true
	return c.watched(ctx, func(ctx context.Context) ending {
		if e := c.firstFault(ctx, refused, ModeReconcile); e != nil {
			return c.refuse(ctx, e)
		}
		if c.authorised(ctx) != nil {
			c.brief = true
		}
		rec, err := c.load(ctx, c.key)
		switch {
		case err != nil:
			return c.storeFault(rec, err, err)
		case !rec.Exists():
			return c.unseen()
		}
		return c.standing(ctx, rec, false)
	})
}

// unseen answers that nothing is known of the call, so that it may be asked for.
func (c *invocation) unseen() ending {
	if c.undo != nil {
		return c.refuseSeen(ledger.Record{}, codeNoRecord, nil) // to ask for it is a person's
	}
	r := refusal(c.key, codeNoRecord, "").Report
	r.Effect, r.Next, r.RetryAfter = ledger.NoEffect, ledger.Again, time.Second
	r.ModelSays = ledger.RequestSays(r.Effect, r.Message)
	return ending{report: r}
}
