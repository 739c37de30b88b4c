package once

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/onceward/onceward/middleware/ledger"
)

// storeTries bounds how often one request to the ledger is made. The store may
// try again inside, too.
const storeTries = 4

// load reads the record, consistently, also for a caller whose time is over: its
// answer has to say what is known.
func (c *invocation) load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.g.opts.Reserve/2)
	defer cancel()
	var rec ledger.Record
	err := c.tries(ctx, func() (err error) {
		rec, err = c.g.store.Load(ctx, key)
		return err
	})
	return rec, err
}

// result reads the result of a completed call that lies beside its record.
func (c *invocation) result(ctx context.Context, rec ledger.Record) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.g.opts.Reserve/2)
	defer cancel()
	var result []byte
	err := c.tries(ctx, func() (err error) {
		result, err = c.g.store.Result(ctx, rec)
		return err
	})
	return result, err
}

// apply stores the move. While its outcome is open the same move is sent again,
// and at last looked for: its write id tells what was stored before. An error
// that is not final still leaves it open.
func (c *invocation) apply(ctx context.Context, m ledger.Move) (ledger.Record, error) {
	sending, cancel := context.WithTimeout(ctx, c.g.opts.Reserve/2)
	defer cancel()
	var rec ledger.Record
	err := c.tries(sending, func() (err error) {
		rec, err = c.g.store.Apply(sending, m)
		return err
	})
	if err == nil || final(err) {
		return rec, err
	}
	looking, cancel := context.WithTimeout(ctx, c.g.opts.Reserve/4)
	defer cancel()
	if stands, readErr := c.g.store.Load(looking, m.Key()); readErr == nil && m.StoredIn(stands) {
		return stands, nil
	}
	return rec, err
}

// tries repeats f with backoff and jitter while its error may pass by.
func (c *invocation) tries(ctx context.Context, f func() error) error {
	var pause *backoff.ExponentialBackOff
	for n := 1; ; n++ {
		err := f()
		if err == nil || n == storeTries || final(err) {
			return err
		}
		if pause == nil {
			pause = pauses(20*time.Millisecond, 500*time.Millisecond)
		}
		if !sleep(ctx, pause.NextBackOff()) {
			return err
		}
	}
}

func final(err error) bool {
	return errors.Is(err, ledger.ErrStale) || errors.Is(err, ledger.ErrCorrupt) || errors.Is(err, ledger.ErrInvalid) || errors.Is(err, ledger.ErrNotAllowed) || errors.Is(err, ledger.ErrNotKept)
}

func pauses(first, longest time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = first, longest
	return b
}

// sleep waits for d and reports whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
