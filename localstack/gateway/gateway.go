// Package gateway plays Amazon API Gateway (an HTTP API with a JWT authorizer,
// payload format 2.0) in front of one Lambda function, for one machine. It turns
// requests under /v1/ into events and answers back. Its authorizer believes what
// a development token says, so it serves loopback only. Start with [New].
//
// # Paths
//
// An HTTP API hands rawPath, requestContext.http.path and pathParameters to the
// function percent-decoded, unlike REST APIs and function URLs, and cuts a path
// at a decoded question mark. AWS's guide does not say so; reports from deployed
// APIs agree on it. So does this package: %3A arrives as ':', and %2F as '/',
// which a function cannot tell from a separator. A function that takes a key with
// slashes from a path must take everything between what precedes and what follows
// it; a client that needs the slash kept apart encodes it twice (%252F arrives as
// %2F). The query string stays as the client encoded it.
//
// # Differences from API Gateway
//
// The Authorization header is not forwarded, so that no function comes to read
// identity from it. A request may name its scopes. A 401 says in detail what is
// wrong with the token. There is no throttling, CORS or
// access log. MultiValueHeaders of a response are sent, though AWS documents them
// only for format 1.0.
package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Limits of the service that is played.
const (
	Timeout         = 30 * time.Second // longest wait for the function, then 503
	MaxBodyBytes    = 10 << 20         // larger requests are 413
	MaxPayloadBytes = 6 << 20          // larger events are 413: Lambda would refuse them
)

// PathPrefix is where the API's only route begins.
const PathPrefix = "/v1/"

// RouteKey is the API's only route.
const RouteKey = "ANY /v1/{proxy+}"

// Invoke runs the function synchronously with payload, as Lambda's Invoke does.
// functionError is the value of X-Amz-Function-Error, empty for a success; err
// means that Lambda itself did not answer. ctx ends only with [Gateway.Close]:
// like on AWS, an invocation outlives the wait for it. It must be safe for
// concurrent use.
type Invoke func(ctx context.Context, payload []byte) (response []byte, functionError string, err error)

// Options adjust a gateway; the zero value is complete but for Scopes.
type Options struct {
	Scopes    []string         // of a token that names none; default none
	Timeout   time.Duration    // default and maximum [Timeout]
	Now       func() time.Time // default time.Now
	RequestID func() string    // default: random
	Logger    *slog.Logger     // default: no logs; paths, headers and bodies are never logged
}

// Gateway is an [http.Handler]; safe for concurrent use. Mount it without a mux
// that cleans paths.
type Gateway struct {
	invoke  Invoke
	opts    Options
	closed  chan struct{}
	close   sync.Once
	running sync.WaitGroup
}

// New returns a gateway in front of the function that invoke runs.
func New(invoke Invoke, opts Options) (*Gateway, error) {
	if invoke == nil {
		return nil, errors.New("gateway: invoke is required")
	}
	if opts.Timeout < 0 || opts.Timeout > Timeout {
		return nil, errors.New("gateway: the timeout must be at most 30 seconds, as on AWS")
	}
	for _, scope := range opts.Scopes {
		if !scopePattern.MatchString(scope) {
			return nil, errors.New("gateway: a scope must be visible ASCII without comma, quote or backslash")
		}
	}
	if opts.Timeout == 0 {
		opts.Timeout = Timeout
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.RequestID == nil {
		opts.RequestID = randomID
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Gateway{invoke: invoke, opts: opts, closed: make(chan struct{})}, nil
}

// Close ends the context of invocations under way, also of those that nobody
// waits for any more, and returns when they have ended. Stop serving first.
func (g *Gateway) Close() {
	g.close.Do(func() { close(g.closed) })
	g.running.Wait()
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := g.opts.RequestID()
	w.Header().Set("Apigw-Requestid", id)
	status := g.serve(w, r, id)
	g.opts.Logger.LogAttrs(r.Context(), slog.LevelInfo, "request", slog.String("request_id", id),
		slog.String("method", r.Method), slog.Int("status", status))
}

func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, id string) (status int) {
	source, ok := loopback(r.RemoteAddr)
	if !ok {
		return message(w, http.StatusForbidden)
	}
	if !strings.HasPrefix(r.URL.Path, PathPrefix) {
		return message(w, http.StatusNotFound)
	}
	identity, err := authorize(r.Header.Values("Authorization"), g.opts.Scopes)
	if err != nil {
		w.Header().Set("Www-Authenticate", `Bearer scope="" error="invalid_token" error_description="`+err.Error()+`"`)
		return unauthorized(w, err)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return message(w, http.StatusRequestEntityTooLarge)
	}
	if err != nil {
		return message(w, http.StatusBadRequest)
	}
	payload, err := json.Marshal(newEvent(r, body, arrival{id: id, source: source, at: g.opts.Now(), identity: identity}))
	if err != nil {
		return message(w, http.StatusInternalServerError)
	}
	if len(payload) > MaxPayloadBytes {
		return message(w, http.StatusRequestEntityTooLarge)
	}
	return g.forward(w, r, payload)
}

// forward invokes the function and answers for it.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request, payload []byte) (status int) {
	timer := time.NewTimer(g.opts.Timeout)
	defer timer.Stop()
	select {
	case out := <-g.start(context.WithoutCancel(r.Context()), payload):
		if out.err != nil {
			g.opts.Logger.LogAttrs(r.Context(), slog.LevelError, "lambda did not answer", slog.Any("error", out.err))
			return message(w, http.StatusInternalServerError)
		}
		if out.functionError != "" {
			return message(w, http.StatusInternalServerError)
		}
		answer, err := parseResponse(out.response)
		if err != nil {
			g.opts.Logger.LogAttrs(r.Context(), slog.LevelError, "malformed response", slog.Any("error", err))
			return message(w, http.StatusInternalServerError)
		}
		return answer.send(w)
	case <-timer.C:
		return message(w, http.StatusServiceUnavailable)
	}
}

type outcome struct {
	response      []byte
	functionError string
	err           error
}

// start invokes in the background: an invocation goes on when the client has
// gone or the gateway's patience is over, as on AWS.
func (g *Gateway) start(ctx context.Context, payload []byte) <-chan outcome {
	done := make(chan outcome, 1)
	ctx, cancel := context.WithCancel(ctx)
	g.running.Go(func() {
		defer cancel()
		var out outcome
		out.response, out.functionError, out.err = g.invoke(ctx, payload)
		done <- out
	})
	go func() {
		select {
		case <-g.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	return done
}

// loopback returns the address of a peer on this machine.
func loopback(remote string) (string, bool) {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return "", false
	}
	ip := net.ParseIP(host)
	return host, ip != nil && ip.IsLoopback()
}

// unauthorized answers as API Gateway does, and says more: whoever sees it here
// has mistyped a token.
func unauthorized(w http.ResponseWriter, why error) int {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	body, _ := json.Marshal(struct { // two texts: it can't fail
		Message string `json:"message"`
		Detail  string `json:"detail"`
	}{http.StatusText(http.StatusUnauthorized), "nothing was changed: " + why.Error() + "; send Authorization: Bearer " + howToSignIn})
	_, _ = w.Write(body) // the client may be gone
	return http.StatusUnauthorized
}

// message answers as API Gateway does for itself.
func message(w http.ResponseWriter, status int) int {
	text := http.StatusText(status)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"message":"`+text+`"}`) // the client may be gone
	return status
}
