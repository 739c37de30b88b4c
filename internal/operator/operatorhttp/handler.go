// Package operatorhttp serves the operator's API over HTTP: routes, strict
// decoding, RFC 9457 problems, and the OpenAPI 3.1 document that is generated
// from the same code. Who asks comes from the request's context, put there by
// whatever stands in front, see [WithIdentity]. Start with [New].
package operatorhttp

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/onceward/onceward/internal/operator"
)

// MaxBodyBytes is the largest body that is read.
const MaxBodyBytes = 256 << 10

// Version is the API's version, as its OpenAPI document says.
const Version = "1.0.0"

//go:generate go run ./internal/reference -openapi ../../../docs/reference/openapi.yaml -problems ../../../docs/reference/problems.md

type identityKey struct{}

// WithIdentity returns a context that says who asks. Only code that has checked
// the caller's authorization may call it.
func WithIdentity(ctx context.Context, id operator.Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

func identityOf(ctx context.Context) operator.Identity {
	id, _ := ctx.Value(identityKey{}).(operator.Identity)
	return id
}

// server holds what every route needs.
type server struct {
	service *operator.Service
	log     *slog.Logger
}

// New returns the API of service. A nil log is no log; neither paths nor bodies
// are ever logged. Mount it without a mux in front that cleans paths.
func New(service *operator.Service, log *slog.Logger) (http.Handler, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &server{service: service, log: log}
	mux := http.NewServeMux()
	api := s.register(mux)
	document, err := documentOf(api)
	if err != nil {
		return nil, err
	}
	mux.HandleFunc("GET /openapi.json", serve("application/openapi+json", document.json))
	mux.HandleFunc("GET /openapi.yaml", serve("application/openapi+yaml", document.yaml))
	mux.HandleFunc("/", s.noRoute(mux))
	return s.recovered(joinKey(mux)), nil
}

func (s *server) register(mux *http.ServeMux) huma.API {
	config := huma.DefaultConfig("Onceward operator API", Version)
	config.CreateHooks = nil // no $schema links in answers
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.Formats = map[string]huma.Format{"application/json": strictJSON, "json": strictJSON} // "json" stands for the +json types
	config.RejectUnknownQueryParameters = true
	config.Transformers = []huma.Transformer{s.problems}
	describe(config.OpenAPI)
	api := humago.New(mux, config)
	s.addReads(api)
	s.addDecisions(api)
	return api
}

func serve(contentType string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body) // the client may be gone
	}
}

// keyPrefix is what precedes a key in a path.
const keyPrefix = "/v1/tool-executions/"

// joinKey lets a key that names its tenant arrive as two segments: API Gateway
// hands a function its path decoded, so that %2F has become a slash. A tenant and
// a run never hold a colon, so "a/b:c" can be nothing but a key.
func joinKey(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.EscapedPath(), keyPrefix)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		tenant, after, ok := strings.Cut(rest, "/")
		call, verb, _ := strings.Cut(after, "/")
		if !ok || hasColon(tenant) || !hasColon(call) {
			next.ServeHTTP(w, r)
			return
		}
		joined := r.Clone(r.Context())
		raw := keyPrefix + tenant + "%2F" + call
		if verb != "" {
			raw += "/" + verb
		}
		joined.URL.RawPath = raw // Path reads the same either way
		next.ServeHTTP(w, joined)
		r.Pattern = joined.Pattern
	})
}

func hasColon(segment string) bool {
	return strings.Contains(segment, ":") || strings.Contains(strings.ToUpper(segment), "%3A")
}

// noRoute answers what no route matches, and says so when only the method is
// wrong.
func (s *server) noRoute(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			other := r.Clone(r.Context())
			other.Method = method
			if _, pattern := mux.Handler(other); pattern != "/" && method != r.Method {
				w.Header().Set("Allow", method)
				write(w, operator.NewProblem(operator.MethodNotAllowed, "", nil))
				return
			}
		}
		write(w, operator.NewProblem(operator.NoRoute, "", nil))
	}
}

// recovered answers a panic as an internal problem.
func (s *server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { //nolint:contextcheck // the request's context is the one that is logged with
			if recovered := recover(); recovered != nil {
				// The value may hold anything, so only the fact is logged.
				s.log.LogAttrs(r.Context(), slog.LevelError, "a request panicked")
				write(w, operator.NewProblem(operator.Internal, "", nil))
			}
		}()
		next.ServeHTTP(w, r)
	})
}
