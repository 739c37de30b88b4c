package operator_test

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/operator"
)

func TestAnIdentityWhoseTenantIsNotWellFormedMayNothing(t *testing.T) {
	t.Parallel()
	for _, tenant := range []string{".", "..", "#", "acme/evil", "acme#0", "acme:1", " acme", "açme", "\x00", "%2e", strings.Repeat("a", 41)} {
		b := newBench(t)
		r := b.unknown(t, "c1")
		id := operator.Identity{Tenant: tenant, Actor: "eve", Scopes: ops.Scopes}
		command := operator.Command{Key: "run-1:c1", Reason: "r", ExpectedVersion: r.Version}
		for name, ask := range map[string]func() error{
			"list":    func() error { _, err := b.service.List(t.Context(), id, operator.Filter{}); return err },
			"show":    func() error { _, err := b.service.Show(t.Context(), id, command.Key); return err },
			"resolve": func() error { _, err := b.service.Resolve(t.Context(), id, failed(r, "")); return err },
			"reconcile": func() error {
				_, err := b.service.Reconcile(t.Context(), id, operator.Inquiry{Key: command.Key})
				return err
			},
			"approve":     func() error { _, err := b.service.Approve(t.Context(), id, command); return err },
			"deny":        func() error { _, err := b.service.Deny(t.Context(), id, command); return err },
			"withdraw":    func() error { _, err := b.service.Withdraw(t.Context(), id, command); return err },
			"acknowledge": func() error { _, err := b.service.Acknowledge(t.Context(), id, command); return err },
		} {
			t.Log(tenant, name)
			if p := theProblem(t, ask(), operator.InvalidTenant); p.Status != 403 {
				t.Errorf("status %d", p.Status)
			}
		}
	}
}
