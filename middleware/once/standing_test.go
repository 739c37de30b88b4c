package once_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// defaulting makes the tool credit so many cents where none are named.
func defaulting(cents int64) func(*once.Tool[creditIn, credit]) {
	return func(t *once.Tool[creditIn, credit]) {
		t.Normalize = func(in *creditIn) error {
			if in.Cents == 0 {
				in.Cents = cents
			}
			return nil
		}
	}
}

// The deploys after which the same raw arguments come to something else.
var deploys = map[string]func(*once.Tool[creditIn, credit]){
	"another default":  defaulting(1000),
	"a raised version": func(t *once.Tool[creditIn, credit]) { defaulting(10)(t); t.Version = 1 },
}

const bareCredit = `{"account":"A1"}`

func bare(mode string, changes ...string) string {
	return envelope(mode, append(changes, `{"account":"A1","cents":5}`, bareCredit)...)
}

func TestApprovalStartsOnlyTheArgumentsThatThePersonSaw(t *testing.T) {
	t.Parallel()
	for name, deploy := range deploys {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, b := newStore(t), &bank{}
			g := newGuard(t, store)
			approval := func(t *once.Tool[creditIn, credit]) { t.ApproveWithin = time.Hour }
			before := handlerOf(t, g, b.tool(approval, defaulting(10)))
			after := handlerOf(t, g, b.tool(approval, deploy))
			ask(t.Context(), t, before, bare("invoke"))
			for range 2 { // each approval of what is not meant is taken back
				approver(t, store, time.Now)(true)
				a := ask(t.Context(), t, after, bare("invoke"))
				if a.Status != once.ApprovalRequired || a.Effect != ledger.NoEffect || a.Next != ledger.Park || !strings.Contains(a.Error.Message, "deny") {
					t.Errorf("got %+v", a)
				}
				rec := record(t, store, call1.Key())
				if rec.Flags.Has(ledger.Approved) || !rec.NeedsSomebody(time.Now()) || len(rec.Evidence) != 1 || b.runs.Load() != 0 {
					t.Errorf("ran %d, stands %s, evidence %+v", b.runs.Load(), rec.State(), rec.Evidence)
				}
			}
			approver(t, store, time.Now)(true)
			if a := ask(t.Context(), t, before, bare("invoke")); a.Status != once.Completed || b.runs.Load() != 1 {
				t.Errorf("rolled back: %+v", a)
			}
			if a := ask(t.Context(), t, after, bare("invoke")); a.Status != once.Completed || !a.Replayed {
				t.Errorf("a repeat after the deploy: %+v", a)
			}
		})
	}
}

func TestGrantOrNextAttemptStartsOnlyTheArgumentsThatFailed(t *testing.T) {
	t.Parallel()
	for name, deploy := range deploys {
		for _, granted := range []bool{true, false} {
			t.Run(name+map[bool]string{true: " and a grant"}[granted], func(t *testing.T) {
				t.Parallel()
				store, b := newStore(t), &bank{before: func(context.Context) error { return once.NotAttempted(errors.New("locked")) }}
				if granted {
					b.before, b.after = nil, func(context.Context) error { return errors.New("lost") }
				}
				g := newGuard(t, store)
				before, after := handlerOf(t, g, b.tool(defaulting(10))), handlerOf(t, g, b.tool(deploy))
				ask(t.Context(), t, before, bare("invoke"))
				if granted {
					decide(t, store, "grant", ledger.Settlement{Effect: ledger.NoEffect, Retryable: true, Code: "resolved_failed"})
				}
				b.before, b.after = nil, nil
				next := bare("invoke", `"attempt":1`, `"attempt":2`)
				for range 2 {
					a := ask(t.Context(), t, after, next)
					if a.Status != once.Failed || a.Next != ledger.Done || b.runs.Load() != 1 || granted != strings.Contains(a.Error.Message, "withdraw") {
						t.Errorf("ran %d: %+v", b.runs.Load(), a)
					}
				}
				if rec := record(t, store, call1.Key()); granted != (len(rec.Evidence) == 1) || rec.Flags.Has(ledger.Granted) != granted {
					t.Errorf("stands %s, evidence %+v", rec.State(), rec.Evidence)
				}
				if a := ask(t.Context(), t, before, next); a.Status != once.Completed || b.runs.Load() != 2 {
					t.Errorf("as it was: %+v", a)
				}
			})
		}
	}
}

// altered is a ledger of which somebody has changed records by hand.
type altered struct {
	*memledger.Store
	alter func(*ledger.Record)
}

func (s altered) Load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	rec, err := s.Store.Load(ctx, key)
	s.alter(&rec)
	return rec, err
}

func (s altered) Apply(ctx context.Context, m ledger.Move) (ledger.Record, error) {
	rec, err := s.Store.Apply(ctx, m)
	if errors.Is(err, ledger.ErrStale) {
		s.alter(&rec)
	}
	return rec, err
}

func TestSettledRecordWithoutAToolIsCorruptUnlessTheCallWasClosedUnseen(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	ask(t.Context(), t, handlerOf(t, newGuard(t, store), b.tool()), envelope("invoke"))
	damaged := handlerOf(t, newGuard(t, altered{store, func(r *ledger.Record) { r.Tool = "" }}), b.tool(b.withLookUp))
	for _, mode := range []string{"invoke", "reconcile", "close"} {
		if a := ask(t.Context(), t, damaged, envelope(mode)); a.Status != once.Refused || a.Error.Code != "corrupt_record" || a.Effect != ledger.Unknown || a.Result != nil {
			t.Errorf("%s: %+v", mode, a)
		}
	}
	ask(t.Context(), t, damaged, envelope("close", "c1", "c2"))
	if a := ask(t.Context(), t, damaged, envelope("invoke", "c1", "c2")); a.Status != once.Failed || a.Error.Code != "closed" || b.runs.Load() != 1 {
		t.Errorf("closed unseen: %+v", a)
	}
}

func TestStoredResultThatIsNoJSONIsAnsweredAsNotKept(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	ask(t.Context(), t, handlerOf(t, newGuard(t, store), b.tool()), envelope("invoke"))
	g := newGuard(t, altered{store, func(r *ledger.Record) { r.Outcome.Result = []byte(`{"id":`) }})
	a := ask(t.Context(), t, handlerOf(t, g, b.tool()), envelope("invoke"))
	if a.Status != once.Completed || a.Effect != ledger.Happened || a.Result != nil || a.ModelSays != "This call took effect. Its result was not kept." {
		t.Errorf("got %+v", a)
	}
	if _, err := bind(t, g, b.tool()).Do(t.Context(), call1, five).Value(); !errors.Is(err, once.Completed) {
		t.Errorf("in this process: %v", err)
	}
}

func TestKeyOfAnUndoCannotBeInvoked(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	g := newGuard(t, store)
	for _, id := range []string{"c1~undo1", "~t3-1~undo2"} {
		a := ask(t.Context(), t, handlerOf(t, g, b.tool()), envelope("invoke", `"c1"`, `"`+id+`"`))
		if a.Status != once.Refused || a.Error.Code != "not_supported" || a.Effect != ledger.NoEffect || a.Next != ledger.Done {
			t.Errorf("%s: %+v", id, a)
		}
		req := call1
		req.CallID = id
		want(t, bind(t, g, b.tool()).Do(t.Context(), req, five).Report, once.Refused, ledger.NoEffect, ledger.Done, "not_supported")
		if record(t, store, req.Key()).Exists() || b.runs.Load() != 0 {
			t.Error("its key is taken")
		}
	}
}

// shortlived keeps records no longer than it says.
type shortlived struct {
	ledger.Store
	keeps time.Duration
}

func (s shortlived) Retention() time.Duration { return s.keeps }

// Proves: R133
func TestGuardRefusesAStoreThatForgetsBeforeCallsStopComing(t *testing.T) {
	t.Parallel()
	total := ledger.DefaultRetention().Total()
	for _, more := range []time.Duration{-time.Second, 0, time.Second} {
		_, err := once.New(shortlived{newStore(t), total + more}, nil)
		if (err == nil) != (more >= 0) || err != nil && !strings.Contains(err.Error(), "Options.Retention") {
			t.Errorf("keeps %v more: %v", more, err)
		}
	}
	if _, err := once.New(shortlived{newStore(t), total}, &once.Options{Retention: ledger.Retention{LongestRun: 365 * 24 * time.Hour}}); err == nil {
		t.Error("a year over a store of 46 days")
	}
}
