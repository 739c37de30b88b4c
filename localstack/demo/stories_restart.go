package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/onceward/onceward/localstack/stack/child"
)

// wholeStackKilled is told on a stack of its own, which dies in its middle.
func (t *teller) wholeStackKilled(ctx context.Context, s *Story) (err error) {
	data, err := os.MkdirTemp("", "onceward-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	t.sayf("  a second stack starts in a process of its own, with a data directory")
	own, err := child.Start(ctx, child.Options{Exe: t.exe, Data: data, Args: []string{"--wait-scale", strconv.FormatFloat(WaitScale, 'f', -1, 64)}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.Kill()) }()
	before, err := t.of(ctx, own)
	if err != nil {
		return err
	}
	account := s.RunID + "-hang"
	execution, err := before.run(ctx, s, account)
	if err != nil {
		return err
	}
	err = until(ctx, func() (bool, error) {
		effects, err := before.billing.AccountEffects(ctx, account)
		return effects.Credits > 0, err
	})
	if err != nil {
		return err
	}
	t.sayf("  the billing service has booked the credit and not answered yet: SIGKILL to everything, DynamoDB, Step Functions, Lambda and the billing service")
	if err := own.Kill(); err != nil {
		return err
	}
	if err := own.Restart(ctx); err != nil {
		return err
	}
	t.sayf("  it starts again on its data; the run goes on where it was, and the ledger says that the call was started: it is looked up, not tried again")
	after, err := t.of(ctx, own)
	if err != nil {
		return err
	}
	if err := after.finish(ctx, s, execution, account); err != nil {
		return err
	}
	return s.holds(want{"SUCCEEDED", "completed", "hook", 1, 1, tookEffect})
}

// of returns a teller of what happens on that stack, as it was started last.
func (t *teller) of(ctx context.Context, own *child.Stack) (*teller, error) {
	about, err := own.About(ctx)
	if err != nil {
		return nil, fmt.Errorf("the stack does not say what it is: %w", err)
	}
	return &teller{client: newClient(own.Config(), about), exe: t.exe, out: t.out, tag: t.tag}, nil
}
