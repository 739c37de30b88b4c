package once

import (
	"context"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// waiting is what one invocation has done about a record that stands.
type waiting struct {
	mayStart  bool
	mayJoin   bool
	joined    bool
	looked    bool
	saw       string        // what the look-up said that settled nothing, as a code
	lookAgain time.Duration // when a look-up will be proof; 0: never
}

// join waits for a live executor until the call is settled, its deadline passes
// or the time to wait is over.
func (c *invocation) join(ctx context.Context, rec ledger.Record) (after ledger.Record, moved bool, err error) {
	limit := min(c.g.opts.JoinFor, rec.Attempt.Deadline.Sub(c.g.opts.Clock())+time.Millisecond)
	wait, cancel := c.bounded(ctx, limit)
	defer cancel()
	pause := pauses(50*time.Millisecond, time.Second)
	for statusOf(rec) == InProgress && sleep(wait, pause.NextBackOff()) {
		// A read that fails changes nothing: the executor goes on, and so do we.
		if read, err := c.g.store.Load(wait, c.key); err == nil && read.Exists() {
			rec = read
		}
	}
	return rec, true, nil
}
