package faults

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
)

// maxSearched is how much of a body a rule's Contains looks at: more than the
// largest Lambda payload.
const maxSearched = 8 << 20

// Middleware returns a handler that applies the plan in front of next.
// Requests that [Identify] doesn't know are passed on uncounted; one that a
// [Duplicate] rule hands on twice counts once. A request that is delayed, sent
// twice or whose answer is dropped is handled to its end even if the sender
// hangs up.
// The handler loses connections by [http.ErrAbortHandler]: nothing between it
// and the server may recover that.
func (p *Plan) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, ok := Identify(r)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		key := AccessKeyID(r)
		if key != "" {
			req.Caller = p.options.Caller(key)
		}
		var body []byte
		if p.wantsBody(req) {
			var err error
			if body, err = peek(r); err != nil {
				// The sender broke off: whatever was wanted, no answer can reach it.
				panic(http.ErrAbortHandler)
			}
		}
		rule := p.next(req, body)
		if rule == nil {
			next.ServeHTTP(w, r)
			return
		}
		p.log(r.Context(), rule.Rule, req)
		p.apply(rule, req, key, next, w, r)
	})
}

func (p *Plan) apply(rule *armed, req Request, key string, next http.Handler, w http.ResponseWriter, r *http.Request) {
	switch rule.Effect {
	case AnswerError:
		writeError(w, req.Service, rule.Rule)
		return
	case Throttle:
		writeThrottled(w, req.Service)
		return
	case Delay:
		delay(rule, next, w, r)
		return
	case Duplicate:
		duplicate(next, w, r)
		return
	case DropRequest, Outage:
		drain(r)
	case DropAnswer:
		handleUnheard(next, r)
	case KillCallerBefore:
		p.options.Kill(key)
	case KillCallerAfter:
		handleUnheard(next, r)
		p.options.Kill(key)
	}
	panic(http.ErrAbortHandler)
}

func (p *Plan) log(ctx context.Context, rule Rule, req Request) {
	p.options.Logger.LogAttrs(ctx, slog.LevelInfo, "fault applied",
		slog.String("rule", rule.ID), slog.String("effect", string(rule.Effect)),
		slog.String("service", string(req.Service)), slog.String("operation", req.Operation),
		slog.String("function", req.Function), slog.String("caller", req.Caller))
}

// handleUnheard lets the request take its whole effect and throws the answer
// away, a connection that the service closes instead of answering too. The
// sender's end must not stop it: that would turn a lost answer into a lost
// request now and then.
func handleUnheard(next http.Handler, r *http.Request) {
	defer func() {
		v := recover()
		if err, ok := v.(error); v != nil && (!ok || !errors.Is(err, http.ErrAbortHandler)) {
			panic(v)
		}
	}()
	next.ServeHTTP(unheard{}, r.WithContext(context.WithoutCancel(r.Context())))
}

// unheard is a ResponseWriter whose answer nobody gets.
type unheard http.Header

func (u unheard) Header() http.Header { return http.Header(u) }

func (u unheard) Write(b []byte) (int, error) { return len(b), nil }

func (u unheard) WriteHeader(int) {}

// drain reads the body away, so that the sender sees a connection closed after
// it wrote its request, not a write that failed, which it could tell apart.
func drain(r *http.Request) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxSearched))
	}
}

// peek returns the start of the body and leaves the request as it was.
func peek(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	head, err := io.ReadAll(io.LimitReader(r.Body, maxSearched))
	if err != nil {
		return nil, err
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), r.Body), r.Body}
	return head, nil
}
