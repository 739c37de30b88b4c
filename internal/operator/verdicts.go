package operator

import (
	"context"

	"github.com/onceward/onceward/middleware/ledger"
)

// Approve lets a reserved call start. The reason may be empty. Problems as
// [Service.Resolve].
func (s *Service) Approve(ctx context.Context, id Identity, c Command) (Decided, error) {
	return s.rule(ctx, id, "approve", c, false, ledger.Record.Approve)
}

// Deny ends a reserved call; it never runs. Problems as [Service.Resolve].
func (s *Service) Deny(ctx context.Context, id Identity, c Command) (Decided, error) {
	return s.rule(ctx, id, "deny", c, true, ledger.Record.Deny)
}

// Withdraw takes back the right of a failed call to run again. Problems as
// [Service.Resolve].
func (s *Service) Withdraw(ctx context.Context, id Identity, c Command) (Decided, error) {
	return s.rule(ctx, id, "withdraw", c, true, ledger.Record.Withdraw)
}

// Acknowledge clears a contradiction that the person has looked at. Problems as
// [Service.Resolve].
func (s *Service) Acknowledge(ctx context.Context, id Identity, c Command) (Decided, error) {
	return s.rule(ctx, id, "acknowledge", c, true, ledger.Record.Acknowledge)
}

func (s *Service) rule(ctx context.Context, id Identity, verb string, c Command, reasonRequired bool, move build) (Decided, error) {
	if err := id.May(DecideCalls); err != nil {
		return Decided{}, err
	}
	var wrong invalid
	c.check(&wrong, reasonRequired)
	if err := wrong.problem(); err != nil {
		return Decided{}, err
	}
	return s.decide(ctx, id, verb, c, []any{c.Reason, c.ExpectedVersion}, move)
}
