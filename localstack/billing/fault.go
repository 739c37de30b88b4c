package billing

import (
	"slices"
	"strings"
	"sync"
)

// Operation names a kind of request that a fault can strike.
type Operation string

// The operations. Lookup is GET /credits, by key or by account, GET /voids and
// GET /closures.
const (
	OpCredit  Operation = "credit"
	OpLookup  Operation = "lookup"
	OpSession Operation = "session"
	OpVoid    Operation = "void"
	OpOrder   Operation = "order"
	OpClose   Operation = "close"
)

// Operations returns all operations in a fixed order.
func Operations() []Operation {
	return []Operation{OpCredit, OpLookup, OpSession, OpVoid, OpOrder, OpClose}
}

// Fault names a way to misbehave. "Before" means before anything is stored,
// "after" means after the commit has reached the disk.
type Fault string

// The faults.
const (
	FaultNone           Fault = ""
	FaultLoseAnswer     Fault = "lose_answer"     // after: close the connection without an answer
	FaultDropRequest    Fault = "drop_request"    // before: close the connection
	FaultError500After  Fault = "error_500_after" // after: answer 500
	FaultError500Before Fault = "error_500_before"
	FaultRefuse422      Fault = "refuse_422" // before: answer 422 refused
	FaultHangAfter      Fault = "hang_after" // after: no answer until the client gives up or the server stops
	FaultHangBefore     Fault = "hang_before"
	FaultUnavailable503 Fault = "unavailable_503" // before: answer 503
	FaultExpired401     Fault = "expired_401"     // before: answer 401 credentials_expired
)

// Faults returns all faults but [FaultNone] in a fixed order.
func Faults() []Fault {
	return []Fault{
		FaultLoseAnswer, FaultDropRequest, FaultError500After, FaultError500Before, FaultRefuse422,
		FaultHangAfter, FaultHangBefore, FaultUnavailable503, FaultExpired401,
	}
}

// Rule makes matching requests fail. Rules live in memory: a restart clears them.
type Rule struct {
	ID          int       `json:"id,omitzero"`           // given by the service
	AccountID   string    `json:"account_id,omitzero"`   // exact; empty matches every account
	KeyContains string    `json:"key_contains,omitzero"` // empty matches every key and none
	Operation   Operation `json:"operation"`             // required
	Fault       Fault     `json:"fault"`                 // required
	Times       *int      `json:"times,omitzero"`        // strikes; default 1, 0 for ever
	After       int       `json:"after,omitzero"`        // matching requests to let pass first; default 0
	Matched     int       `json:"matched,omitzero"`      // matching requests so far
	Struck      int       `json:"struck,omitzero"`       // strikes so far
}

func (r *Rule) check() error {
	if !slices.Contains(Operations(), r.Operation) {
		return badRequest("operation must be one of " + list(Operations()))
	}
	if !slices.Contains(Faults(), r.Fault) {
		return badRequest("fault must be one of " + list(Faults()))
	}
	if r.ID != 0 || r.Matched != 0 || r.Struck != 0 {
		return badRequest("id, matched and struck are the service's to give")
	}
	if r.After < 0 || r.Times != nil && *r.Times < 0 {
		return badRequest("times and after must not be negative")
	}
	if r.AccountID != "" {
		return checkID("account_id", r.AccountID)
	}
	return nil
}

func (r *Rule) matches(c call) bool {
	return r.Operation == c.op && (r.AccountID == "" || r.AccountID == c.account) && strings.Contains(c.key, r.KeyContains)
}

// rules are the armed rules; safe for concurrent use.
type rules struct {
	mu    sync.Mutex
	next  int
	armed []*Rule
}

func (rs *rules) add(r Rule) Rule {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.next++
	r.ID = rs.next
	if r.Times == nil {
		r.Times = new(1)
	}
	rs.armed = append(rs.armed, &r)
	return r
}

func (rs *rules) list() []Rule {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	out := make([]Rule, 0, len(rs.armed))
	for _, r := range rs.armed {
		out = append(out, *r)
	}
	return out
}

func (rs *rules) clear() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.armed = nil
}

// strike returns the fault of the first rule that strikes c. Every matching
// rule counts the request, so that "after" means the same whatever else is armed.
func (rs *rules) strike(c call) Fault {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	fault := FaultNone
	for _, r := range rs.armed {
		if !r.matches(c) {
			continue
		}
		r.Matched++
		spent := *r.Times > 0 && r.Struck >= *r.Times
		if fault == FaultNone && !spent && r.Matched > r.After {
			r.Struck++
			fault = r.Fault
		}
	}
	return fault
}

func list[T ~string](all []T) string {
	words := make([]string, 0, len(all))
	for _, t := range all {
		words = append(words, string(t))
	}
	return strings.Join(words, ", ")
}
