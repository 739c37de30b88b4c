package billing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// Client speaks to one billing service; safe for concurrent use. Any error but
// a [StatusError] means that no answer came: a write may have taken effect.
type Client struct {
	base  string
	http  *http.Client
	token atomic.Pointer[string]
}

// NewClient returns a client of the service at base, such as
// http://127.0.0.1:4567. A nil httpClient means one that uses each connection
// once, because net/http re-sends a keyed request by itself when a connection
// that it used before breaks, which hides lost answers.
func NewClient(base string, httpClient *http.Client) *Client {
	if httpClient == nil {
		httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	}
	return &Client{base: strings.TrimSuffix(base, "/"), http: httpClient}
}

// SignIn gets a token and uses it for the client's later writes. An account is
// optional.
func (c *Client) SignIn(ctx context.Context, clientID, account string) (Session, error) {
	var out Session
	_, err := c.do(ctx, http.MethodPost, "/sessions", "", SessionRequest{ClientID: clientID, AccountID: account}, &out)
	if err == nil {
		c.token.Store(&out.Token)
	}
	return out, err
}

// Order returns the order with this id.
func (c *Client) Order(ctx context.Context, id string) (Order, error) {
	var out Order
	_, err := c.do(ctx, http.MethodGet, "/orders/"+url.PathEscape(id), "", nil, &out)
	return out, err
}

// Credit credits an account and reports whether the answer was that of an
// earlier request under the same key. An empty key sends none.
func (c *Client) Credit(ctx context.Context, key string, req CreditRequest) (credit Credit, replayed bool, err error) {
	replayed, err = c.do(ctx, http.MethodPost, "/credits", key, req, &credit)
	return credit, replayed, err
}

// CreditsByKey returns the credit of a key: none or one.
func (c *Client) CreditsByKey(ctx context.Context, key string) ([]Credit, error) {
	return c.credits(ctx, url.Values{"key": {key}})
}

// CreditsByAccount returns every credit of an account, oldest first.
func (c *Client) CreditsByAccount(ctx context.Context, account string) ([]Credit, error) {
	return c.credits(ctx, url.Values{"account_id": {account}})
}

func (c *Client) credits(ctx context.Context, query url.Values) ([]Credit, error) {
	var out []Credit
	_, err := c.do(ctx, http.MethodGet, "/credits?"+query.Encode(), "", nil, &out)
	return out, err
}

// Void undoes a credit. An empty key sends none.
func (c *Client) Void(ctx context.Context, key, creditID string) (void Void, replayed bool, err error) {
	replayed, err = c.do(ctx, http.MethodPost, "/credits/"+url.PathEscape(creditID)+"/void", key, nil, &void)
	return void, replayed, err
}

// VoidsByKey returns the void of a key: none or one.
func (c *Client) VoidsByKey(ctx context.Context, key string) (found []Void, err error) {
	_, err = c.do(ctx, http.MethodGet, "/voids?"+url.Values{"key": {key}}.Encode(), "", nil, &found)
	return found, err
}

// CloseAccount ends an account. An empty key sends none.
func (c *Client) CloseAccount(ctx context.Context, key, account string) (closure Closure, replayed bool, err error) {
	replayed, err = c.do(ctx, http.MethodPost, "/accounts/"+url.PathEscape(account)+"/close", key, nil, &closure)
	return closure, replayed, err
}

// ClosuresByKey returns the closure of a key: none or one.
func (c *Client) ClosuresByKey(ctx context.Context, key string) (found []Closure, err error) {
	_, err = c.do(ctx, http.MethodGet, "/closures?"+url.Values{"key": {key}}.Encode(), "", nil, &found)
	return found, err
}

// AccountEffects counts what took effect on an account.
func (c *Client) AccountEffects(ctx context.Context, account string) (Effects, error) {
	return c.effects(ctx, url.Values{"account_id": {account}})
}

// KeyEffects counts what took effect under keys with a prefix, which may be a
// run id with or without its tenant, a whole key, or anything that ends with
// one of ":/~-_".
func (c *Client) KeyEffects(ctx context.Context, prefix string) (Effects, error) {
	return c.effects(ctx, url.Values{"key_prefix": {prefix}})
}

func (c *Client) effects(ctx context.Context, query url.Values) (Effects, error) {
	var out Effects
	_, err := c.do(ctx, http.MethodGet, "/_effects?"+query.Encode(), "", nil, &out)
	return out, err
}

// Arm adds a fault rule and returns it with its id.
func (c *Client) Arm(ctx context.Context, rule Rule) (Rule, error) {
	var out Rule
	_, err := c.do(ctx, http.MethodPost, "/_faults", "", rule, &out)
	return out, err
}

// Armed returns the fault rules with their counts.
func (c *Client) Armed(ctx context.Context) ([]Rule, error) {
	var out []Rule
	_, err := c.do(ctx, http.MethodGet, "/_faults", "", nil, &out)
	return out, err
}

// Disarm removes all fault rules. Test accounts keep misbehaving.
func (c *Client) Disarm(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodDelete, "/_faults", "", nil, nil)
	return err
}

// TestAccounts returns the service's table of test accounts.
func (c *Client) TestAccounts(ctx context.Context) ([]TestAccount, error) {
	var out []TestAccount
	_, err := c.do(ctx, http.MethodGet, "/_test-accounts", "", nil, &out)
	return out, err
}

func (c *Client) do(ctx context.Context, method, path, key string, in, out any) (replayed bool, err error) {
	var body io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return false, fmt.Errorf("billing: encoding request: %w", err)
		}
		body = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return false, fmt.Errorf("billing: making request: %w", err)
	}
	if key != "" {
		req.Header.Set(HeaderKey, key)
	}
	if token := c.token.Load(); token != nil {
		req.Header.Set("Authorization", "Bearer "+*token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false, fmt.Errorf("billing: no answer: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return false, fmt.Errorf("billing: half an answer: %w", err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return false, statusError(resp.StatusCode, answer)
	}
	if out != nil {
		if err := json.Unmarshal(answer, out); err != nil {
			return false, fmt.Errorf("billing: unreadable answer: %w", err)
		}
	}
	return resp.Header.Get(HeaderReplayed) == "true", nil
}

func statusError(status int, answer []byte) error {
	out := &StatusError{}
	if err := json.Unmarshal(answer, out); err != nil {
		out = &StatusError{Message: "the answer is not the service's own"}
	}
	out.Status = status
	return out
}
