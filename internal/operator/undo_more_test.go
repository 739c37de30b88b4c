package operator_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

func TestACallThatWasCalledFailedAndTookEffectIsUndoneOnceSomebodyHasSeenIt(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	r := v.lostTrack(t)
	if _, err := v.service.Resolve(t.Context(), ops, failed(r, "")); err != nil {
		t.Fatal(err)
	}
	_, err := v.service.Compensate(t.Context(), ops, undo(v.at(t, "c1"), ""))
	wantProblem(t, err, operator.AlreadyDecided)
	move, err := v.at(t, "c1").Settle(v.stamp("late"), r.Attempt.Token, ledger.Settlement{Effect: ledger.Happened, ExternalID: "cr_9"})
	contradicted := v.apply(t, move, err)
	_, err = v.service.Compensate(t.Context(), ops, undo(contradicted, ""))
	wantProblem(t, err, operator.NotAllowed)
	if _, err = v.service.Acknowledge(t.Context(), ops, operator.Command{Key: "run-1:c1", Reason: "seen", ExpectedVersion: contradicted.Version}); err != nil {
		t.Fatal(err)
	}
	got, err := v.service.Compensate(t.Context(), ops, undo(v.at(t, "c1"), ""))
	if err != nil || got.Record.Status != "compensated" || v.bank.count(v.bank.voids) != 1 {
		t.Errorf("%+v of %s, %v", got.Undo, got.Record.State, err)
	}
}

func TestAnOverdueCallIsWrittenOffByTheAskForItsUndo(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.turn(t, nil, "c1")
	r := v.start(t, "c1")
	v.now = r.Attempt.Deadline.Add(time.Second)
	in := undo(r, "")
	_, err := v.service.Compensate(t.Context(), ops, in)
	if p := theProblem(t, err, operator.InvalidRequest); p.Errors[0].Location != "body.knows_unknown" {
		t.Errorf("told %+v", p.Errors)
	}
	in.KnowsUnknown = true
	_, err = v.service.Compensate(t.Context(), ops, in)
	if p := theProblem(t, err, operator.NotAllowed); p.NotBefore == "" {
		t.Errorf("told %+v", p)
	}
	if after := v.at(t, "c1"); after.Version != 1 {
		t.Errorf("moved for nothing: %s", after.State())
	}
	v.now = r.Attempt.QuietAfter.Add(time.Second)
	got, err := v.service.Compensate(t.Context(), ops, in)
	if err != nil || got.Undo == nil || got.Undo.N != 1 || got.Decision.Before != "indeterminate" {
		t.Fatalf("%+v, %v", got, err)
	}
}

// slow answers no function before its time is over; describes says that it does
// describe itself.
type slow struct {
	functions *functions
	describes bool
}

func (s slow) Invoke(ctx context.Context, tool string, payload []byte) ([]byte, error) {
	e, err := once.DecodeEnvelope(payload)
	if err == nil && e.Mode == once.ModeDescribe && s.describes {
		return s.functions.Invoke(ctx, tool, payload)
	}
	return nil, wait(ctx)
}

func TestAFunctionThatHangsLeavesTimeToAnswer(t *testing.T) {
	t.Parallel()
	for _, describes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			v := newVault(t)
			r := v.called(t)
			service := v.serviceWith(t, func(cfg *operator.Config) { cfg.Tools = slow{v.functions, describes} })
			ctx, cancel := context.WithTimeout(t.Context(), 29*time.Second)
			defer cancel()
			got, err := service.Compensate(ctx, ops, undo(r, ""))
			if ctx.Err() != nil {
				t.Error("no time is left to answer in")
			}
			if !describes {
				wantProblem(t, err, operator.ToolUnreachable)
			} else if err != nil || !got.Undo.Open || got.Undo.Status != "none" {
				t.Errorf("%+v, %v", got.Undo, err)
			}
		})
	}
}

// The arguments that an undo needs may be gone, with their run.
func TestAnUndoWhoseArgumentsAreGoneIsEndedWithItsReason(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	r := v.called(t)
	service := v.serviceWith(t, func(cfg *operator.Config) { cfg.Tools, cfg.Runs = v.functions, turnless{v.runs} })
	got, err := service.Compensate(t.Context(), ops, undo(r, ""))
	if err != nil || got.Undo.Open || got.Undo.Error == nil || got.Undo.Error.Code != "missing_arguments" || got.Record.State != "completed" {
		t.Fatalf("%+v of %s, %v", got.Undo, got.Record.State, err)
	}
	shown, err := v.service.Show(t.Context(), ops, "run-1:c1")
	if err != nil || !strings.Contains(shown.Evidence[0].Reason, "missing_arguments") {
		t.Errorf("%+v, %v", shown.Evidence, err)
	}
}

type turnless struct{ runs.Store }

func (turnless) Turns(context.Context, runs.ID, int, int) ([]runs.Turn, error) { return nil, nil }

func TestTendingAnUndoUnderItsOwnKeyWakesTheRunOfItsCall(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	r := v.lostTrack(t)
	v.park(t, r, "w1")
	v.now = v.now.Add(time.Hour)
	v.functions.lose = func(mode once.Mode) (bool, bool) { return mode == once.ModeCompensate, false }
	in := undo(r, "")
	in.KnowsUnknown = true
	if got, err := v.service.Compensate(t.Context(), ops, in); err != nil || got.RunWaiting != operator.StillWaiting {
		t.Fatalf("%+v, %v", got, err)
	}
	v.functions.lose = nil
	got, err := v.service.Tend(t.Context(), r.Key.Undo(1))
	if err != nil || !got.UndoInvoked || !got.UndoClosed || got.Rung != 1 || got.State != "completed" || v.bell.times() != 1 {
		t.Errorf("%+v after %d bells, %v", got, v.bell.times(), err)
	}
}

type unreadTurns struct{ runs.Store }

func (unreadTurns) Turns(context.Context, runs.ID, int, int) ([]runs.Turn, error) {
	return nil, errLost
}

func TestAnUndoWhoseTurnCannotBeReadNowWaits(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	r := v.called(t)
	service := v.serviceWith(t, func(cfg *operator.Config) { cfg.Tools, cfg.Runs = v.functions, unreadTurns{v.runs} })
	got, err := service.Compensate(t.Context(), ops, undo(r, ""))
	if err != nil || !got.Undo.Open || got.Undo.Status != "none" {
		t.Fatalf("%+v, %v", got.Undo, err)
	}
	if tended, err := service.Tend(t.Context(), r.Key); err == nil || tended.UndoInvoked || !tended.NeedsSomebody {
		t.Errorf("%+v, %v", tended, err)
	}
	if v.functions.asked != 0 {
		t.Errorf("asked %d times", v.functions.asked)
	}
	if tended, err := v.service.Tend(t.Context(), r.Key); err != nil || !tended.UndoInvoked || !tended.UndoClosed {
		t.Errorf("%+v, %v", tended, err)
	}
}
