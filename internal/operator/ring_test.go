package operator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/internal/doorbell"
	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

func TestBellsThatNobodyHearsAreConfirmedByTheirWord(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"TaskTimedOut", "TaskDoesNotExist", "InvalidToken"} {
		b := newBench(t)
		r := b.unknown(t, "c1")
		b.park(t, r, "w1")
		b.bell.answer = func(int, string) error { return &doorbell.GoneError{How: word} }
		got, err := b.service.Resolve(t.Context(), ops, failed(r, ""))
		if err != nil || got.RunWaiting != operator.NoLonger {
			t.Fatalf("run waiting %q, %v", got.RunWaiting, err)
		}
		if w := b.waits(t, r)[0]; w.How != word {
			t.Errorf("how = %q", w.How)
		}
	}
}

func TestABellThatFailsIsRungAgainAndThenLeftToTheSweeper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r := b.unknown(t, "c1")
		b.park(t, r, "w1")
		b.bell.answer = func(n int, _ string) error {
			if n < 3 {
				return errors.New("throttled " + canaryToken[:0])
			}
			return nil
		}
		got, err := b.service.Resolve(t.Context(), ops, failed(r, ""))
		if err != nil || got.RunWaiting != operator.Woken || b.bell.times() != 3 {
			t.Errorf("run waiting %q after %d bells, %v", got.RunWaiting, b.bell.times(), err)
		}

		r = b.unknown(t, "c2")
		b.park(t, r, "w2")
		b.bell.answer = func(int, string) error { return errors.New("down") }
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		got, err = b.service.Resolve(ctx, ops, failed(r, ""))
		if err != nil || got.RunWaiting != operator.NotWokenYet || got.Record.Status != "failed" {
			t.Errorf("run waiting %q, %s, %v", got.RunWaiting, got.Record.Status, err)
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("took %v of 10 s", took)
		}
		if b.waits(t, r)[0].Rung() {
			t.Error("a bell that nobody answered was confirmed")
		}
	})
}

func TestOneDeadBellDoesNotKeepTheOthersSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r := b.unknown(t, "c1")
		b.park(t, r, "w1")
		b.park(t, r, "w2")
		b.bell.answer = func(_ int, token string) error {
			if token == canaryToken+"-w1" {
				return errors.New("down")
			}
			return nil
		}
		got, err := b.service.Resolve(t.Context(), ops, failed(r, ""))
		if err != nil || got.RunWaiting != operator.NotWokenYet {
			t.Errorf("run waiting %q, %v", got.RunWaiting, err)
		}
		waits := b.waits(t, r)
		if waits[0].Rung() || !waits[1].Rung() {
			t.Errorf("rung: %t, %t", waits[0].Rung(), waits[1].Rung())
		}
	})
}

func TestAClientThatGoesAwayStopsNoBell(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.park(t, r, "w1")
	ctx, cancel := context.WithCancel(t.Context())
	b.store.OnMoment(func(m memledger.Moment) {
		if m.When == "after" && m.Step.Op == memledger.Apply {
			cancel()
		}
	})
	got, err := b.service.Resolve(ctx, ops, failed(r, ""))
	if err != nil || got.RunWaiting != operator.Woken {
		t.Errorf("run waiting %q, %v", got.RunWaiting, err)
	}
}

func TestABellOfAnEarlierWaitSaysNothingOfThisOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.park(t, r, "earlier")
	if err := b.store.ConfirmWait(t.Context(), b.waits(t, r)[0], doorbell.Rung, b.now); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(time.Hour)
	got, err := b.service.Resolve(t.Context(), ops, failed(r, ""))
	if err != nil || got.RunWaiting != operator.NotWaiting || b.bell.times() != 0 {
		t.Errorf("run waiting %q after %d bells, %v", got.RunWaiting, b.bell.times(), err)
	}
}

func TestABellThatWasAnsweredUnheardWokeTheRun(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first error
		want  operator.RunWaiting
		how   string
	}{
		"the answer was lost":  {errors.New("no answer"), operator.Woken, doorbell.AnswerLost},
		"the bell was refused": {fmt.Errorf("%w: ThrottlingException", doorbell.ErrRefused), operator.NoLonger, "TaskTimedOut"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				r := b.unknown(t, "c1")
				b.park(t, r, "w1")
				b.bell.answer = func(n int, _ string) error {
					if n == 1 {
						return tt.first
					}
					return &doorbell.GoneError{How: "TaskTimedOut"}
				}
				for range 2 { // the second time it is read from the confirmed wait
					got, err := b.service.Resolve(t.Context(), ops, failed(r, "k"))
					if err != nil || got.RunWaiting != tt.want || b.bell.times() != 2 {
						t.Errorf("run waiting %q after %d bells, %v", got.RunWaiting, b.bell.times(), err)
					}
				}
				if w := b.waits(t, r)[0]; w.How != tt.how {
					t.Errorf("how = %q", w.How)
				}
			})
		})
	}
}
