package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

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
	Script      *Script       // nil where a model is asked
}

// Script stands in for a model: its turns, and its last words.
type Script struct {
	Turns  []Proposal
	Answer string
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
//	 "tool_policy": {"on_indeterminate": "pause"},
//	 "script": {"turns": [{"says": "…", "calls": [{"id": "toolu_01", "tool": "find_order", "arguments": {}}]}], "answer": "…"}}
//
// Only run_id is required. Every wrong field is named in one [ErrBadInput].
func ParseInput(raw json.RawMessage) (Input, error) {
	var p problems
	var in Input
	if len(raw) > statemachines.MaxInputBytes {
		p.add("", "%d bytes: at most %d", len(raw), statemachines.MaxInputBytes)
	}
	for _, f := range p.object("", raw, "run_id", "tenant", "agent", "principal", "tool_policy", "script") {
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
		return Input{}, fmt.Errorf("%w: %s", ErrBadInput, strings.Join(p, "; "))
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

func (p *problems) script(of member) *Script {
	script := &Script{}
	for _, f := range p.object(of.Path, of.Value, "turns", "answer") {
		switch f.Name {
		case "turns":
			for i, item := range p.list(f.Path, f.Value) {
				script.Turns = append(script.Turns, p.turn(fmt.Sprintf("%s[%d]", f.Path, i), item))
			}
		case "answer":
			script.Answer = p.text(f.Path, f.Value, MaxSays/2)
		}
	}
	return script
}

func (p *problems) turn(path string, raw json.RawMessage) Proposal {
	var turn Proposal
	for _, f := range p.object(path, raw, "says", "calls") {
		switch f.Name {
		case "says":
			turn.Says = p.text(f.Path, f.Value, MaxSays)
		case "calls":
			for i, item := range p.list(f.Path, f.Value) {
				turn.Calls = append(turn.Calls, p.call(fmt.Sprintf("%s[%d]", f.Path, i), item))
			}
		}
	}
	if len(turn.Calls) == 0 {
		p.add(path+".calls", "want at least one call")
	}
	return turn
}

// call takes an id as it is, however malformed: a model may give anything.
func (p *problems) call(path string, raw json.RawMessage) ProposedCall {
	var call ProposedCall
	for _, f := range p.object(path, raw, "id", "tool", "arguments") {
		switch f.Name {
		case "id":
			call.ID = p.text(f.Path, f.Value, len(f.Value))
		case "tool":
			call.Tool = p.text(f.Path, f.Value, MaxTool)
		case "arguments":
			call.Arguments = string(f.Value)
		}
	}
	if call.Tool == "" {
		p.add(path+".tool", "missing")
	}
	if !isObject(call.Arguments) {
		p.add(path+".arguments", "want an object")
	}
	return call
}
