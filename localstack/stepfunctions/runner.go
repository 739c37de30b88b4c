// Package stepfunctions is a local AWS Step Functions for Standard machines in
// the JSONPath subset that package asl reads. A Runner runs executions by AWS's
// documented rules for retries, timeouts, maps, task tokens and redrives; with a
// directory it stores each step before it takes effect, and after a kill the next
// Runner goes on. Its Handler speaks the service's JSON 1.0 protocol. What it
// does not know it refuses by name. Start at New.
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
	// Data is the directory of the journals, made if it is missing; one Runner at
	// a time can use it. What an answer tells of has been written then and
	// outlives the process, however that ends; nothing is forced to the disk, so
	// a crash of the machine itself may cost the newest steps. Histories of
	// executions that have ended stay there only. Default: all is kept in memory
	// and nothing outlives the Runner.
	Data string
	// Ended hears of each execution that becomes FAILED, TIMED_OUT or ABORTED,
	// after that is stored, in a goroutine of its own; a kill between the two
	// loses the news. It should return soon: Close waits for it. Default: nobody
	// is told.
	Ended func(StatusChange)
}

var (
	errNoInvoker = errors.New("stepfunctions: an Invoker is required")
	errWaitScale = errors.New("stepfunctions: WaitScale must be above 0 and at most 1")
	errAccount   = errors.New("stepfunctions: Account must have 12 digits")
	errStillBusy = errors.New("stepfunctions: work is still running")
)

// Runner keeps state machines and runs executions of them in goroutines that
// it owns. It is safe for concurrent use; Close ends it. An execution whose
// journal can't be written stands still, and what would have had to be stored
// is answered with an error; a new Runner on the directory lets it go on.
type Runner struct {
	invoker     Invoker
	options     Options
	interpreter *interpreter.Interpreter
	tokens      *tokens
	store       *store
	maxOpen     int

	// spawn runs f in a goroutine that Close waits for; its context ends then.
	spawn  func(f func(context.Context))
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	machines   map[string]*machine   // by ARN
	executions map[string]*execution // by ARN
	order      []*execution          // as started
	serial     int64                 // of the last start
	open       int                   // running executions
}

// maxOpen is how many executions of an account can run at once on AWS.
const maxOpen = 1_000_000

// New returns a Runner whose Lambda tasks go to invoker. options may be nil.
// With Options.Data it knows all that the last one on the directory did;
// executions that run stand still until Recover. A directory that another
// Runner uses, that another version wrote or that is damaged is an error.
func New(invoker Invoker, options *Options) (*Runner, error) {
	if invoker == nil {
		return nil, errNoInvoker
	}
	o, err := withDefaults(options)
	if err != nil {
		return nil, err
	}
	r := &Runner{
		invoker: invoker, options: o, tokens: &tokens{open: map[string]*waiter{}}, maxOpen: maxOpen,
		machines: map[string]*machine{}, executions: map[string]*execution{},
		interpreter: &interpreter.Interpreter{
			Random: random,
			UUID:   uuid.NewString,
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.spawn = func(f func(context.Context)) { r.work.Go(func() { f(ctx) }) }
	if err := r.load(); err != nil {
		return nil, err
	}
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
	var err error
	go func() {
		defer close(done)
		r.work.Wait()
		err = r.store.close()
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errStillBusy, ctx.Err())
	}
}

func (r *Runner) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// random returns a number in [0, 1).
func random() float64 {
	const bits = 53 // of a float64's mantissa
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return float64(binary.LittleEndian.Uint64(b[:])>>(64-bits)) / (1 << bits)
}
