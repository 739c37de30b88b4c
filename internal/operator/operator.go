// Package operator holds what people may do about calls: list the ones that
// need somebody, look at one, settle it, approve or deny it, ask its look-up, have
// its effect undone; and about runs: see them, start them, resume them. A decision
// is a compare-and-set on the ledger first; only then is anything run or woken.
// [Service.Tend] is what needs nobody. It knows no HTTP and no AWS client;
// operatorhttp serves it. Start with [New].
package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/doorbell"
	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/toolcall"
	"github.com/onceward/onceward/middleware/ledger"
)

// Scope is what an identity may do.
type Scope string

// The scopes.
const (
	ReadCalls   Scope = "calls:read"
	DecideCalls Scope = "calls:decide"
	DriveRuns   Scope = "runs:drive"
)

// Identity is who asks, as the authorizer says; never taken from a request's
// body. Tenant "" is the only tenant of a deployment without tenants.
type Identity struct {
	Tenant string
	Actor  string
	Scopes []string
}

// May returns nil if the identity names an actor and a well-formed tenant, or
// none, and holds the scope, otherwise a problem. Nothing was read or changed.
func (id Identity) May(scope Scope) error {
	if id.Actor == "" {
		return problem(MissingIdentity, "")
	}
	if (ledger.Key{Tenant: id.Tenant, RunID: "any", CallID: "any"}).Check() != nil {
		return problem(InvalidTenant, "") // stores have names of their own for what is no tenant
	}
	if !slices.Contains(id.Scopes, string(scope)) {
		return problem(MissingScope, "this request needs the scope "+string(scope))
	}
	return nil
}

// History reads a call's decisions and evidence, those that its record no longer
// holds too, the oldest first.
type History interface {
	History(ctx context.Context, key ledger.Key) ([]ledger.Entry, error)
}

// Config is what a [Service] works with. Store, Waits, Runs, Tools and Bell are
// required.
type Config struct {
	Store ledger.Store
	Waits ledger.Waits
	Runs  runs.Store
	Tools toolcall.Functions
	Bell  doorbell.Doorbell

	// Launcher starts and resumes runs. Without one, which is the default and enough
	// for whoever only tends calls, each such request is refused as internal.
	Launcher Launcher

	// Machine looks at the executions that drive runs. Without one, which is the
	// default, nothing is said of them.
	Machine executions.Machine

	// History adds entries that a record no longer holds. Defaults to none.
	History History

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time

	// NewID makes random ids for writes and decisions. Defaults to rand.Text.
	NewID func() string

	// Log gets what went wrong behind an answer, never arguments, results or
	// tokens. Defaults to nowhere.
	Log *slog.Logger

	// LookUpEvery is the least time between two look-ups of an unknown call that
	// nobody asked for. The longer a call has been unknown the more seldom it is
	// looked up, at last once an hour. Defaults to a minute.
	LookUpEvery time.Duration

	// Reserve is kept of a context's time for the answer, and as much again of
	// a look-up's for reading what it found. Defaults to 2 s.
	Reserve time.Duration
}

// Service carries out the operations. It is safe for concurrent use.
type Service struct {
	cfg Config
}

// New returns a service, or an error that names everything that is missing.
func New(cfg Config) (*Service, error) {
	var errs []error
	need := func(name string, missing bool) {
		if missing {
			errs = append(errs, errors.New("operator: "+name+" is required"))
		}
	}
	need("Store", cfg.Store == nil)
	need("Waits", cfg.Waits == nil)
	need("Runs", cfg.Runs == nil)
	need("Tools", cfg.Tools == nil)
	need("Bell", cfg.Bell == nil)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.NewID == nil {
		cfg.NewID = rand.Text
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.LookUpEvery == 0 {
		cfg.LookUpEvery = time.Minute
	}
	if cfg.Reserve == 0 {
		cfg.Reserve = 2 * time.Second
	}
	return &Service{cfg: cfg}, nil
}

// keyOf reads a key as a request gives it, "run:call" or "tenant/run:call",
// within the identity's tenant. What is malformed or another tenant's does not
// exist for this identity.
func keyOf(id Identity, text string) (ledger.Key, error) {
	key, err := ledger.ParseKey(text)
	if err != nil || key.Tenant != "" && key.Tenant != id.Tenant {
		return ledger.Key{}, problem(NotFound, "")
	}
	key.Tenant = id.Tenant
	if key.Check() != nil {
		return ledger.Key{}, problem(NotFound, "")
	}
	return key, nil
}

// load reads the record consistently; no record is a problem.
func (s *Service) load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	r, err := s.cfg.Store.Load(ctx, key)
	switch {
	case errors.Is(err, ledger.ErrCorrupt):
		return ledger.Record{}, problem(CorruptRecord, "").because(err)
	case err != nil:
		return ledger.Record{}, problem(Unavailable, "the ledger could not be read").because(err)
	case !r.Exists():
		return ledger.Record{}, problem(NotFound, "")
	}
	return r, nil
}
