package once

import (
	"context"
	"errors"

	"github.com/onceward/onceward/middleware/ledger"
)

// close makes sure that nothing can start under the key any more. It needs no
// authorisation: it only takes a right away, and who may send envelopes may.
func (c *invocation) close(ctx context.Context) ending {
	c.unargued = true
	return c.watched(ctx, func(ctx context.Context) ending {
		if e := c.firstFault(ctx, nil, ModeClose); e != nil {
			return c.refuse(ctx, e)
		}
		var rec ledger.Record
		for range mostMoves {
			if e, other := c.foreign(rec); other {
				return e
			}
			move, err := rec.Close(c.stamp(), c.key, ledger.Settler{Kind: ledger.ByPlanner})
			if err != nil {
				break // it runs, took effect, or is final already
			}
			// Stored now: nothing can start. If we stop before, whoever closes the turn
			// asks again.
			after, err := c.apply(ctx, move)
			if err == nil {
				return ending{report: c.report(after, false)}
			}
			if !errors.Is(err, ledger.ErrStale) {
				return c.lostReservation(ctx, err)
			}
			rec = after
		}
		c.brief = true
		r := c.report(rec, false)
		r.Replayed = true
		return c.recorded(ctx, rec, r)
	})
}
