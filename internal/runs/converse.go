package runs

import (
	"encoding/json"
	"fmt"
	"strings"
)

// converse reads answers of Bedrock's Converse such as
//
//	{"output": {"message": {"role": "assistant", "content": [
//	   {"text": "I will look."}, {"toolUse": {"toolUseId": "tooluse_1", "name": "find_order", "input": {}}}]}},
//	 "stopReason": "tool_use", "usage": {}}
//
// as turns, and the words of the one that uses no tool, if it is the last, as the
// answer. What a script has no use for is passed over, as a planner would.
func (p *problems) converse(of member) (turns []Proposal, answer string) {
	all := p.list(of.Path, of.Value)
	for i, raw := range all {
		path := fmt.Sprintf("%s[%d]", of.Path, i)
		turn := p.response(path, raw)
		switch last := i == len(all)-1; {
		case len(turn.Calls) > 0:
			turns = append(turns, turn)
		case !last:
			p.add(path, "uses no tool, and is not the last")
		case len(turn.Says) > maxAnswer:
			p.add(path, "words of %d bytes: at most %d", len(turn.Says), maxAnswer)
		default:
			answer = turn.Says
		}
	}
	return turns, answer
}

// response reads one answer. A model that was cut off, or that stopped for
// anything else than to use tools, has asked for nothing that may be called.
func (p *problems) response(path string, raw json.RawMessage) Proposal {
	all := p.object(path, raw)
	output := p.object(path+".output", named(all, "output"))
	message := p.object(path+".output.message", named(output, "message"))
	var turn Proposal
	var words []string
	for i, block := range p.list(path+".output.message.content", named(message, "content")) {
		for _, f := range p.object(fmt.Sprintf("%s.output.message.content[%d]", path, i), block) {
			switch f.Name {
			case "text":
				words = append(words, p.text(f.Path, f.Value, MaxSays))
			case "toolUse":
				turn.Calls = append(turn.Calls, p.toolUse(f))
			}
		}
	}
	turn.Says = strings.Join(words, "\n")
	if len(turn.Calls) > 0 && string(named(all, "stopReason")) != `"tool_use"` {
		p.add(path+".stopReason", "want tool_use where a tool is used")
	}
	return turn
}

// named returns the value of the member of that name, nil if there is none.
func named(members []member, name string) json.RawMessage {
	for _, m := range members {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// toolUse takes an id as it is; one that is no text is as good as none.
func (p *problems) toolUse(of member) ProposedCall {
	var call ProposedCall
	for _, f := range p.object(of.Path, of.Value) {
		switch f.Name {
		case "toolUseId":
			_ = json.Unmarshal(f.Value, &call.ID)
		case "name":
			call.Tool = p.text(f.Path, f.Value, MaxTool)
		case "input":
			call.Arguments = string(f.Value)
		}
	}
	if call.Tool == "" {
		p.add(of.Path+".name", "missing")
	}
	if !isObject(call.Arguments) {
		p.add(of.Path+".input", "want an object")
	}
	return call
}
