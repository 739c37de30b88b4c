package main

import (
	"context"
	"errors"
	"net/url"
)

func (b *billingTools) close(ctx context.Context, token string, in accountIn) (closure, error) {
	var out closure
	err := b.write(ctx, "/accounts/"+url.PathEscape(in.AccountID)+"/close", token, nil, &out)
	if err == nil && (out.AccountID != in.AccountID || !out.Closed) {
		err = errors.New("billing answered something else than this closing")
	}
	return out, err
}

// closureByKey looks up whether a call has closed its account. One that somebody
// else has closed does not count.
func (b *billingTools) closureByKey(ctx context.Context, key string) (out closure, found bool, err error) {
	all, err := byKey[closure](ctx, b, "/closures", key)
	switch {
	case err != nil || len(all) == 0:
		return closure{}, false, err
	case all[0].AccountID == "" || !all[0].Closed:
		return closure{}, false, errors.New("billing answered a closing of nothing")
	}
	return all[0], true, nil
}
