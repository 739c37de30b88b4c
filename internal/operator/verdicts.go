package operator

import (
	"context"

	"github.com/onceward/onceward/middleware/ledger"
)

// Approve lets a reserved call start. The reason may be empty. Problems as
// [Service.Resolve].
func (s *Service) Approve(ctx context.Context, id Identity, c Command) (Decided, error) {
	return s.rule(ctx, id, verb{name: "approve", move: ledger.Record.Approve}, c, false)
}

// Deny ends a reserved call; it never runs. Problems as [Service.Resolve].
func (s *Service) Deny(ctx context.Context, id Identity, c Command) (Decided, error) {
	return s.rule(ctx, id, verb{name: "deny", move: ledger.Record.Deny}, c, true)
}

func (s *Service) rule(ctx context.Context, id Identity, v verb, c Command, reasonRequired bool) (Decided, error) {
	if err := id.May(DecideCalls); err != nil {
		return Decided{}, err
	}
	if err := c.checked(reasonRequired); err != nil {
		return Decided{}, err
	}
	return s.decide(ctx, id, v, c, []any{c.Reason, c.ExpectedVersion})
}
