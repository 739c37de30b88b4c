package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/faults"
	"github.com/onceward/onceward/localstack/plain/machine"
	"github.com/onceward/onceward/localstack/stack"
)

const (
	tookEffect = "took effect. Result:"
	tookNone   = "certainly did not take effect"
)

func (t *teller) appliedBeforeTimeout(ctx context.Context, s *Story) error {
	account := s.RunID + "-lose-answer"
	t.sayf("  the billing service books the credit, and the connection drops before its answer")
	execution, err := t.run(ctx, s, account)
	if err != nil {
		return err
	}
	t.sayf("  nobody knows: the call is indeterminate and is not tried again; the tool's look-up asks the service by key")
	if err := t.finish(ctx, s, execution, account); err != nil {
		return err
	}
	return s.holds(want{"SUCCEEDED", "completed", "hook", 1, 1, tookEffect})
}

func (t *teller) neverLanded(ctx context.Context, s *Story) error {
	account := s.RunID + "-drop-request"
	t.sayf("  the connection drops before the request arrives; the look-up finds nothing, which proves nothing")
	execution, err := t.run(ctx, s, account)
	if err != nil {
		return err
	}
	if err := until(ctx, func() (bool, error) { return t.parked(ctx, execution) }); err != nil {
		return fmt.Errorf("the run never waited: %w", err)
	}
	if listed, err := t.listed(ctx, s.key()); !listed || err != nil {
		return errors.Join(errors.New("the call is not in the operator's list"), err)
	}
	shown, err := t.show(ctx, s.key())
	if err != nil {
		return err
	}
	t.sayf("  the run waits; the operator's list shows %s as %s, effect %s", s.key(), shown.Status, shown.Effect)
	t.sayf("  operator ada looks into the billing service and resolves it failed: POST /v1/tool-executions/%s/resolve", s.key())
	if _, err := t.resolveFailed(ctx, s.key(), "no credit under this key in the billing service", shown.Version); err != nil {
		return err
	}
	if err := t.finish(ctx, s, execution, account); err != nil {
		return err
	}
	return s.holds(want{"SUCCEEDED", "failed", "person", 0, 1, tookNone})
}

func (t *teller) refusedBeforeSending(ctx context.Context, s *Story) error {
	account := s.RunID + "-expired-credentials"
	t.sayf("  the tool's credentials have expired: it gives up before it sends anything")
	execution, err := t.run(ctx, s, account)
	if err != nil {
		return err
	}
	if err := t.finish(ctx, s, execution, account); err != nil {
		return err
	}
	listed, err := t.listed(ctx, s.key())
	if err != nil {
		return err
	}
	if listed {
		return errors.New("the call is in the operator's list, and there is nothing to decide")
	}
	t.sayf("  the call was closed before the model heard so; nothing is in the operator's list")
	return s.holds(want{"SUCCEEDED", "failed", "executor", 0, 1, tookNone})
}

func (t *teller) killedAfterEffect(ctx context.Context, s *Story) error {
	account := s.RunID + "-hang"
	function := t.stack.Names.Function(names.BillingTools)
	t.sayf("  the billing service books the credit and does not answer yet")
	execution, err := t.run(ctx, s, account)
	if err != nil {
		return err
	}
	err = until(ctx, func() (bool, error) {
		effects, err := t.billing.AccountEffects(ctx, account)
		return effects.Credits > 0, err
	})
	if err != nil {
		return err
	}
	killed := t.stack.Lambda.Kill(function)
	t.sayf("  SIGKILL to the tool's process: %d sandbox died after the effect and before the ledger heard of it", killed)
	t.sayf("  the ledger says started until the executor's deadline has passed; then it is unknown, and is looked up under the same key")
	if err := t.finish(ctx, s, execution, account); err != nil {
		return err
	}
	if killed != 1 {
		return fmt.Errorf("%d sandboxes were killed, want 1", killed)
	}
	return s.holds(want{"SUCCEEDED", "completed", "hook", 1, 1, tookEffect})
}

func (t *teller) doublePayout(ctx context.Context, s *Story) error {
	plain, ours := s.RunID+"-plain", s.RunID+"-ours"
	t.sayf("  the credit lands, and Lambda's own answer is lost on its way to Step Functions (Lambda.SdkClientException)")
	if err := t.loseLambdaAnswer(machine.Function, plain); err != nil {
		return err
	}
	input, err := json.Marshal(map[string]any{"account_id": plain, "amount_cents": 2500})
	if err != nil {
		return err
	}
	execution, err := t.start(ctx, stack.MachineARN(machine.Name), s.RunID+"-plain", string(input))
	if err != nil {
		return err
	}
	status, _, err := t.wait(ctx, execution)
	if err != nil {
		return err
	}
	paid, err := t.billing.AccountEffects(ctx, plain)
	if err != nil {
		return err
	}
	t.sayf("  a plain Lambda under CDK's default retries: execution %s, the billing service counts %s", status, counted(paid.Credits, "credit"))
	if err := t.loseLambdaAnswer(t.stack.Names.Function(names.BillingTools), ours); err != nil {
		return err
	}
	if execution, err = t.run(ctx, s, ours); err != nil {
		return err
	}
	t.sayf("  Step Functions hears the same error; the machine does not run the tool again but asks the call desk, which reads the ledger: it took effect")
	if err := t.finish(ctx, s, execution, ours); err != nil {
		return err
	}
	guarded := s.Effects
	s.GuardedEffects, s.Effects = &guarded, paid.Credits
	if guarded != 1 {
		return fmt.Errorf("guarded effects are %d, want 1", guarded)
	}
	return s.holds(want{"SUCCEEDED", "completed", "executor", 2, 1, tookEffect})
}

// loseLambdaAnswer drops the answer of the first invocation of function that
// pays account, after the function has ended.
func (t *teller) loseLambdaAnswer(function, account string) error {
	_, err := t.stack.Faults.Arm(faults.Rule{Service: faults.Lambda, Operation: "Invoke", Function: function, Contains: account, Effect: faults.DropAnswer})
	return err
}
