package once

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/onceward/onceward/middleware/ledger"
)

// Transport is an [http.RoundTripper] for a tool's own requests. To every write,
// which is anything but GET and HEAD, it adds the call's key. It sends no write
// outside a guarded call, from a look-up or after the call's hard deadline, and
// keeps net/http from sending a write again by itself when a kept-alive connection
// dies. A call's only write is marked [NotAttempted] if Transport refused it for its deadline,
// or if no connection for it came up, so that no byte of it can have left: the
// receiver refused it, its name can't be resolved, the TLS handshake failed. Any
// other failure is left unmarked and so unknown, and so is one after another
// write of the same attempt, of a write outside the call's own context and of a
// Base that is no [http.Transport]. The zero value works; it is safe for
// concurrent use.
type Transport struct {
	// Base sends the requests. Defaults to http.DefaultTransport.
	Base http.RoundTripper

	// Header carries the key. Defaults to "Idempotency-Key".
	Header string

	// Short sends [ledger.Key.Short], 26 letters and digits, for receivers with
	// a length limit. Defaults to the whole key.
	Short bool
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	a, guarded := r.Context().Value(callKey{}).(*attempt)
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == "" {
		return base.RoundTrip(r)
	}
	if err := sendable(a, guarded); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper always closes it
		}
		return nil, err
	}
	a.writes.Add(1)
	// A connection that is slow to come up must not write after the deadline,
	// also when the tool took the request's context from somewhere else.
	ctx, cancel := context.WithTimeout(r.Context(), a.call.Deadline.Sub(a.clock()))
	var seen connections
	r = r.Clone(seen.watch(ctx))
	t.setKey(r.Header, a.call.Key)
	resp, err := base.RoundTrip(r)
	if err != nil {
		cancel()
		if seen.none(base) {
			a.writes.Add(-1)
			return nil, notAttempted(unconnected{err}, a)
		}
		return resp, err
	}
	resp.Body = &cancelBody{resp.Body, cancel}
	return resp, nil
}

var (
	errUnguarded = errors.New("once: Transport: the request's context does not come from a guarded call")
	errLookUp    = errors.New("once: Transport: a look-up must not write")
	errDeadline  = errors.New("once: Transport: the call's deadline is over")
)

// sendable returns why a write must not leave. Only the refusal of an attempt's
// own write says something about the attempt.
func sendable(a *attempt, guarded bool) error {
	switch {
	case !guarded:
		return errUnguarded
	case a.lookUp:
		return errLookUp
	case !a.clock().Before(a.call.Deadline):
		return notAttempted(errDeadline, a)
	}
	return nil
}

// notAttempted says of attempt a that nothing was sent, as far as this request goes.
func notAttempted(err error, a *attempt) error {
	return mark(err, ledger.Settlement{Effect: ledger.NoEffect, Retryable: true, Code: codeNotAttempted}, a)
}

// setKey sets the key under its lower-case name. net/http takes a canonical
// Idempotency-Key or X-Idempotency-Key for leave to send again by itself; under
// a map key in lower case it does not know the header, and sends it all the same.
func (t *Transport) setKey(h http.Header, key ledger.Key) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
	name, value := t.Header, key.String()
	if name == "" {
		name = "Idempotency-Key"
	}
	if t.Short {
		value = key.Short()
	}
	h.Del(name)
	h[strings.ToLower(name)] = []string{value}
}

// cancelBody ends the request's context with the response.
type cancelBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *cancelBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
