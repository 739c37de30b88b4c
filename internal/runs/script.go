package runs

import (
	"encoding/json"
	"fmt"
)

// Script stands in for a model: its turns, and its last words. It is written as
// "turns" and "answer", or as "converse": a list of answers as Bedrock's Converse
// gives them, of which one that uses no tool can only be the last.
type Script struct {
	Turns  []Proposal
	Answer string
}

// maxAnswer bounds the last words of a script, in bytes.
const maxAnswer = MaxSays / 2

func (p *problems) script(of member) *Script {
	script, given := &Script{}, map[string]bool{}
	for _, f := range p.object(of.Path, of.Value, "turns", "converse", "answer") {
		given[f.Name] = true
		switch f.Name {
		case "converse":
			script.Turns, script.Answer = p.converse(f)
		case "turns":
			for i, item := range p.list(f.Path, f.Value) {
				script.Turns = append(script.Turns, p.turn(fmt.Sprintf("%s[%d]", f.Path, i), item))
			}
		case "answer":
			script.Answer = p.text(f.Path, f.Value, maxAnswer)
		}
	}
	if given["converse"] && len(given) > 1 {
		p.add(of.Path+".converse", "stands instead of turns and answer")
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
