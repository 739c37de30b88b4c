package main

import (
	"context"
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

// voidCredit takes back the credit that came of rec's call, under the undo's key.
// Until the void itself is sent nothing has happened, so whatever fails before
// says so.
func (b *billingTools) voidCredit(ctx context.Context, rec ledger.Record) error {
	if landed, err := b.earlierVoid(ctx, rec.Key); err != nil {
		return once.NotAttempted(errors.New("billing could not be asked about earlier undos"))
	} else if landed != "" {
		return once.Landed(landed, errors.New("an earlier undo has voided the credit"))
	}
	c, err := b.creditToVoid(ctx, rec)
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

// creditToVoid returns the credit that stands under the key of rec's call, and no
// other. The id on record may be the word of a person who settled the call: with
// a typing error in it, it names somebody else's credit.
func (b *billingTools) creditToVoid(ctx context.Context, rec ledger.Record) (credit, error) {
	c, found, err := b.creditByKey(ctx, rec.Key.String())
	switch id := rec.Outcome.ExternalID; {
	case err != nil:
		return credit{}, once.NotAttempted(errors.New("billing could not be asked for the credit"))
	case !found:
		return credit{}, once.Rejected(errors.New("nothing stands under this call's key; undo it by hand"))
	case id != "" && id != c.CreditID:
		return credit{}, once.Rejected(errors.New("another credit stands under this call's key than the record names; undo it by hand"))
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
