// Package once guards a tool call so that its effect happens once: the call is
// written to a ledger before it runs, a repeat is answered from there, and an
// outcome that nobody knows is never tried again by itself. It does not make
// delivery exactly-once; the receiver must honour a key or be queryable. Start
// with [Tool], then [New], then [Guard.Handler] or [Bind].
package once

import (
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// The defaults of [Options].
const (
	defaultReserve = 2 * time.Second
	defaultJoinFor = 5 * time.Second
)

// Options tunes a [Guard]. The zero value is right for most.
type Options struct {
	// Retention bounds how late a call may arrive after its run began. The store
	// must keep settled records for its total at least, or such a call could run
	// again; [New] compares them if the store has a method Retention that returns
	// a [time.Duration], as dynamoledger's has. Defaults to
	// [ledger.DefaultRetention].
	Retention ledger.Retention

	// Reserve is kept of the caller's time for storing what became of a call.
	// Defaults to 2 s.
	Reserve time.Duration

	// JoinFor bounds the wait for somebody else's attempt. Defaults to 5 s.
	JoinFor time.Duration

	// Observers watch each call; the first listed is outermost. Defaults to none.
	Observers []Observer

	// Clock replaces time.Now for what is stored and compared; timers run on
	// real time. Inside a synctest bubble leave it nil.
	Clock func() time.Time
}

// Guard runs tools against one ledger. It is safe for concurrent use.
type Guard struct {
	store ledger.Store
	opts  Options
}

// New returns a guard on store, or an error that names every wrong option. It
// sends nothing; opts may be nil.
func New(store ledger.Store, opts *Options) (*Guard, error) {
	g := &Guard{store: store}
	if opts != nil {
		g.opts = *opts
	}
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("once: Options.%s: %s", field, fmt.Sprintf(format, args...)))
	}
	if store == nil {
		errs = append(errs, errors.New("once: New: store is nil"))
	}
	if g.opts.Reserve < 0 {
		bad("Reserve", "is %v; want more than 0, or 0 for %v", g.opts.Reserve, defaultReserve)
	}
	if g.opts.JoinFor < 0 {
		bad("JoinFor", "is %v; want more than 0, or 0 for %v", g.opts.JoinFor, defaultJoinFor)
	}
	r := g.opts.Retention
	if r.LongestRun < 0 || r.RetryWindow < 0 || r.QueueDelay < 0 || r.ManualRecovery < 0 {
		bad("Retention", "has a negative part: %+v", r)
	}
	if r != (ledger.Retention{}) && r.LongestRun == 0 {
		bad("Retention.LongestRun", "is 0; records would be forgotten while their run goes on")
	}
	for i, o := range g.opts.Observers {
		if o == nil {
			bad("Observers", "number %d is nil", i)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	g.fillIn()
	if s, ok := store.(interface{ Retention() time.Duration }); ok && s.Retention() < g.opts.Retention.Total() {
		bad("Retention", "is %v in all, longer than the store keeps a record, %v", g.opts.Retention.Total(), s.Retention())
		return nil, errors.Join(errs...)
	}
	return g, nil
}

func (g *Guard) fillIn() {
	if g.opts.Retention == (ledger.Retention{}) {
		g.opts.Retention = ledger.DefaultRetention()
	}
	if g.opts.Reserve == 0 {
		g.opts.Reserve = defaultReserve
	}
	if g.opts.JoinFor == 0 {
		g.opts.JoinFor = defaultJoinFor
	}
	if g.opts.Clock == nil {
		g.opts.Clock = time.Now
	}
	g.opts.Observers = append([]Observer(nil), g.opts.Observers...)
}
