package main

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

	"github.com/onceward/onceward/middleware/once"
)

// maxAnswer is the largest answer that is read.
const maxAnswer = 1 << 20

// billingTools speaks to the billing service; safe for concurrent use.
type billingTools struct {
	base   string
	client string
	plain  *http.Client // reads and sign-in
	writes *http.Client // adds the call's key, refuses to send outside a call or past its deadline
}

func newBilling(base, client string) (*billingTools, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("billing-tools: the billing service's address is not an http URL")
	}
	return &billingTools{
		base: strings.TrimSuffix(base, "/"), client: client,
		plain:  &http.Client{CheckRedirect: stay},
		writes: &http.Client{CheckRedirect: stay, Transport: &once.Transport{}},
	}, nil
}

// stay keeps a client from following a redirect: it would send a write twice.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// refusals are the answers to a write that say definitely that it changed
// nothing. Anything else may have taken effect.
var refusals = map[int]string{
	http.StatusBadRequest:          "billing found the request malformed",
	http.StatusUnauthorized:        "billing does not accept the session",
	http.StatusForbidden:           "billing does not allow it",
	http.StatusNotFound:            "billing knows no such account or credit",
	http.StatusConflict:            "billing says that the key belongs to another request",
	http.StatusUnprocessableEntity: "billing refused it",
}

// statusError is an answer that is not a success. It never repeats the answer's
// text, which may hold anything.
type statusError struct {
	status int
	code   string // a word, or ""
}

func (e *statusError) Error() string {
	return fmt.Sprintf("billing answered %d %s", e.status, e.code)
}

var errExpired = errors.New("credentials have expired")

// signIn returns a session's token. Nothing that changes money is sent.
func (b *billingTools) signIn(ctx context.Context, account string) (token string, err error) {
	var session struct {
		Token string `json:"token"`
	}
	in := map[string]string{"client_id": b.client, "account_id": account}
	err = b.do(ctx, b.plain, http.MethodPost, "/sessions", "", in, &session)
	if answer, ok := errors.AsType[*statusError](err); ok && answer.status == http.StatusUnauthorized {
		return "", errExpired
	}
	if err != nil || session.Token == "" {
		return "", errors.New("signing in to billing failed")
	}
	return session.Token, nil
}

// refused marks a definite refusal; other answers stay unknown.
func refused(answer *statusError) error {
	sentence, definite := refusals[answer.status]
	if !definite || answer.status == http.StatusConflict && answer.code != "key_reused" {
		return answer
	}
	if answer.code != "" {
		sentence += " (" + answer.code + ")"
	}
	return once.Rejected(errors.New(sentence))
}

// write sends one change under the call's key and reads its answer into out.
func (b *billingTools) write(ctx context.Context, path, token string, in, out any) error {
	err := b.do(ctx, b.writes, http.MethodPost, path, token, in, out)
	if answer, ok := errors.AsType[*statusError](err); ok {
		return refused(answer)
	}
	return err
}

// byKey asks billing what it keeps under a key at path: nothing or one. An error
// means that nobody can tell.
func byKey[T any](ctx context.Context, b *billingTools, path, key string) (found []T, err error) {
	var keys []struct {
		Key string `json:"key"`
	}
	var all json.RawMessage
	if err := b.do(ctx, b.plain, http.MethodGet, path+"?key="+url.QueryEscape(key), "", nil, &all); err != nil {
		return nil, err
	}
	if err := errors.Join(json.Unmarshal(all, &keys), json.Unmarshal(all, &found)); err != nil || len(keys) > 1 || len(keys) == 1 && keys[0].Key != key {
		return nil, errors.New("billing answered something else than what it keeps under the key")
	}
	return found, nil
}

func (b *billingTools) order(ctx context.Context, id string) (order, error) {
	var out order
	err := b.do(ctx, b.plain, http.MethodGet, "/orders/"+url.PathEscape(id), "", nil, &out)
	if answer, ok := errors.AsType[*statusError](err); ok && answer.status == http.StatusNotFound {
		return order{}, once.Rejected(errors.New("there is no such order"))
	}
	return out, err
}

// do sends one request and reads its answer into out. Every error but a
// [statusError] means that no whole answer came.
func (b *billingTools) do(ctx context.Context, client *http.Client, method, path, token string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("billing-tools: encoding: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, b.base+path, body)
	if err != nil {
		return fmt.Errorf("billing-tools: request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("billing-tools: no answer: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // everything that counts has been read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("billing-tools: half an answer: %w", err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return &statusError{status: resp.StatusCode, code: codeIn(text)}
	}
	if err := json.Unmarshal(text, out); err != nil {
		return errors.New("billing-tools: the answer can't be read")
	}
	return nil
}

// codeIn returns the answer's code if it is a plain word.
func codeIn(text []byte) string {
	var answer struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(text, &answer) != nil || len(answer.Code) > 40 || strings.Trim(answer.Code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return ""
	}
	return answer.Code
}
