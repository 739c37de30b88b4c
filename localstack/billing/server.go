package billing

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// server answers the requests of the package comment; safe for concurrent use.
type server struct {
	store    *store
	rules    rules
	sessions signer
	log      *slog.Logger
}

// call is a request, known well enough to decide whether a fault strikes it.
type call struct {
	op      Operation
	account string
	key     string
	first   bool // of its key
	run     func() (reply, error)
}

func newServer(s *store, cfg Config) (*server, error) {
	secret, err := s.secret()
	if err != nil {
		return nil, err
	}
	return &server{store: s, sessions: signer{secret: secret, lifetime: cfg.SessionLifetime, now: cfg.Now}, log: cfg.Logger}, nil
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /sessions", s.serve(s.signIn))
	mux.HandleFunc("GET /orders/{id}", s.serve(s.getOrder))
	mux.HandleFunc("POST /credits", s.serve(s.authenticated(s.postCredit)))
	mux.HandleFunc("GET /credits", s.serve(s.getCredits))
	mux.HandleFunc("POST /credits/{id}/void", s.serve(s.authenticated(s.postVoid)))
	mux.HandleFunc("GET /voids", s.serve(lookup[Void](s.store, OpVoid)))
	mux.HandleFunc("POST /accounts/{id}/close", s.serve(s.authenticated(s.postClose)))
	mux.HandleFunc("GET /closures", s.serve(lookup[Closure](s.store, OpClose)))
	mux.HandleFunc("GET /_effects", s.plain(s.getEffects))
	mux.HandleFunc("GET /_faults", s.plain(s.getFaults))
	mux.HandleFunc("POST /_faults", s.plain(s.postFault))
	mux.HandleFunc("DELETE /_faults", s.plain(s.deleteFaults))
	mux.HandleFunc("GET /_test-accounts", s.plain(getTestAccounts))
	mux.HandleFunc("/", s.plain(noRoute))
	return mux
}

type (
	// parse checks a request before anything is changed and says what it asks for.
	parse func(w http.ResponseWriter, r *http.Request) (call, error)
	plain func(w http.ResponseWriter, r *http.Request) (reply, error)
)

func (s *server) plain(f plain) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := f(w, r)
		if err != nil {
			answer = s.failure(r.Context(), err)
		}
		answer.send(w)
	}
}

// authenticated lets f see only requests that carry a valid token.
func (s *server) authenticated(f parse) parse {
	return func(w http.ResponseWriter, r *http.Request) (call, error) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || !s.sessions.valid(token) {
			return call{}, &StatusError{Status: http.StatusUnauthorized, Code: CodeSessionInvalid, Message: "sign in first: the token is missing, expired or not ours"}
		}
		return f(w, r)
	}
}

func (s *server) serve(f parse) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := f(w, r)
		if err == nil {
			err = s.arrive(&c)
		}
		if err != nil {
			s.failure(r.Context(), err).send(w)
			return
		}
		s.perform(w, r, c)
	}
}

// arrive counts a write before its fault is decided, and finds the account of a look-up by key.
func (s *server) arrive(c *call) (err error) {
	switch c.op {
	case OpCredit, OpVoid, OpClose:
		c.first, err = s.store.recordSend(send{Operation: c.op, AccountID: c.account, Key: c.key})
	case OpLookup:
		if c.account == "" {
			c.account, err = s.store.accountOf(c.key)
		}
	case OpSession, OpOrder:
	}
	return err
}

// perform answers c, or misbehaves as the fault that strikes it says.
func (s *server) perform(w http.ResponseWriter, r *http.Request, c call) {
	fault := s.rules.strike(c)
	if fault == FaultNone {
		fault = testAccountFault(c, c.first)
	}
	if fault != FaultNone {
		s.log.LogAttrs(r.Context(), slog.LevelInfo, "fault", slog.String("operation", string(c.op)), slog.String("fault", string(fault)))
	}
	switch fault {
	case FaultNone:
		s.run(r.Context(), c).send(w)
	case FaultLoseAnswer:
		s.run(r.Context(), c)
		panic(http.ErrAbortHandler) // net/http closes the connection without an answer
	case FaultDropRequest:
		panic(http.ErrAbortHandler)
	case FaultError500After:
		s.run(r.Context(), c)
		s.injected(w, http.StatusInternalServerError, CodeServerError)
	case FaultError500Before:
		s.injected(w, http.StatusInternalServerError, CodeServerError)
	case FaultRefuse422:
		s.injected(w, http.StatusUnprocessableEntity, CodeRefused)
	case FaultHangAfter:
		s.run(r.Context(), c)
		hang(r.Context())
	case FaultHangBefore:
		hang(r.Context())
	case FaultUnavailable503:
		w.Header().Set("Retry-After", "1")
		s.injected(w, http.StatusServiceUnavailable, CodeUnavailable)
	case FaultExpired401:
		s.injected(w, http.StatusUnauthorized, CodeCredentialsExpired)
	}
}

// hang returns never to the handler: once the client or the server has given up there is nobody to answer.
func hang(ctx context.Context) {
	<-ctx.Done()
	panic(http.ErrAbortHandler)
}

func (s *server) run(ctx context.Context, c call) reply {
	start := time.Now()
	answer, err := c.run()
	if err != nil {
		answer = s.failure(ctx, err)
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "served", slog.String("operation", string(c.op)), slog.Int("status", answer.status),
		slog.Bool("replayed", answer.replayed), slog.Duration("took", time.Since(start)))
	return answer
}

func (s *server) injected(w http.ResponseWriter, status int, code string) {
	answer, _ := replyJSON(status, &StatusError{Code: code, Message: "this answer was ordered by a fault rule or a test account"}) // three strings always encode
	answer.send(w)
}

func (s *server) failure(ctx context.Context, err error) reply {
	status := asStatus(err)
	if status.Status >= http.StatusInternalServerError {
		s.log.LogAttrs(ctx, slog.LevelError, "failed", slog.Any("error", err))
	}
	answer, _ := replyJSON(status.Status, status) // two strings always encode
	return answer
}
