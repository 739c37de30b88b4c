package once

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
)

// connections is what is known of the connections that one request asked for.
// net/http tells it of each before it writes to it, and dials again, or takes
// another idle one, within one RoundTrip.
type connections struct{ wanted, got atomic.Bool }

// watch returns ctx with a trace beside the one that it may have.
func (c *connections) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { c.wanted.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { c.got.Store(true) },
	})
}

// none reports whether the request had no connection that it could be written
// to. Only net/http's own transport is trusted with that: another one may send by
// ways that it does not trace, and so may a protocol that was registered with it,
// which then does not ask for a connection either.
func (c *connections) none(base http.RoundTripper) bool {
	_, known := base.(*http.Transport)
	return known && c.wanted.Load() && !c.got.Load()
}

// unconnected is why no connection came up. Its text is stored and told, so it
// names no address; what net/http said is there for those who unwrap it.
type unconnected struct{ cause error }

func (u unconnected) Error() string {
	return "nothing was sent: " + u.reason()
}

func (u unconnected) Unwrap() error { return u.cause }

func (u unconnected) reason() string {
	_, unresolved := errors.AsType[*net.DNSError](u.cause)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](u.cause)
	_, alert := errors.AsType[tls.AlertError](u.cause)
	_, noTLS := errors.AsType[tls.RecordHeaderError](u.cause)
	timeout, ok := errors.AsType[net.Error](u.cause)
	switch {
	case unresolved:
		return "the receiver's name can't be resolved"
	case untrusted || alert || noTLS:
		return "the TLS handshake failed"
	case errors.Is(u.cause, syscall.ECONNREFUSED):
		return "the receiver refused the connection"
	case errors.Is(u.cause, context.DeadlineExceeded), ok && timeout.Timeout():
		return "no connection came up in time"
	}
	return "no connection came up"
}
