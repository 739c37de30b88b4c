package faults

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
)

// Errors of [Plan.Arm] and [Plan.Disarm].
var (
	// ErrDuplicateID means that a rule of this id is in the plan already.
	ErrDuplicateID = errors.New("faults: a rule of this id is armed already")
	// ErrUnknownID means that no rule of this id is in the plan.
	ErrUnknownID = errors.New("faults: no rule of this id")
)

// Options connects a plan to the processes that send requests. The zero value
// gives a plan without callers, in which kill rules never match.
type Options struct {
	// Caller maps an access key id to the name of the function whose sandbox
	// holds it, empty if no sandbox does. It must be safe for concurrent use.
	Caller func(accessKeyID string) string
	// Kill kills the sandbox that holds an access key id and returns once it is
	// dead, with the number of processes killed.
	Kill func(accessKeyID string) int
	// Logger hears of every fault applied; nil means nobody does. Bodies are
	// never logged.
	Logger *slog.Logger
}

// Plan holds armed rules and request counts. It is safe for concurrent use:
// requests are matched one after the other in the order they arrive, and of
// several rules due for one request the one armed first applies.
type Plan struct {
	options Options

	mu     sync.Mutex
	rules  []*armed
	lastID int
	counts map[Request]int
}

// NewPlan returns an empty plan, which passes and counts everything.
func NewPlan(options Options) *Plan {
	if options.Caller == nil {
		options.Caller = func(string) string { return "" }
	}
	if options.Kill == nil {
		options.Kill = func(string) int { return 0 }
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	return &Plan{options: options, counts: make(map[Request]int)}
}

// Arm puts a rule into the plan and returns its id. A rule with wrong fields
// is refused with a [*RuleError] that names each, one whose id is taken with
// [ErrDuplicateID]; the plan is then unchanged.
func (p *Plan) Arm(rule Rule) (string, error) {
	rule, err := rule.normalise()
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if rule.ID == "" {
		rule.ID = p.freeID()
	}
	if p.index(rule.ID) >= 0 {
		return "", fmt.Errorf("%w: %q", ErrDuplicateID, rule.ID)
	}
	p.rules = append(p.rules, &armed{ArmedRule: ArmedRule{Rule: rule}, out: make(chan struct{})})
	return rule.ID, nil
}

func (p *Plan) freeID() string {
	for {
		p.lastID++
		if id := fmt.Sprintf("fault-%d", p.lastID); p.index(id) < 0 {
			return id
		}
	}
}

func (p *Plan) index(id string) int {
	return slices.IndexFunc(p.rules, func(r *armed) bool { return r.ID == id })
}

// Rules lists the rules in the order they were armed, those already used up
// too, with their counts.
func (p *Plan) Rules() []ArmedRule {
	p.mu.Lock()
	defer p.mu.Unlock()
	rules := make([]ArmedRule, len(p.rules))
	for i, r := range p.rules {
		rules[i] = r.ArmedRule
	}
	return rules
}

// Disarm takes one rule out, or answers [ErrUnknownID]. What the rule delays
// goes on at once, its outage is over.
func (p *Plan) Disarm(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.index(id)
	if i < 0 {
		return fmt.Errorf("%w: %q", ErrUnknownID, id)
	}
	close(p.rules[i].out)
	p.rules = slices.Delete(p.rules, i, i+1)
	return nil
}

// Clear takes every rule out, as [Plan.Disarm] would, and returns how many
// there were. Request counts stay; see [Plan.ResetRequests].
func (p *Plan) Clear() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.rules)
	for _, r := range p.rules {
		close(r.out)
	}
	p.rules = nil
	return n
}

// RequestCount is how often one kind of request arrived, dropped ones too.
type RequestCount struct {
	Request
	Requests int `json:"requests"`
}

// Requests lists the counts since the last reset, sorted by service,
// operation, function and caller.
func (p *Plan) Requests() []RequestCount {
	p.mu.Lock()
	counts := make([]RequestCount, 0, len(p.counts))
	for req, n := range p.counts {
		counts = append(counts, RequestCount{Request: req, Requests: n})
	}
	p.mu.Unlock()
	slices.SortFunc(counts, func(a, b RequestCount) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Operation, b.Operation),
			cmp.Compare(a.Function, b.Function), cmp.Compare(a.Caller, b.Caller))
	})
	return counts
}

// Count adds up the requests that fit a filter, whose empty fields fit all.
func (p *Plan) Count(filter Request) int {
	rule := Rule{Service: filter.Service, Operation: filter.Operation, Function: filter.Function, Caller: filter.Caller}
	p.mu.Lock()
	defer p.mu.Unlock()
	total := 0
	for req, n := range p.counts {
		if rule.fits(req) {
			total += n
		}
	}
	return total
}

// ResetRequests sets every request count to zero.
func (p *Plan) ResetRequests() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.counts)
}

// wantsBody reports whether a rule that could still apply looks into the body.
func (p *Plan) wantsBody(req Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.rules, func(r *armed) bool {
		return r.Contains != "" && !r.spent() && r.fits(req)
	})
}

// next counts a request and picks the rule that applies to it, nil if none
// does. Every rule that fits counts the match; only the one that applies is
// used up. Of the rule only what never changes may be read afterwards.
func (p *Plan) next(req Request, body []byte) *armed {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[req]++
	var due *armed
	for _, r := range p.rules {
		if r.spent() || !r.fits(req) || !bytes.Contains(body, []byte(r.Contains)) {
			continue
		}
		if r.match() && due == nil {
			due = r
		}
	}
	if due != nil {
		due.Hits++
	}
	return due
}
