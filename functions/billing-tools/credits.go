package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

func (b *billingTools) credit(ctx context.Context, token string, in creditIn) (credit, error) {
	var out credit
	err := b.write(ctx, "/credits", token, in, &out)
	if err == nil && (out.CreditID == "" || out.AccountID != in.AccountID || out.AmountCents != in.AmountCents) {
		err = errors.New("billing answered something else than this credit")
	}
	return out, err
}

// creditByKey looks a credit up. An error means that nobody can tell.
func (b *billingTools) creditByKey(ctx context.Context, key string) (out credit, found bool, err error) {
	all, err := byKey[credit](ctx, b, "/credits", key)
	switch {
	case err != nil || len(all) == 0:
		return credit{}, false, err
	case all[0].CreditID == "":
		return credit{}, false, errors.New("billing answered a credit without an id")
	}
	return all[0], true, nil
}

type void struct {
	VoidID   string `json:"void_id"`
	CreditID string `json:"credit_id"`
}

// voidCredit takes back the credit that rec stands for, under the undo's key. Until the
// void itself is sent nothing has happened, so whatever fails before says so.
func (b *billingTools) voidCredit(ctx context.Context, rec ledger.Record) error {
	if landed, err := b.earlierVoid(ctx, rec.Key); err != nil {
		return once.NotAttempted(errors.New("billing could not be asked about earlier undos"))
	} else if landed != "" {
		return once.Landed(landed, errors.New("an earlier undo has voided the credit"))
	}
	c, err := b.creditOf(ctx, rec)
	if err != nil {
		return err
	}
	token, err := b.signIn(ctx, c.AccountID)
	if err != nil {
		return once.NotAttempted(err)
	}
	var out void
	err = b.write(ctx, "/credits/"+url.PathEscape(c.CreditID)+"/void", token, nil, &out)
	if err == nil && (out.VoidID == "" || out.CreditID != c.CreditID) {
		err = errors.New("billing answered something else than this void")
	}
	return err
}

// creditOf returns the credit that rec stands for. A call whose outcome is not
// known has no id on record, so billing is asked for what came under its key.
func (b *billingTools) creditOf(ctx context.Context, rec ledger.Record) (credit, error) {
	var c credit
	if id := rec.Outcome.ExternalID; id != "" {
		_ = json.Unmarshal(rec.Outcome.Result, &c) // for the account, which signing in does not need
		c.CreditID = id
		return c, nil
	}
	c, found, err := b.creditByKey(ctx, rec.Key.String())
	if err != nil {
		return credit{}, once.NotAttempted(errors.New("billing could not be asked for the credit"))
	}
	if !found {
		return credit{}, once.Rejected(errors.New("nothing to void"))
	}
	return c, nil
}

// earlierVoid returns the void of an undo before this one, if there is any: it
// was called failed, and billing voids one credit as often as it is asked under
// new keys.
func (b *billingTools) earlierVoid(ctx context.Context, owner ledger.Key) (id string, err error) {
	_, n, _ := once.CallFrom(ctx).Key.UndoOf()
	for earlier := 1; earlier < n; earlier++ {
		found, err := byKey[void](ctx, b, "/voids", owner.Undo(earlier).String())
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return found[0].VoidID, nil
		}
	}
	return "", nil
}
