package asl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// MaxDefinitionBytes is the greatest size of a definition.
const MaxDefinitionBytes = 1_048_576

const maxNameLength = 80

type parser struct {
	diagnostics []Diagnostic
	names       map[string]string // state name -> place; names are unique in the whole machine
}

func (p *parser) report(code, at, message string) {
	p.diagnostics = append(p.diagnostics, Diagnostic{Code: code, Message: message, Location: at})
}

// Parse reads and checks a definition. The error is a *DefinitionError that
// names all that is wrong, unknown or not supported, each with its place.
func Parse(definition []byte) (*Machine, error) {
	p := &parser{names: map[string]string{}}
	machine := p.machine(definition)
	if len(p.diagnostics) > 0 {
		return nil, &DefinitionError{Diagnostics: p.diagnostics}
	}
	return machine, nil
}

func (p *parser) machine(definition []byte) *Machine {
	if len(definition) > MaxDefinitionBytes {
		p.report(CodeSchema, "", fmt.Sprintf("Definition must be at most %d bytes", MaxDefinitionBytes))
		return nil
	}
	if err := checkMembers(definition); err != nil {
		p.report(CodeNotJSON, "", err.Error())
		return nil
	}
	value, err := jsonvalue.Decode(definition)
	if err != nil {
		p.report(CodeNotJSON, "", err.Error())
		return nil
	}
	f, ok := p.fields(value, "")
	if !ok {
		return nil
	}
	machine := &Machine{}
	machine.Comment, _ = f.text("Comment")
	f.oneOf("QueryLanguage", "JSONPath")
	f.oneOf("Version", "1.0")
	machine.Timeout = time.Duration(f.integer("TimeoutSeconds", 1, maxSeconds, 0)) * time.Second
	machine.Workflow = p.workflow(f)
	f.done()
	return machine
}

// checkMembers refuses a name that occurs twice in one object: whichever of
// the two were used, the other would be ignored silently.
func checkMembers(definition []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(definition))
	for {
		if _, err := decoder.ReadToken(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("asl: %w", err)
		}
	}
}

// workflow reads StartAt and States and checks that the states hang together.
func (p *parser) workflow(f *fields) Workflow {
	f.require("StartAt", "States")
	start, _ := f.text("StartAt")
	value, given := f.take("States")
	workflow := Workflow{StartAt: start, States: map[string]State{}}
	if !given {
		return workflow
	}
	states, ok := p.fields(value, f.place("States"))
	if !ok {
		return workflow
	}
	if len(states.values) == 0 {
		p.report(CodeSchema, states.at, "At least one state is required")
	}
	for _, name := range slices.Sorted(maps.Keys(states.values)) {
		p.claim(name, states.place(name))
		if state := p.state(name, states.values[name], states.place(name)); state != nil {
			workflow.States[name] = state
		}
	}
	if len(p.diagnostics) == 0 {
		p.checkTransitions(workflow, f.at)
	}
	return workflow
}

func (p *parser) claim(name, at string) {
	if length := utf8.RuneCountInString(name); length == 0 || length > maxNameLength {
		p.report(CodeSchema, at, fmt.Sprintf("State name must have 1 to %d characters", maxNameLength))
	}
	if other, taken := p.names[name]; taken {
		p.report(CodeSchema, at, fmt.Sprintf("State name '%s' is not unique; it is also at %s", name, other))
	}
	p.names[name] = at
}

// checkTransitions refuses targets that do not exist and states that nothing reaches.
func (p *parser) checkTransitions(workflow Workflow, at string) {
	if _, ok := workflow.States[workflow.StartAt]; !ok {
		p.report(CodeTransition, at+"/StartAt", "Missing 'Next' target: "+workflow.StartAt)
		return
	}
	reached := map[string]bool{workflow.StartAt: true}
	for queue := []string{workflow.StartAt}; len(queue) > 0; queue = queue[1:] {
		place := at + "/States/" + pointerEscape(queue[0])
		for _, target := range targets(workflow.States[queue[0]]) {
			if _, ok := workflow.States[target]; !ok {
				p.report(CodeTransition, place, "Missing 'Next' target: "+target)
			} else if !reached[target] {
				reached[target] = true
				queue = append(queue, target)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(workflow.States)) {
		if !reached[name] {
			p.report(CodeTransition, at+"/States/"+pointerEscape(name), fmt.Sprintf("State \"%s\" is not reachable.", name))
		}
	}
}

// targets lists the states that state can lead to.
func targets(state State) []string {
	var out []string
	if next := state.Base().Next; next != "" {
		out = append(out, next)
	}
	catchers := []Catcher(nil)
	switch s := state.(type) {
	case *Choice:
		for _, rule := range s.Rules {
			out = append(out, rule.Next)
		}
		if s.Default != "" {
			out = append(out, s.Default)
		}
	case *Task:
		catchers = s.Catch
	case *Map:
		catchers = s.Catch
	}
	for _, catcher := range catchers {
		out = append(out, catcher.Next)
	}
	return out
}
