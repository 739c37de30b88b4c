package once

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// Request says who asks for a call. RunID and CallID are required and must be
// the same on every repeat.
type Request struct {
	Tenant       string
	RunID        string
	RunStartedAt time.Time // bounds how late a call may arrive; zero is taken to be on time
	ParentRunID  string
	Agent        string
	CallID       string
	Turn         int
	Attempt      int    // defaults to 1; 2 says "nobody was told that 1 failed"
	Execution    string // that asks, for tracing only
	Subject      string
	Permissions  []string
	Policy       ledger.Policy // about a call that stays unknown; defaults to ledger.Pause
}

// Key returns the key of the call that the request asks for.
func (r Request) Key() ledger.Key {
	return ledger.Key{Tenant: r.Tenant, RunID: r.RunID, CallID: r.CallID}
}

// Call is a request that the guard let through, as its handler sees it.
type Call struct {
	Request
	Tool     string
	Class    Class
	Key      ledger.Key // pass Key.String() to the receiver
	Deadline time.Time  // send nothing after it; zero for observers, who see the call before it starts
}

type callKey struct{}

// attempt is what a guarded context carries.
type attempt struct {
	call   Call
	clock  func() time.Time
	lookUp bool         // may only read
	writes atomic.Int64 // of this attempt, which may have left
}

func (a *attempt) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, callKey{}, a)
}

// CallFrom returns the call that ctx belongs to, in a tool's Run or Reconcile.
// It panics outside a guarded call: an effect without its key must not leave
// the process.
func CallFrom(ctx context.Context) Call {
	a, ok := ctx.Value(callKey{}).(*attempt)
	if !ok {
		panic("once: CallFrom: context does not come from a guarded call")
	}
	return a.call
}
