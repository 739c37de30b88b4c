package operator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

// hung answers some requests only when their time is over.
type hung struct {
	*memledger.Store
	load, apply, unsettled, waits, tool, ring bool
}

func wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (h *hung) Load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	if h.load {
		return ledger.Record{}, wait(ctx)
	}
	return h.Store.Load(ctx, key)
}

func (h *hung) Apply(ctx context.Context, m ledger.Move) (ledger.Record, error) {
	if h.apply {
		return ledger.Record{}, wait(ctx)
	}
	return h.Store.Apply(ctx, m)
}

func (h *hung) Unsettled(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	if h.unsettled {
		return ledger.Page{}, wait(ctx)
	}
	return h.Store.Unsettled(ctx, q)
}

func (h *hung) Waits(ctx context.Context, key ledger.Key) ([]ledger.Wait, error) {
	if h.waits {
		return nil, wait(ctx)
	}
	return h.Store.Waits(ctx, key)
}

func (h *hung) Ring(ctx context.Context, _ ledger.Secret) error {
	if h.ring {
		return wait(ctx)
	}
	return nil
}

// Invoke plays a tool after which the ledger hangs, or one that hangs itself.
func (h *hung) Invoke(ctx context.Context, _ string, _ []byte) ([]byte, error) {
	if h.tool {
		return nil, wait(ctx)
	}
	h.load = true
	return []byte(`{"onceward":1,"status":"indeterminate"}`), nil
}

func TestARequestThatHangsEndsInAnAnswerBeforeTheFunctionIsStopped(t *testing.T) {
	t.Parallel()
	resolve := func(ctx context.Context, s *operator.Service, r ledger.Record) error {
		got, err := s.Resolve(ctx, ops, failed(r, ""))
		if err == nil && got.RunWaiting != operator.NotWokenYet {
			t.Errorf("run waiting %q", got.RunWaiting)
		}
		return err
	}
	reconcile := func(ctx context.Context, s *operator.Service, _ ledger.Record) error {
		_, err := s.Reconcile(ctx, ops, operator.Inquiry{Key: "run-1:c1"})
		return err
	}
	list := func(ctx context.Context, s *operator.Service, _ ledger.Record) error {
		_, err := s.List(ctx, ops, operator.Filter{})
		return err
	}
	show := func(ctx context.Context, s *operator.Service, _ ledger.Record) error {
		_, err := s.Show(ctx, ops, "run-1:c1")
		return err
	}
	for name, tt := range map[string]struct {
		hung hung
		ask  func(context.Context, *operator.Service, ledger.Record) error
		want operator.Code // "" for none
	}{
		"list":                             {hung{unsettled: true}, list, operator.Unavailable},
		"show":                             {hung{load: true}, show, operator.Unavailable},
		"show, waits":                      {hung{waits: true}, show, operator.Unavailable},
		"resolve, read":                    {hung{load: true}, resolve, operator.Unavailable},
		"resolve, write":                   {hung{apply: true}, resolve, operator.OutcomeUnknown},
		"resolve, bell":                    {hung{ring: true}, resolve, ""},
		"resolve, waits":                   {hung{waits: true}, resolve, ""},
		"reconcile, tool":                  {hung{tool: true}, reconcile, operator.LookUpFailed},
		"reconcile, what the tool stored":  {hung{}, reconcile, operator.OutcomeUnknown},
		"reconcile, nothing was asked yet": {hung{load: true}, reconcile, operator.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				r := b.unknown(t, "c1")
				b.park(t, r, "w1")
				h := tt.hung
				h.Store = b.store
				service, err := operator.New(operator.Config{Store: &h, Waits: &h, Runs: b.runs, Bell: &h, Tools: &h, Launcher: noLauncher{}, Now: func() time.Time { return b.now }})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 29*time.Second)
				defer cancel()
				err = tt.ask(ctx, service, r)
				if ctx.Err() != nil {
					t.Error("no time is left to answer in")
				}
				if tt.want != "" {
					wantProblem(t, err, tt.want)
				} else if err != nil {
					t.Error(err)
				}
			})
		})
	}
}
