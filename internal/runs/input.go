package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/statemachines"
)

// ErrBadInput reports a run's input that can't be used as it is. Nothing was
// stored.
var ErrBadInput = errors.New("runs: input is wrong")

// Input is what a run is started with: the input of its first execution.
type Input struct {
	ID          ID
	Agent       string
	Subject     string
	Permissions []string
	Policy      ledger.Policy // "" is pause
	ActiveLimit time.Duration // of the time that the run is at work; never 0
	Script      *Script       // nil where a model is asked
}

// The limits of an input, in bytes or entries.
const (
	maxAgent       = 128
	maxSubject     = 256
	maxPermissions = 64
	maxPermission  = 64
	maxPrincipal   = 4 << 10 // as encoded: it travels with every call
)

// ParseInput reads an input such as
//
//	{"run_id": "run-7Q", "tenant": "acme", "agent": "billing-assistant",
//	 "principal": {"subject": "user-1", "permissions": ["credits:write"]},
//	 "tool_policy": {"on_indeterminate": "pause"}, "limits": {"active_seconds": 86400},
//	 "script": {"turns": [{"says": "…", "calls": [{"id": "toolu_01", "tool": "find_order", "arguments": {}}]}], "answer": "…"}}
//
// Only run_id is required. Instead of its turns a script may hold a model's own
// answers, see [Script]. Every wrong field is named in one [InputError], which is
// an [ErrBadInput].
func ParseInput(raw json.RawMessage) (Input, error) {
	var p problems
	in := Input{ActiveLimit: defaultActive * time.Second}
	if len(raw) > statemachines.MaxInputBytes {
		p.add("", "%d bytes: at most %d", len(raw), statemachines.MaxInputBytes)
	}
	for _, f := range p.object("", raw, "run_id", "tenant", "agent", "principal", "tool_policy", "limits", "script") {
		switch f.Name {
		case "run_id":
			in.ID.Run = p.text(f.Path, f.Value, len(raw))
		case "tenant":
			in.ID.Tenant = p.text(f.Path, f.Value, len(raw))
		case "agent":
			in.Agent = p.text(f.Path, f.Value, maxAgent)
		case "principal":
			in.Subject, in.Permissions = p.principal(f)
		case "tool_policy":
			in.Policy = p.policy(f)
		case "limits":
			in.ActiveLimit = p.limits(f)
		case "script":
			in.Script = p.script(f)
		}
	}
	if (ID{Run: in.ID.Run}).Check() != nil {
		p.add("run_id", "want 1 to %d of A-Za-z0-9_-", ledger.MaxRunID)
	}
	if (ID{Tenant: in.ID.Tenant, Run: "x"}).Check() != nil {
		p.add("tenant", "want at most %d of A-Za-z0-9_-", ledger.MaxTenant)
	}
	if len(p) > 0 {
		return Input{}, &InputError{Fields: p}
	}
	return in, nil
}

func (p *problems) principal(of member) (subject string, permissions []string) {
	for _, f := range p.object(of.Path, of.Value, "subject", "permissions") {
		switch f.Name {
		case "subject":
			subject = p.text(f.Path, f.Value, maxSubject)
		case "permissions":
			items := p.list(f.Path, f.Value)
			if len(items) > maxPermissions {
				p.add(f.Path, "%d entries: at most %d", len(items), maxPermissions)
				continue
			}
			for i, item := range items {
				permissions = append(permissions, p.text(fmt.Sprintf("%s[%d]", f.Path, i), item, maxPermission))
			}
		}
	}
	size := encodedBytes(subject)
	for _, permission := range permissions {
		size += encodedBytes(permission)
	}
	if size > maxPrincipal {
		p.add(of.Path, "%d bytes as encoded: at most %d", size, maxPrincipal)
	}
	return subject, permissions
}

func (p *problems) policy(of member) ledger.Policy {
	var policy ledger.Policy
	for _, f := range p.object(of.Path, of.Value, "on_indeterminate") {
		policy = ledger.Policy(p.text(f.Path, f.Value, maxAgent))
		if !policy.Valid() || policy == "" {
			p.add(f.Path, "want pause, tell or fail")
		}
	}
	return policy
}

// The run's time at work, in seconds: a day by default, 30 at most.
const (
	defaultActive = 86_400
	maxActive     = 30 * 86_400
)

func (p *problems) limits(of member) time.Duration {
	active := defaultActive
	for _, f := range p.object(of.Path, of.Value, "active_seconds") {
		active = 0 // null is no number either
		if json.Unmarshal(f.Value, &active) != nil || active < 1 || active > maxActive {
			p.add(f.Path, "want a whole number from 1 to %d", maxActive)
		}
	}
	return time.Duration(active) * time.Second
}
