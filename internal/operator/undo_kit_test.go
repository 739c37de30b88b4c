package operator_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/toolcall"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// bank is the receiver behind a real guard: it credits, and voids credits.
type bank struct {
	mu      sync.Mutex
	credits map[string]int // by the call's key
	voids   map[string]int // by the undo's key
	credit  func() error   // after the effect; nil is no error
	void    func() error   // instead of the effect; nil lets it happen
	voided  func() error   // after the effect
}

func (k *bank) did(of map[string]int, key ledger.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	of[key.String()]++
}

func (k *bank) count(of map[string]int) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, times := range of {
		n += times
	}
	return n
}

// functions invokes the guard's handler, and can lose what goes in or comes out.
type functions struct {
	handler lambda.Handler
	mu      sync.Mutex
	asked   int
	lose    func(mode once.Mode) (before, after bool) // nil loses nothing
}

var errLost = errors.New("connection reset")

func (f *functions) Invoke(ctx context.Context, tool string, payload []byte) ([]byte, error) {
	if tool != "issue_credit" && tool != "no_undo" {
		return nil, toolcall.ErrNoTool
	}
	e, err := once.DecodeEnvelope(payload)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	var before, after bool
	if f.lose != nil {
		before, after = f.lose(e.Mode)
	}
	if e.Mode == once.ModeCompensate {
		f.asked++
	}
	f.mu.Unlock()
	if before {
		return nil, errLost
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	out, err := f.handler.Invoke(ctx, payload)
	if after {
		return nil, errLost
	}
	return out, err
}

// vault is a bench with a bank behind a guard.
type vault struct {
	*bench
	bank      *bank
	functions *functions
}

func newVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{bench: newBench(t), bank: &bank{credits: map[string]int{}, voids: map[string]int{}}}
	guard, err := once.New(v.store, &once.Options{Clock: func() time.Time { return v.now }, JoinFor: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	tool := once.Tool[creditIn, credit]{
		Name: "issue_credit", Class: once.External, Permission: "credits:write", Timeout: 10 * time.Second,
		ExternalID: func(c credit) string { return c.CreditID },
		Run: func(ctx context.Context, _ creditIn) (credit, error) {
			v.bank.did(v.bank.credits, keyIn(ctx))
			if v.bank.credit != nil {
				return credit{}, v.bank.credit()
			}
			return credit{CreditID: "cr_9"}, nil
		},
		Compensate: func(ctx context.Context, rec ledger.Record, in creditIn) error {
			if in.AmountCents != 2500 || rec.Key.CallID == keyIn(ctx).CallID {
				t.Errorf("undo %s of %s with %+v", keyIn(ctx), rec.Key, in.AmountCents)
			}
			if v.bank.void != nil {
				if err := v.bank.void(); err != nil {
					return err
				}
			}
			v.bank.did(v.bank.voids, keyIn(ctx))
			if v.bank.voided != nil {
				return v.bank.voided()
			}
			return nil
		},
		Downstream: once.Downstream{SettleDelay: time.Minute},
	}
	other := tool
	other.Name, other.Compensate = "no_undo", nil
	handler, err := guard.Handler(tool, other)
	if err != nil {
		t.Fatal(err)
	}
	v.functions = &functions{handler: handler}
	v.service = v.serviceWith(t, func(cfg *operator.Config) { cfg.Tools = v.functions })
	return v
}

func keyIn(ctx context.Context) ledger.Key { return once.CallFrom(ctx).Key }

// called runs the call c1 through the guard and returns its record.
func (v *vault) called(t *testing.T) ledger.Record {
	t.Helper()
	v.turn(t, nil, "c1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := v.functions.handler.Invoke(ctx, []byte(invocation)); err != nil {
		t.Fatal(err)
	}
	return v.at(t, "c1")
}

// lostTrack runs the call so that nobody knows whether it took effect.
func (v *vault) lostTrack(t *testing.T) ledger.Record {
	t.Helper()
	v.bank.credit = func() error { return errors.New("the answer was lost") }
	r := v.called(t)
	if r.Status != ledger.Indeterminate {
		t.Fatalf("the call is %s", r.State())
	}
	return r
}

func (v *vault) at(t *testing.T, id string) ledger.Record {
	t.Helper()
	return v.stored(t, ledger.Record{Key: ledger.Key{Tenant: "acme", RunID: "run-1", CallID: id}})
}

func undo(r ledger.Record, key string) operator.Compensation {
	return operator.Compensation{Command: operator.Command{Key: r.Key.String(), Reason: "credited the wrong customer", ExpectedVersion: r.Version, IdempotencyKey: key}}
}
