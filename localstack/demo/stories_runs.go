package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
)

const (
	unresolved = "may or may not have taken effect"
	standDown  = "stand_down"
)

func (t *teller) toldUnresolved(ctx context.Context, s *Story) error {
	account := s.RunID + "-drop-request"
	t.sayf("  this agent's policy is tell: it does not wait for a person")
	execution, err := t.runUnder(ctx, s, account, "tell")
	if err != nil {
		return err
	}
	if err := t.finish(ctx, s, execution, account); err != nil {
		return err
	}
	if err := s.holds(want{"SUCCEEDED", "indeterminate", s.SettledBy, 0, 1, unresolved}); err != nil {
		return err
	}
	if listed, err := t.listed(ctx, s.key()); !listed || err != nil {
		return errors.Join(errors.New("the run has ended, and nobody is asked to settle its call"), err)
	}
	shown, err := t.show(ctx, s.key())
	if err != nil {
		return err
	}
	t.sayf("  the call is still in the operator's list; ada settles it a day later: failed")
	out, err := t.resolveFailed(ctx, s.key(), "no credit under this key in the billing service", shown.Version)
	if err != nil {
		return err
	}
	if !out.RecordKeeping {
		return errors.New("the answer does not say that this decision is for the record only")
	}
	t.sayf("  that is for the record: the run is over, and what the model heard stays as it was")
	s.CallStatus, s.SettledBy, s.later = out.Record.Status, out.Record.SettledBy.Kind, true
	return s.holds(want{"SUCCEEDED", "failed", "person", 0, 1, unresolved})
}

func (t *teller) twoDrivers(ctx context.Context, s *Story) error {
	account := s.RunID
	t.sayf("  an agent's run %s is started twice at once, under two execution names: $25.00 to %s", s.RunID, account)
	t.sayf("  what drives a run is an execution of the state machine; the run's record names the one that may")
	input := credit(s, account, "")
	var executions [2]string
	var errs [2]error
	var both sync.WaitGroup
	for i, name := range []string{s.RunID + "-a", s.RunID + "-b"} {
		both.Go(func() { executions[i], errs[i] = t.start(ctx, t.machine, name, input) })
	}
	both.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	driver := ""
	for i, execution := range executions {
		status, output, err := t.wait(ctx, execution)
		if err != nil {
			return err
		}
		next, err := nextOf(output)
		if err != nil {
			return fmt.Errorf("execution %d ended %s: %w", i+1, status, err)
		}
		switch {
		case next == standDown:
			t.sayf("  execution %d finds that the run's record names the other one, and stands down: %s", i+1, status)
		case driver != "":
			return errors.New("both executions drove the run to its end")
		default:
			driver = execution
		}
	}
	if driver == "" {
		return errors.New("both executions stood down")
	}
	if err := t.finish(ctx, s, driver, account); err != nil {
		return err
	}
	return s.holds(want{"SUCCEEDED", "completed", "executor", 1, 1, tookEffect})
}

// nextOf returns the planner's last word, which is an execution's output.
func nextOf(output string) (string, error) {
	var end struct {
		Next string `json:"next"`
	}
	if err := json.Unmarshal([]byte(output), &end); err != nil || end.Next == "" {
		return "", errors.Join(errors.New("its output is not a planner's answer"), err)
	}
	return end.Next, nil
}

func (t *teller) compensated(ctx context.Context, s *Story) error {
	account := s.RunID
	execution, err := t.run(ctx, s, account)
	if err != nil {
		return err
	}
	if err := t.finish(ctx, s, execution, account); err != nil {
		return err
	}
	if err := s.holds(want{"SUCCEEDED", "completed", "executor", 1, 1, tookEffect}); err != nil {
		return err
	}
	shown, err := t.show(ctx, s.key())
	if err != nil {
		return err
	}
	t.sayf("  it was the wrong customer: two operators ask for an undo at the same moment: POST /v1/tool-executions/%s/compensate", s.key())
	if err := t.askTwice(ctx, s, shown.Version); err != nil {
		return err
	}
	err = until(ctx, func() (bool, error) {
		shown, err = t.show(ctx, s.key())
		return shown.Status == "compensated", err
	})
	if err != nil {
		return fmt.Errorf("the call is %s: %w", shown.Status, err)
	}
	effects, err := t.billing.AccountEffects(ctx, account)
	if err != nil {
		return err
	}
	s.CallStatus, s.SettledBy, s.Effects, s.voids = shown.Status, shown.SettledBy.Kind, effects.Credits, effects.Voids
	t.sayf("  call %s; the billing service counts %s and %s", s.CallStatus, counted(effects.Credits, "credit"), counted(effects.Voids, "void"))
	if effects.Voids != 1 {
		return fmt.Errorf("voids are %d, want 1", effects.Voids)
	}
	return s.holds(want{"SUCCEEDED", "compensated", "executor", 1, 1, tookEffect})
}

// askTwice requires that of two who ask at once one is told that it was done
// already.
func (t *teller) askTwice(ctx context.Context, s *Story, version int64) error {
	var errs [2]error
	var both sync.WaitGroup
	for i := range errs {
		both.Go(func() { _, errs[i] = t.compensate(ctx, s.key(), "credited to the wrong customer", version) })
	}
	both.Wait()
	won := 0
	for _, err := range errs {
		refused, is := errors.AsType[*refusedError](err)
		switch {
		case err == nil:
			won++
		case is && refused.status == http.StatusConflict:
			t.sayf("  one of them is answered 409 with the decision that won")
		default:
			return err
		}
	}
	if won != 1 {
		return fmt.Errorf("%d of two undos were accepted, want 1", won)
	}
	return nil
}
