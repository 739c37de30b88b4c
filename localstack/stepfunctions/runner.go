// Package stepfunctions is a local AWS Step Functions for Standard machines in
// the JSONPath subset that package asl reads. A Runner keeps machines and
// executions in memory, runs them with AWS's documented rules for retries,
// timeouts, maps and task tokens, and its Handler speaks the service's JSON 1.0
// protocol to the AWS SDKs and the aws command. What it does not know it
// refuses by name. Start at New.
package stepfunctions

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/localstack/stepfunctions/interpreter"
)

// Options are the settings of a Runner; the zero value of each is its default.
type Options struct {
	// Region is the one in ARNs and histories. Default us-east-1.
	Region string
	// Account is the one in ARNs, 12 digits. Default 000000000000.
	Account string
	// WaitScale multiplies what Wait states and retries wait, so that a
	// demonstration can hurry: above 0, at most 1. Timeouts and heartbeats keep
	// their length. Default 1.
	WaitScale float64
	// Now tells the time for histories and for waits until a timestamp.
	// Default time.Now.
	Now func() time.Time
	// Logger hears of executions that start and end, without their data.
	// Default: nothing is logged.
	Logger *slog.Logger
}

var (
	errNoInvoker = errors.New("stepfunctions: an Invoker is required")
	errWaitScale = errors.New("stepfunctions: WaitScale must be above 0 and at most 1")
	errAccount   = errors.New("stepfunctions: Account must have 12 digits")
	errStillBusy = errors.New("stepfunctions: work is still running")
)

// Runner keeps state machines and runs executions of them in goroutines that
// it owns. It is safe for concurrent use; Close ends it.
type Runner struct {
	invoker     Invoker
	options     Options
	interpreter *interpreter.Interpreter
	tokens      *tokens

	// spawn runs f in a goroutine that Close waits for; its context ends then.
	spawn  func(f func(context.Context))
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	machines   map[string]*machine   // by ARN
	executions map[string]*execution // by ARN
	order      []*execution          // as started
}

// New returns a Runner whose Lambda tasks go to invoker. options may be nil.
func New(invoker Invoker, options *Options) (*Runner, error) {
	if invoker == nil {
		return nil, errNoInvoker
	}
	o, err := withDefaults(options)
	if err != nil {
		return nil, err
	}
	r := &Runner{
		invoker: invoker, options: o, tokens: newTokens(),
		machines: map[string]*machine{}, executions: map[string]*execution{},
		interpreter: &interpreter.Interpreter{
			Random: random,
			UUID:   uuid.NewString,
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.spawn = func(f func(context.Context)) { r.work.Go(func() { f(ctx) }) }
	return r, nil
}

func withDefaults(options *Options) (Options, error) {
	var o Options
	if options != nil {
		o = *options
	}
	if o.Region == "" {
		o.Region = "us-east-1"
	}
	if o.Account == "" {
		o.Account = "000000000000"
	}
	if o.WaitScale == 0 {
		o.WaitScale = 1
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if !(o.WaitScale > 0 && o.WaitScale <= 1) {
		return Options{}, fmt.Errorf("%w: %v", errWaitScale, o.WaitScale)
	}
	if !accountPattern.MatchString(o.Account) {
		return Options{}, fmt.Errorf("%w: %q", errAccount, o.Account)
	}
	return o, nil
}

// Close stops all executions where they are, cancels calls in flight and waits
// until nothing runs or ctx is done; in the latter case it returns an error
// and the rest goes on ending by itself. A closed Runner starts nothing.
func (r *Runner) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	done := make(chan struct{})
	go func() {
		r.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errStillBusy, ctx.Err())
	}
}

// sleep waits d, shortened by the scale. It reports false if ctx ended first.
func (r *Runner) sleep(ctx context.Context, d time.Duration) bool {
	d = time.Duration(float64(d) * r.options.WaitScale)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// random returns a number in [0, 1).
func random() float64 {
	const bits = 53 // of a float64's mantissa
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return float64(binary.LittleEndian.Uint64(b[:])>>(64-bits)) / (1 << bits)
}
