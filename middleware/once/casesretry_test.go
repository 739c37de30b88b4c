package once_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
	"github.com/onceward/onceward/middleware/once/oncetest"
)

// Each row is a tool whose answer is lost, and what a repeat may then do.
// Proves: R68, R69
func TestWhetherACallIsTriedAgainFollowsFromWhatItsToolDeclares(t *testing.T) {
	t.Parallel()
	for _, class := range []once.Class{once.Write, once.External, once.Destructive} {
		for _, c := range []struct {
			name   string
			tool   once.Tool[creditIn, credit]
			landed bool
			after  time.Duration
			denied bool
			status once.Status
			next   ledger.Next
			code   string
			runs   int64 // once somebody names attempt 2
		}{
			{"nothing is declared", once.Tool[creditIn, credit]{}, true, time.Hour, false, once.Indeterminate, ledger.Park, "outcome_unknown", 1},
			{"keys are honoured", once.Tool[creditIn, credit]{Downstream: once.Downstream{KeyWindow: 24 * time.Hour}}, true, time.Hour, false, once.Indeterminate, ledger.Park, "outcome_unknown", 1},
			{"it can be looked up, and is there", once.Tool[creditIn, credit]{ReconcileByKey: true}, true, time.Hour, false, once.Completed, ledger.Done, "", 1},
			{"it can be looked up, and is not there", once.Tool[creditIn, credit]{ReconcileByKey: true}, false, time.Hour, false, once.Indeterminate, ledger.Park, "outcome_unknown", 1},
			{"absence is proof, too early", once.Tool[creditIn, credit]{ReconcileByKey: true, Downstream: once.Downstream{AbsenceIsProof: true}}, false, 30 * time.Second, false, once.Indeterminate, ledger.Look, "outcome_unknown", 1},
			{"absence is proof", once.Tool[creditIn, credit]{ReconcileByKey: true, Downstream: once.Downstream{AbsenceIsProof: true}}, false, time.Hour, false, once.Failed, ledger.Done, "absent", 2},
			{"absence is proof, the key has lapsed", once.Tool[creditIn, credit]{ReconcileByKey: true, Downstream: once.Downstream{AbsenceIsProof: true, KeyWindow: 30 * time.Minute}}, false, time.Hour, false, once.Failed, ledger.Done, "absent", 1},
			{"the permission is gone", once.Tool[creditIn, credit]{ReconcileByKey: true, Downstream: once.Downstream{AbsenceIsProof: true}}, false, time.Hour, true, once.Refused, ledger.Inspect, "not_authorised", 1},
		} {
			t.Run(string(class)+", "+c.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := &bank{}
					if c.landed {
						b.after = lost
					} else {
						b.before = lost
					}
					allowed := true
					tool := c.tool
					tool.Name, tool.Class, tool.Run = "issue_credit", class, b.run
					tool.Authorize = func(context.Context, once.Request, creditIn) error {
						if !allowed {
							return errors.New("revoked")
						}
						return nil
					}
					if tool.ReconcileByKey {
						tool.Reconcile = b.find
					}
					bound := bind(t, newGuard(t, newStore(t)), tool)
					bound.Do(t.Context(), call1, five)
					time.Sleep(c.after) // in the bubble's time
					allowed = !c.denied
					if out := bound.Do(t.Context(), call1, five); out.Status != c.status || out.Next != c.next || out.Code != c.code || b.runs.Load() != 1 {
						t.Errorf("a repeat: %+v, ran %d times", out.Report, b.runs.Load())
					}
					b.before, b.after = nil, nil
					named := call1
					named.Attempt = 2
					bound.Do(t.Context(), named, five)
					if b.runs.Load() != c.runs || b.effects.Load() > 1 {
						t.Errorf("with attempt 2 named: ran %d times, want %d; effects %d", b.runs.Load(), c.runs, b.effects.Load())
					}
				})
			})
		}
	}
	for name, c := range map[string]struct {
		attempts int
		err      error
		runs     int64
	}{
		"a read":                     {0, errors.New("reset"), 3},
		"a read with one attempt":    {1, errors.New("reset"), 1},
		"a read that is refused":     {0, once.Rejected(errors.New("no such order")), 1},
		"a read that was never sent": {0, once.NotAttempted(errors.New("dial")), 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &bank{before: func(context.Context) error { return c.err }}
				out := bind(t, newGuard(t, newStore(t)), b.tool(func(t *once.Tool[creditIn, credit]) { t.Class, t.Attempts = once.Read, c.attempts })).Do(t.Context(), call1, five)
				if out.Status != once.Failed || b.runs.Load() != c.runs {
					t.Errorf("%+v, ran %d times, want %d", out.Report, b.runs.Load(), c.runs)
				}
			})
		})
	}
}

// Proves: R70
func TestRetryThatAModelAsksForRunsNothingUnderTheSameKey(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{
		"after an unknown outcome": errors.New("reset"),
		"after it took effect":     nil,
		"after a refusal":          once.Rejected(errors.New("no")),
		"after nothing was sent":   once.NotAttempted(errors.New("expired")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bank{after: func(context.Context) error { return end }}
			h := handlerOf(t, newGuard(t, newStore(t)), b.tool())
			ask(t.Context(), t, h, envelope("invoke"))
			b.after = nil
			for _, payload := range []string{
				envelope("invoke"),
				envelope("invoke", `"turn":3`, `"turn":4`),
				envelope("invoke", `"cents":5`, `"cents":6`),
				envelope("invoke", `"arguments":{"account":"A1","cents":5}`, `"arguments":{"account":"A1","cents":5,"note":"please retry"}`),
				envelope("invoke", `"run":{"id":"r1"}`, `"run":{"id":"r1","agent":"the-fallback"}`),
				envelope("reconcile"),
				envelope("close"),
				envelope("invoke"),
			} {
				ask(t.Context(), t, h, payload)
			}
			if b.runs.Load() != 1 {
				t.Errorf("ran %d times", b.runs.Load())
			}
		})
	}
}

// There is no switch of a tool that takes a write past the ledger.
// Proves: R72, R73
func TestNoSwitchTakesAWritePastTheLedger(t *testing.T) {
	t.Parallel()
	var switches []int
	of := reflect.TypeFor[once.Tool[creditIn, credit]]()
	for i := range of.NumField() {
		if of.Field(i).Type.Kind() == reflect.Bool {
			switches = append(switches, i)
		}
	}
	bound := 0
	for _, class := range []once.Class{once.Write, once.External, once.Destructive} {
		for set := range 1 << len(switches) {
			store, b := newStore(t), &bank{}
			tool := b.tool(b.withLookUp, func(t *once.Tool[creditIn, credit]) { t.Class = class })
			for n, field := range switches {
				reflect.ValueOf(&tool).Elem().Field(field).SetBool(set&(1<<n) != 0)
			}
			checked, err := once.Bind(newGuard(t, store), tool)
			if err != nil {
				continue // refused at start-up
			}
			bound++
			checked.Do(t.Context(), call1, five)
			checked.Do(t.Context(), call1, five)
			if rec := record(t, store, call1.Key()); rec.Status != ledger.Completed || rec.Class != string(class) || b.effects.Load() != 1 {
				t.Errorf("%s with %b of %d switches: %s, effects %d", class, set, len(switches), rec.State(), b.effects.Load())
			}
		}
	}
	if len(switches) == 0 || bound == 0 {
		t.Errorf("%d switches, %d tools", len(switches), bound)
	}
}

// Proves: R19, R83
func TestGrantedSecondAttemptCarriesTheFirstOnesKeySoThatTheReceiverPaysOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault   oncetest.Fault
		effects int // of the first attempt
	}{{oncetest.LoseAnswer, 1}, {oncetest.FailAfter, 1}, {oncetest.DropRequest, 0}} {
		t.Run(c.fault.String(), func(t *testing.T) {
			t.Parallel()
			store, r := newStore(t), oncetest.NewReceiver(t)
			r.Next(c.fault)
			client := r.Client()
			tool := once.Tool[struct{}, int]{Name: "send", Class: once.External, Run: func(ctx context.Context, _ struct{}) (int, error) {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+"/credits", strings.NewReader(`{"cents":5}`))
				if err != nil {
					return 0, once.NotAttempted(err)
				}
				resp, err := client.Do(req)
				if err != nil {
					return 0, err
				}
				if resp.StatusCode >= http.StatusInternalServerError {
					return 0, errors.Join(errors.New(resp.Status), resp.Body.Close())
				}
				return resp.StatusCode, resp.Body.Close()
			}}
			bound := bind(t, newGuard(t, store), tool)
			want(t, bound.Do(t.Context(), call1, struct{}{}).Report, once.Indeterminate, ledger.Unknown, ledger.Park, "outcome_unknown")
			if r.Effects() != c.effects {
				t.Fatalf("effects %d", r.Effects())
			}
			decide(t, store, "d1", ledger.Settlement{Effect: ledger.NoEffect, Retryable: true}) // and may be wrong
			want(t, bound.Do(t.Context(), call1, struct{}{}).Report, once.Completed, ledger.Happened, ledger.Done, "")
			if r.Effects() != 1 || r.Sends() != 2 || strings.Join(r.Keys(), " ") != "acme/r1:c1" {
				t.Errorf("effects %d, sends %d, keys %q", r.Effects(), r.Sends(), r.Keys())
			}
		})
	}
}

// notebook is a receiver that knows no idempotency keys. It keeps what it is
// given under the name that it is given, if any.
type notebook struct {
	entries map[string]string // by name
	made    int
}

// Proves: R20, R83
func TestKeyThatWasStoredWithTheEffectFindsItAgain(t *testing.T) {
	t.Parallel()
	n := &notebook{entries: map[string]string{}}
	tool := once.Tool[creditIn, credit]{
		Name: "issue_credit", Class: once.External,
		Run: func(ctx context.Context, in creditIn) (credit, error) {
			n.made++ // it would make a second one
			n.entries[once.CallFrom(ctx).Key.Short()] = "credit for " + in.Account
			return credit{}, errors.New("connection reset")
		},
		Reconcile: func(_ context.Context, rec ledger.Record, _ creditIn) (credit, bool, error) {
			text, ok := n.entries[rec.Key.Short()]
			return credit{ID: text}, ok, nil
		},
	}
	bound := bind(t, newGuard(t, newStore(t)), tool)
	bound.Do(t.Context(), call1, five)
	other := call1
	other.CallID = "c2"
	want(t, bound.Do(t.Context(), other, creditIn{Account: "B2"}).Report, once.Indeterminate, ledger.Unknown, ledger.Look, "outcome_unknown")
	for account, req := range map[string]once.Request{"A1": call1, "B2": other} {
		in := creditIn{Account: account}
		if account == "A1" {
			in = five
		}
		if c, err := bound.Do(t.Context(), req, in).Value(); err != nil || c.ID != "credit for "+account {
			t.Errorf("%s: found %v, %v", account, c, err)
		}
	}
	if n.made != 2 {
		t.Errorf("%d entries of 2 calls", n.made)
	}
}

// Proves: R21
func TestUpsertUnderANaturalKeyTakesEffectOnceForEveryAttempt(t *testing.T) {
	t.Parallel()
	store, n := newStore(t), &notebook{entries: map[string]string{}}
	end := errors.New("connection reset")
	tool := once.Tool[creditIn, credit]{
		Name: "set_limit", Class: once.External,
		Run: func(_ context.Context, in creditIn) (credit, error) {
			n.made++
			n.entries["limit of "+in.Account] = "5"
			return credit{ID: in.Account}, end
		},
	}
	bound := bind(t, newGuard(t, store), tool)
	want(t, bound.Do(t.Context(), call1, five).Report, once.Indeterminate, ledger.Unknown, ledger.Park, "outcome_unknown")
	decide(t, store, "d1", ledger.Settlement{Effect: ledger.NoEffect, Retryable: true})
	end = nil
	want(t, bound.Do(t.Context(), call1, five).Report, once.Completed, ledger.Happened, ledger.Done, "")
	if n.made != 2 || len(n.entries) != 1 {
		t.Errorf("sent %d times, %d entries", n.made, len(n.entries))
	}
}

// Proves: R100
func TestLedgerIsBelievedWhileTheReceiverDoesNotShowTheEffectYet(t *testing.T) {
	t.Parallel()
	b := &bank{}
	store := newStore(t)
	looks := 0
	tool := b.tool(func(t *once.Tool[creditIn, credit]) {
		t.Downstream.AbsenceIsProof = true
		t.Reconcile = func(context.Context, ledger.Record, creditIn) (credit, bool, error) {
			looks++
			return credit{}, false, nil // the receiver's index lags behind
		}
	})
	bound := bind(t, newGuard(t, store), tool)
	bound.Do(t.Context(), call1, five)
	for range 3 {
		for _, out := range []once.Outcome[credit]{bound.Do(t.Context(), call1, five), bound.Reconcile(t.Context(), call1, five)} {
			want(t, out.Report, once.Completed, ledger.Happened, ledger.Done, "")
			if c, err := out.Value(); err != nil || c.ID != "cr_A1" {
				t.Errorf("got %v, %v", c, err)
			}
		}
	}
	if looks != 0 || b.effects.Load() != 1 || record(t, store, call1.Key()).Version != 2 {
		t.Errorf("%d look-ups, %d effects, version %d", looks, b.effects.Load(), record(t, store, call1.Key()).Version)
	}
}

// repayment is a step whose key is a function of its input.
type repayment struct {
	Execution string `json:"execution"`
	Order     string `json:"order"`
	Cents     int    `json:"cents"`
}

// Two intents that differ and share a key are a conflict, and nobody's result is
// given to the other.
// Proves: R7, R8, R9, R16
func TestStepsKeyMayBeAFunctionOfItsInput(t *testing.T) {
	t.Parallel()
	paid := map[string]int{}
	store := newStore(t)
	step := func() func(context.Context, repayment) (string, error) { // each in a process of its own
		f, err := once.Wrap(newGuard(t, store), once.Tool[repayment, string]{Name: "refund", Class: once.External, Run: func(ctx context.Context, in repayment) (string, error) {
			paid[once.CallFrom(ctx).Key.String()] += in.Cents
			return "refunded " + in.Order, nil
		}}, func(_ context.Context, in repayment) (once.Request, error) {
			return once.Request{RunID: in.Execution, CallID: "refund." + in.Order}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for range 3 {
		for _, in := range []repayment{{"exec-1", "O-1", 5}, {"exec-1", "O-2", 5}, {"exec-2", "O-1", 5}} {
			if text, err := step()(t.Context(), in); err != nil || text != "refunded "+in.Order {
				t.Errorf("%+v: %q, %v", in, text, err)
			}
		}
	}
	if _, err := step()(t.Context(), repayment{"exec-1", "O-1", 999}); !errors.Is(err, once.Conflict) {
		t.Errorf("another amount under the same business key: %v", err)
	}
	want := map[string]int{"exec-1:refund.O-1": 5, "exec-1:refund.O-2": 5, "exec-2:refund.O-1": 5}
	if !reflect.DeepEqual(paid, want) {
		t.Errorf("paid %v, want %v", paid, want)
	}
}

// Equal intents of one run are merged by such a key; that is what it is for.
// Proves: R12
func TestStepsKeyMayBeMadeOfItsArguments(t *testing.T) {
	t.Parallel()
	paid := 0
	step, err := once.Wrap(newGuard(t, newStore(t)), once.Tool[repayment, string]{Name: "refund", Class: once.External, Run: func(_ context.Context, in repayment) (string, error) {
		paid += in.Cents
		return "refunded " + in.Order, nil
	}}, func(_ context.Context, in repayment) (once.Request, error) {
		text, err := json.Marshal(in)
		return once.Request{RunID: in.Execution, CallID: "refund." + string(ledger.DigestOf(text))}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, in := range []repayment{{"exec-1", "O-1", 5}, {"exec-1", "O-1", 6}, {"exec-1", "O-2", 5}, {"exec-2", "O-1", 5}, {"exec-1", "O-1", 5}} {
			if text, err := step(t.Context(), in); err != nil || text != "refunded "+in.Order {
				t.Errorf("%+v: %q, %v", in, text, err)
			}
		}
	}
	if paid != 5+6+5+5 {
		t.Errorf("paid %d", paid)
	}
}
