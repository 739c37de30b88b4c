package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/internal/names"
)

// ErrTools reports a directory of tools that can't be used. Nothing was called.
var ErrTools = errors.New("runs: directory of tools is wrong")

// Class says what a tool may do, as its function's manifest does.
type Class string

// The classes. Only reads run beside each other.
const (
	Read        Class = "read"
	Write       Class = "write"
	External    Class = "external"
	Destructive Class = "destructive"
)

// Tool says where a tool is and what it may do.
type Tool struct {
	Function string // name or ARN of the Lambda function
	Class    Class
}

// Tools is the directory of tools, by name. A missing name is the zero Tool.
type Tools map[string]Tool

// Has reports whether there is a tool of that name.
func (t Tools) Has(name string) bool { return t[name].Function != "" }

// ToolsOf returns the directory in the environment, which it names in its error.
func ToolsOf(env func(string) string) (Tools, error) {
	tools, err := ParseTools(env(names.EnvTools))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", names.EnvTools, err)
	}
	return tools, nil
}

// ParseTools reads a directory such as
//
//	{"issue_credit": {"function": "onceward-dev-billing-tools", "class": "external"}}
//
// Class has no default. Unknown or repeated fields, and every other mistake, are
// named together in one [ErrTools].
func ParseTools(text string) (Tools, error) {
	var p problems
	tools := Tools{}
	for _, entry := range p.object("", json.RawMessage(text)) {
		tool := Tool{}
		for _, f := range p.object(entry.Path, entry.Value, "function", "class") {
			switch f.Name {
			case "function":
				tool.Function = p.text(f.Path, f.Value, maxFunction)
			case "class":
				tool.Class = Class(p.text(f.Path, f.Value, MaxTool))
			}
		}
		if entry.Name == "" || len(entry.Name) > MaxTool {
			p.add(entry.Path, "name of %d bytes: want 1 to %d", len(entry.Name), MaxTool)
		}
		if tool.Function == "" {
			p.add(entry.Path+".function", "missing")
		}
		if !slices.Contains([]Class{Read, Write, External, Destructive}, tool.Class) {
			p.add(entry.Path+".class", "want read, write, external or destructive")
		}
		tools[entry.Name] = tool
	}
	if len(tools) == 0 && len(p) == 0 {
		p.add("", "names no tool")
	}
	if len(p) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrTools, inOneLine(p))
	}
	return tools, nil
}

const maxFunction = 200
