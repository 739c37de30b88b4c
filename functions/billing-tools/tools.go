package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// toolTimeout bounds one attempt. The function's timeout, 20 s, is more than the
// guard's join (5 s), one attempt and two settle reserves (2 s each).
const toolTimeout = 5 * time.Second

// keyWindow is how long the billing service honours a key.
const keyWindow = 24 * time.Hour

type orderIn struct {
	OrderID string `json:"order_id" jsonschema:"the order's id"`
}

type order struct {
	OrderID    string `json:"order_id"`
	AccountID  string `json:"account_id"`
	TotalCents int64  `json:"total_cents"`
	Status     string `json:"status"`
}

type creditIn struct {
	AccountID   string `json:"account_id" jsonschema:"the account to credit"`
	AmountCents int64  `json:"amount_cents" jsonschema:"how much, in cents; more than 0"`
}

type credit struct {
	CreditID    string `json:"credit_id"`
	AccountID   string `json:"account_id"`
	AmountCents int64  `json:"amount_cents"`
}

type accountIn struct {
	AccountID string `json:"account_id" jsonschema:"the account to close for good"`
}

type closure struct {
	AccountID string `json:"account_id"`
	Closed    bool   `json:"closed"`
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (b *billingTools) findOrder() once.Tool[orderIn, order] {
	return once.Tool[orderIn, order]{
		Name:        "find_order",
		Description: "Find an order by its id.",
		Class:       once.Read,
		Timeout:     toolTimeout,
		Normalize: func(in *orderIn) error {
			if !idPattern.MatchString(in.OrderID) {
				return errors.New("order_id: want 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'")
			}
			return nil
		},
		Summary: func(in orderIn) string { return "order " + in.OrderID },
		Run:     func(ctx context.Context, in orderIn) (order, error) { return b.order(ctx, in.OrderID) },
	}
}

func (b *billingTools) issueCredit() once.Tool[creditIn, credit] {
	return once.Tool[creditIn, credit]{
		Name:        "issue_credit",
		Description: "Credit a customer's account.",
		Class:       once.External,
		Permission:  "credits:write",
		Timeout:     toolTimeout,
		Normalize:   checkCredit,
		Summary:     func(in creditIn) string { return fmt.Sprintf("%d cents to %s", in.AmountCents, in.AccountID) },
		ExternalID:  func(c credit) string { return c.CreditID },
		Run: func(ctx context.Context, in creditIn) (credit, error) {
			token, err := b.signIn(ctx, in.AccountID)
			if err != nil {
				return credit{}, once.NotAttempted(err) // only the sign-in was sent
			}
			return b.credit(ctx, token, in)
		},
		ReconcileByKey: true,
		Reconcile: func(ctx context.Context, rec ledger.Record, _ creditIn) (credit, bool, error) {
			return b.creditByKey(ctx, rec.Key.String())
		},
		CompensateByKey: true,
		Compensate:      func(ctx context.Context, rec ledger.Record, _ creditIn) error { return b.voidCredit(ctx, rec) },
		// A look-up that finds nothing proves nothing: a request may be on its way.
		Downstream: once.Downstream{KeyWindow: keyWindow, AbsenceIsProof: false},
	}
}

func (b *billingTools) closeAccount() once.Tool[accountIn, closure] {
	return once.Tool[accountIn, closure]{
		Name:        "close_account",
		Description: "Close a customer's account for good. It can't be opened again.",
		Class:       once.Destructive,
		Permission:  "accounts:close",
		Timeout:     toolTimeout,
		Normalize:   func(in *accountIn) error { return checkAccount(in.AccountID) },
		Summary:     func(in accountIn) string { return "account " + in.AccountID },
		ExternalID:  func(c closure) string { return c.AccountID },
		Run: func(ctx context.Context, in accountIn) (closure, error) {
			token, err := b.signIn(ctx, in.AccountID)
			if err != nil {
				return closure{}, once.NotAttempted(err) // only the sign-in was sent
			}
			return b.close(ctx, token, in)
		},
		ReconcileByKey: true,
		Reconcile: func(ctx context.Context, rec ledger.Record, _ accountIn) (closure, bool, error) {
			return b.closureByKey(ctx, rec.Key.String())
		},
		Downstream: once.Downstream{KeyWindow: keyWindow, AbsenceIsProof: false},
	}
}

func checkAccount(id string) error {
	if !idPattern.MatchString(id) {
		return errors.New("account_id: want 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'")
	}
	return nil
}

func checkCredit(in *creditIn) error {
	errs := []error{checkAccount(in.AccountID)}
	if in.AmountCents <= 0 {
		errs = append(errs, fmt.Errorf("amount_cents: is %d, want more than 0", in.AmountCents))
	}
	return errors.Join(errs...)
}
