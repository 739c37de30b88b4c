package once_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// Proves: R85, R86, R87, R88, R91, R92, R93, R94, R96
func TestRepeatOfAnUnknownCallAsksTheLookUpFirst(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	b.after = func(context.Context) error { return errors.New("connection reset") }
	var asked ledger.Record
	tool := b.tool(func(t *once.Tool[creditIn, credit]) {
		t.Reconcile = func(ctx context.Context, rec ledger.Record, in creditIn) (credit, bool, error) {
			asked = rec
			if once.CallFrom(ctx).Key != rec.Key || in.Account != "A1" {
				return credit{}, false, errors.New("wrong context")
			}
			return credit{ID: "cr_found"}, true, nil
		}
	})
	bound := bind(t, newGuard(t, store), tool)
	want(t, bound.Do(t.Context(), call1, five).Report, once.Indeterminate, ledger.Unknown, ledger.Look, "outcome_unknown")
	out := bound.Do(t.Context(), call1, five)
	want(t, out.Report, once.Completed, ledger.Happened, ledger.Done, "")
	if c, err := out.Value(); err != nil || c.ID != "cr_found" || out.ExternalID != "cr_found" || !out.Replayed {
		t.Errorf("got %v, %v, %+v", c, err, out.Report)
	}
	if asked.Status != ledger.Indeterminate || record(t, store, call1.Key()).Outcome.By.Kind != ledger.ByHook || b.runs.Load() != 1 {
		t.Errorf("asked with %s", asked.State())
	}
}

// Proves: R29, R89, R90, R94, R95
func TestLookUpThatFindsNothingProvesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		found error
		kind  ledger.Event
	}{
		"nothing there":  {nil, ledger.FindAbsent},
		"it can't tell":  {errors.New("canary: receiver is down"), ledger.Note},
		"it panics":      {errPanic, ledger.Note},
		"it can't write": {errWrite, ledger.Note},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, b := newStore(t), &bank{}
			b.after = func(context.Context) error { return errors.New("lost") }
			tool := b.tool(func(t *once.Tool[creditIn, credit]) {
				t.Reconcile = func(ctx context.Context, _ ledger.Record, _ creditIn) (credit, bool, error) {
					switch {
					case errors.Is(c.found, errPanic):
						panic("canary")
					case errors.Is(c.found, errWrite):
						return credit{}, false, post(ctx, "http://127.0.0.1:1")
					}
					return credit{}, false, c.found
				}
			})
			bound := bind(t, newGuard(t, store), tool)
			bound.Do(t.Context(), call1, five)
			for range 20 {
				want(t, bound.Do(t.Context(), call1, five).Report, once.Indeterminate, ledger.Unknown, ledger.Park, "outcome_unknown")
			}
			rec := record(t, store, call1.Key())
			if len(rec.Evidence) != 1 || rec.Evidence[0].Kind != c.kind || strings.Contains(rec.Evidence[0].Reason, "canary") {
				t.Errorf("evidence %+v", rec.Evidence)
			}
			if b.runs.Load() != 1 {
				t.Errorf("ran %d times", b.runs.Load())
			}
		})
	}
}

var (
	errPanic = errors.New("panic")
	errWrite = errors.New("write")
)

func post(ctx context.Context, url string) error {
	client := &http.Client{Transport: &once.Transport{}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err == nil {
		return resp.Body.Close()
	}
	return err
}

func TestAuthoritativeAbsenceIsProofOnlyAfterTheSettleDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := newStore(t), &bank{}
		b.before = func(context.Context) error { return errors.New("lost on the way") }
		tool := b.tool(b.withLookUp, func(t *once.Tool[creditIn, credit]) { t.Downstream.AbsenceIsProof = true })
		bound := bind(t, newGuard(t, store), tool)
		bound.Do(t.Context(), call1, five)
		early := bound.Do(t.Context(), call1, five)
		want(t, early.Report, once.Indeterminate, ledger.Unknown, ledger.Look, "outcome_unknown")
		if early.RetryAfter < 60*time.Second || early.RetryAfter > 75*time.Second {
			t.Errorf("look again in %v", early.RetryAfter)
		}
		time.Sleep(early.RetryAfter) // in the bubble's time
		want(t, bound.Do(t.Context(), call1, five).Report, once.Failed, ledger.NoEffect, ledger.Done, "absent")
		want(t, bound.Do(t.Context(), call1, five).Report, once.Failed, ledger.NoEffect, ledger.Done, "absent")
		if b.runs.Load() != 1 {
			t.Error("absence ran it again by itself")
		}
		b.before = nil
		again := call1
		again.Attempt = 2
		want(t, bound.Do(t.Context(), again, five).Report, once.Completed, ledger.Happened, ledger.Done, "")
	})
}

// Proves: R107
func TestPersonWhoDecidesDuringALookUpWins(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	b.after = func(context.Context) error { return errors.New("lost") }
	tool := b.tool(func(tool *once.Tool[creditIn, credit]) {
		tool.Reconcile = func(ctx context.Context, rec ledger.Record, _ creditIn) (credit, bool, error) {
			move, err := rec.Resolve(ledger.Stamp{At: time.Now(), WriteID: "w"}, ledger.Decision{ID: "d", Actor: "ann", Reason: "looked", Version: rec.Version}, ledger.Settlement{Effect: ledger.Happened, ExternalID: "early"})
			if err == nil {
				_, err = store.Apply(ctx, move)
			}
			return credit{ID: "late"}, true, err
		}
	})
	bound := bind(t, newGuard(t, store), tool)
	bound.Do(t.Context(), call1, five)
	out := bound.Do(t.Context(), call1, five)
	want(t, out.Report, once.Completed, ledger.Happened, ledger.Done, "")
	if rec := record(t, store, call1.Key()); rec.Outcome.By.ID != "ann" || out.ExternalID != "early" || rec.Evidence != nil {
		t.Errorf("stands %+v", rec.Outcome)
	}
}

// Proves: R107
func TestEffectThatALookUpSawIsNeverLostToAPersonWhoWasFaster(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		decided ledger.Settlement
		want    once.Status
		flagged bool
	}{
		{"failed", ledger.Settlement{Effect: ledger.NoEffect, Code: "resolved_failed", Message: "ann looked"}, once.Indeterminate, true},
		{"granted", ledger.Settlement{Effect: ledger.NoEffect, Retryable: true, Code: "resolved_failed", Message: "ann looked"}, once.Indeterminate, true},
		{"completed", ledger.Settlement{Effect: ledger.Happened}, once.Completed, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store, b := newStore(t), &bank{after: func(context.Context) error { return errors.New("lost") }}
			bound := bind(t, newGuard(t, store), b.tool(func(tool *once.Tool[creditIn, credit]) {
				tool.Reconcile = func(context.Context, ledger.Record, creditIn) (credit, bool, error) {
					decide(t, store, "d", c.decided)
					return credit{ID: "cr_9"}, true, nil
				}
			}))
			bound.Do(t.Context(), call1, five)
			out := bound.Reconcile(t.Context(), call1, five)
			rec := record(t, store, call1.Key())
			if out.Status != c.want || rec.Flags.Has(ledger.Contradicted) != c.flagged || rec.Flags.Has(ledger.Granted) {
				t.Errorf("got %+v; stands %s", out.Report, rec.State())
			}
			if seen := len(rec.Evidence) == 1 && strings.Contains(rec.Evidence[0].Reason, "cr_9"); seen != c.flagged {
				t.Errorf("evidence %+v", rec.Evidence)
			}
		})
	}
}

func TestAbsenceIsNoProofForArgumentsThatComeToSomethingElse(t *testing.T) {
	t.Parallel()
	for name, cents := range map[string]int64{"the same": 10, "something else": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, b := newStore(t), &bank{after: func(context.Context) error { return errors.New("lost") }}
			now := time.Now()
			g := newGuard(t, store, func(o *once.Options) { o.Clock = func() time.Time { return now } })
			tool := func(byDefault int64) once.Tool[creditIn, credit] {
				return b.tool(defaulting(byDefault), func(tool *once.Tool[creditIn, credit]) {
					tool.Downstream.AbsenceIsProof = true
					tool.Reconcile = func(context.Context, ledger.Record, creditIn) (credit, bool, error) { return credit{}, false, nil }
				})
			}
			bare := creditIn{Account: "A1"}
			bind(t, g, tool(10)).Do(t.Context(), call1, bare)
			now = now.Add(time.Hour)
			out := bind(t, g, tool(cents)).Reconcile(t.Context(), call1, bare)
			if proved := out.Status == once.Failed; proved != (cents == 10) {
				t.Errorf("got %+v", out.Report)
			}
		})
	}
}

func TestReconcileModeLooksUpAndNeverRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, b := newStore(t), &bank{}
		h := handlerOf(t, newGuard(t, store), b.tool(b.withLookUp))
		a := ask(t.Context(), t, h, envelope("reconcile"))
		if a.Status != once.Refused || a.Error.Code != "no_record" || a.Effect != ledger.NoEffect || a.Next != ledger.Again {
			t.Errorf("of nothing: %+v", a)
		}
		abandon(t, store, b)
		a = ask(t.Context(), t, h, envelope("reconcile"))
		if a.Status != once.InProgress || a.Next != ledger.Again || a.RetryAfterSeconds == 0 {
			t.Errorf("of a live executor: %+v", a)
		}
		time.Sleep(15 * time.Second) // in the bubble's time
		a = ask(t.Context(), t, h, envelope("reconcile"))
		if a.Status != once.Completed || string(a.Result) != `{"id":"cr_A1"}` || !a.Replayed || b.runs.Load() != 0 {
			t.Errorf("of a dead one: %+v", a)
		}
		a = ask(t.Context(), t, h, envelope("reconcile", `:5`, `:6`))
		if a.Status != once.Conflict {
			t.Errorf("with other arguments: %+v", a)
		}
	})
}

func TestReconcileWithoutArgumentsNeedsAToolThatLooksByKey(t *testing.T) {
	t.Parallel()
	const args = `,"arguments":{"account":"A1","cents":5}`
	for _, byKey := range []bool{true, false} {
		store, b := newStore(t), &bank{}
		b.after = func(context.Context) error { return errors.New("lost") }
		h := handlerOf(t, newGuard(t, store), b.tool(b.withLookUp, func(t *once.Tool[creditIn, credit]) { t.ReconcileByKey = byKey }))
		ask(t.Context(), t, h, envelope("invoke"))
		a := ask(t.Context(), t, h, envelope("reconcile", args, ""))
		if byKey && a.Status != once.Completed || !byKey && a.Error.Code != "missing_arguments" {
			t.Errorf("by key %t: %+v", byKey, a)
		}
	}
}

func TestLookUpThatHangsHoldsTheAnswerUpNoLongerThanTheTool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bank{after: func(context.Context) error { return errors.New("lost") }}
		free := make(chan struct{})
		bound := bind(t, newGuard(t, newStore(t)), b.tool(func(t *once.Tool[creditIn, credit]) {
			t.Reconcile = func(context.Context, ledger.Record, creditIn) (credit, bool, error) {
				<-free
				return credit{}, false, nil
			}
		}))
		bound.Do(t.Context(), call1, five)
		began := time.Now()
		out := bound.Do(t.Context(), call1, five)
		if took := time.Since(began); took > 11*time.Second || out.Status != once.Indeterminate {
			t.Errorf("%s after %v", out.Status, took)
		}
		close(free)
	})
}

func TestOrphaningThatRacesWithTheExecutorLosesToItsWord(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	bound := bind(t, newGuard(t, store), b.tool())
	// A sweeper whose clock is ahead orphans the call while its executor's
	// settle is on the way.
	store.OnMoment(func(m memledger.Moment) {
		if m.When != "before" || m.Step.Event != ledger.Complete {
			return
		}
		store.OnMoment(nil)
		move, err := record(t, store, call1.Key()).Orphan(ledger.Stamp{At: time.Now().Add(time.Hour), WriteID: "sweep"})
		if err == nil {
			_, err = store.Apply(t.Context(), move)
		}
		if err != nil {
			t.Error(err)
		}
	})
	want(t, bound.Do(t.Context(), call1, five).Report, once.Completed, ledger.Happened, ledger.Done, "")
	if rec := record(t, store, call1.Key()); rec.Version != 3 {
		t.Errorf("version %d", rec.Version)
	}
}

// Whoever asks for a look-up hears of the look-up; a repeat of the call hears of
// the call.
func TestReconcileSaysWhatTheLookUpSaw(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		err     error
		code    string
		message string
		why     string
	}{
		{"nothing there", nil, "look_up_absent", "the look-up was asked just now and found nothing, which proves nothing yet", "outcome_unknown"},
		{"it can't tell", errors.New("canary: receiver is down"), "look_up_unknown", "the look-up was asked just now and could not tell", "outcome_unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := &bank{after: func(context.Context) error { return errors.New("lost") }}
			tool := b.tool(func(t *once.Tool[creditIn, credit]) {
				t.ReconcileByKey = true
				t.Reconcile = func(context.Context, ledger.Record, creditIn) (credit, bool, error) { return credit{}, false, c.err }
			})
			guard := newGuard(t, newStore(t))
			bound, h := bind(t, guard, tool), handlerOf(t, guard, tool)
			bound.Do(t.Context(), call1, five)
			r := bound.Reconcile(t.Context(), call1, five).Report
			want(t, r, once.Indeterminate, ledger.Unknown, ledger.Park, c.code)
			if r.Message != c.message {
				t.Errorf("told %q", r.Message)
			}
			for _, envelope := range []string{envelope("reconcile"), envelope("reconcile", `,"arguments":{"account":"A1","cents":5}`, "", "full", "brief")} {
				if a := ask(t.Context(), t, h, envelope); a.Error.Code != c.code || a.Error.Message != c.message || a.Status != once.Indeterminate {
					t.Errorf("answer %+v", a)
				}
			}
			want(t, bound.Do(t.Context(), call1, five).Report, once.Indeterminate, ledger.Unknown, ledger.Park, c.why)
		})
	}
}

// A late outcome that denies the record weighs more than what a look-up misses.
func TestReconcileOfAContradictedCallStaysContradicted(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{before: func(context.Context) error { return once.Rejected(errors.New("no")) }}
	bound := bind(t, newGuard(t, store), b.tool(b.withLookUp))
	bound.Do(t.Context(), call1, five)
	rec := record(t, store, call1.Key())
	move, err := rec.Settle(ledger.Stamp{At: time.Now(), WriteID: "late"}, rec.Attempt.Token, ledger.Settlement{Effect: ledger.Happened})
	if err == nil {
		_, err = store.Apply(t.Context(), move)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := bound.Reconcile(t.Context(), call1, five); r.Code != "contradicted" || b.looks.Load() != 1 {
		t.Errorf("after %d look-ups: %+v", b.looks.Load(), r.Report)
	}
}
