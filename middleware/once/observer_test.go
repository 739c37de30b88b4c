package once_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// deadStore is a ledger that can't be reached: a wrong table, no permission.
type deadStore struct {
	*memledger.Store
	err error
}

func (d deadStore) Load(context.Context, ledger.Key) (ledger.Record, error) {
	return ledger.Record{}, d.err
}

func (d deadStore) Apply(context.Context, ledger.Move) (ledger.Record, error) {
	return ledger.Record{}, d.err
}

func TestObserversAndOnlyTheySeeWhyTheLedgerCantBeReached(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(context.Context, *once.Bound[creditIn, credit]) once.Report{
		"invoke": func(ctx context.Context, b *once.Bound[creditIn, credit]) once.Report {
			return b.Do(ctx, call1, five).Report
		},
		"reconcile": func(ctx context.Context, b *once.Bound[creditIn, credit]) once.Report {
			return b.Reconcile(ctx, call1, five).Report
		},
		"close": func(ctx context.Context, b *once.Bound[creditIn, credit]) once.Report {
			return b.Close(ctx, call1).Report
		},
		"refused": func(ctx context.Context, b *once.Bound[creditIn, credit]) once.Report {
			negative := call1
			negative.Turn = -1
			return b.Do(ctx, negative, five).Report
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dead := deadStore{newStore(t), errors.New("canary: no such table")}
				var causes []error
				b := &bank{}
				g := newGuard(t, dead, func(o *once.Options) {
					o.Observers = []once.Observer{func(ctx context.Context, _ once.Call) (context.Context, func(once.Report, error)) {
						return ctx, func(_ once.Report, cause error) { causes = append(causes, cause) }
					}}
				})
				r := do(t.Context(), bind(t, g, b.tool(b.withLookUp)))
				if len(causes) != 1 || !errors.Is(causes[0], dead.err) {
					t.Errorf("observers saw %v", causes)
				}
				if r.Status != once.Refused || r.Effect != ledger.Unknown || strings.Contains(fmt.Sprintf("%+v", r), "canary") || b.runs.Load() != 0 {
					t.Errorf("answered %+v, ran %d times", r, b.runs.Load())
				}
			})
		})
	}
}

func TestObserversSeeTheToolsErrorBeforeTheStores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, failure := range []error{errors.New("wire cut"), nil} {
			store, b := newStore(t), &bank{}
			b.after = func(context.Context) error {
				for i := range 20 {
					store.Arm(memledger.Fault{Op: memledger.Apply, Nth: i + 1}, memledger.Fault{Op: memledger.Load, Nth: i + 1})
				}
				return failure
			}
			var cause error
			g := newGuard(t, store, func(o *once.Options) {
				o.Observers = []once.Observer{func(ctx context.Context, _ once.Call) (context.Context, func(once.Report, error)) {
					return ctx, func(_ once.Report, err error) { cause = err }
				}}
			})
			out := bind(t, g, b.tool()).Do(t.Context(), call1, five)
			want := failure
			if want == nil {
				want = memledger.ErrAnswerLost
			}
			if out.Code != "not_recorded" || !errors.Is(cause, want) {
				t.Errorf("%v: %+v, observers saw %v", failure, out.Report, cause)
			}
		}
	})
}
