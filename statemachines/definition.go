package statemachines

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

type object = map[string]any

// definition is a parsed state machine: its states by scope, the machine's own
// scope first, then the one inside each Map.
type definition struct {
	root   object
	scopes []*scope
}

// scope is a graph of states that may name each other as targets.
type scope struct {
	path    string
	start   string
	states  map[string]*state
	owner   *state // the Map around it, nil for the machine
	sorted  []*state
	reached map[string]bool
	known   map[string]facts // by state, what holds whenever it is entered
}

// state is one state with its place in the JSON.
type state struct {
	name string
	kind string
	path string
	body object
	in   *scope
	out  []edge
}

// edge is one way out of a state.
type edge struct {
	to   string
	path string
	via  string // Next, Default, Choice or Catch
	at   int    // the index of the choice or catcher
}

// parse reads def strictly: duplicate names would hide a field from the rules
// that Step Functions may read.
func parse(def []byte) (*definition, error) {
	var root object
	if err := json.Unmarshal(def, &root); err != nil {
		return nil, fmt.Errorf("statemachines: not a JSON object: %w", err)
	}
	d := &definition{root: root}
	if err := d.addScope("$", root, nil); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *definition) addScope(path string, body object, owner *state) error {
	states, ok := body["States"].(object)
	if !ok || len(states) == 0 {
		return fmt.Errorf("statemachines: %s: no States", path)
	}
	sc := &scope{path: path, start: str(body, "StartAt"), states: map[string]*state{}, owner: owner}
	d.scopes = append(d.scopes, sc)
	for _, name := range slices.Sorted(maps.Keys(states)) {
		s := &state{name: name, path: at(path+".States", name), in: sc}
		if s.body, ok = states[name].(object); !ok {
			return fmt.Errorf("statemachines: %s: not an object", s.path)
		}
		s.kind = str(s.body, "Type")
		s.out = s.waysOut()
		sc.states[name] = s
	}
	sc.sort()
	sc.known = entryFacts(sc)
	return d.addInner(sc)
}

func (d *definition) addInner(sc *scope) error {
	for _, s := range sc.sorted {
		switch s.kind {
		case "Map":
			inner, ok := s.body["ItemProcessor"].(object)
			if !ok {
				return fmt.Errorf("statemachines: %s: a Map without an ItemProcessor", s.path)
			}
			if err := d.addScope(s.path+".ItemProcessor", inner, s); err != nil {
				return err
			}
		case "Task", "Choice", "Pass", "Wait", "Succeed", "Fail":
		default:
			return fmt.Errorf("statemachines: %s: %w %q", s.path, errStateType, s.kind)
		}
	}
	return nil
}

var errStateType = errors.New("the rules don't know the state type")

// sort orders the states as they are met from the start, the unreachable ones
// last, so that findings and pages read like the run.
func (sc *scope) sort() {
	sc.reached = map[string]bool{}
	queue := []string{sc.start}
	for len(queue) > 0 {
		s, ok := sc.states[queue[0]]
		queue = queue[1:]
		if !ok || sc.reached[s.name] {
			continue
		}
		sc.reached[s.name] = true
		sc.sorted = append(sc.sorted, s)
		for _, e := range s.edges() {
			queue = append(queue, e.to)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sc.states)) {
		if !sc.reached[name] {
			sc.sorted = append(sc.sorted, sc.states[name])
		}
	}
}

// all returns every state of every scope.
func (d *definition) all() []*state {
	var out []*state
	for _, sc := range d.scopes {
		out = append(out, sc.sorted...)
	}
	return out
}

// of returns the states of the given types.
func (d *definition) of(kinds ...string) []*state {
	return slices.DeleteFunc(d.all(), func(s *state) bool { return !slices.Contains(kinds, s.kind) })
}

// edges returns the ways out of s: its choices, Next, Default, then its catchers.
func (s *state) edges() []edge { return s.out }

func (s *state) waysOut() []edge {
	var out []edge
	for i, c := range list(s.body, "Choices") {
		if rule, ok := c.(object); ok && rule["Next"] != nil {
			out = append(out, edge{str(rule, "Next"), s.path + ".Choices[" + strconv.Itoa(i) + "].Next", "Choice", i})
		}
	}
	for _, via := range []string{"Next", "Default"} {
		if s.body[via] != nil {
			out = append(out, edge{str(s.body, via), s.path + "." + via, via, 0})
		}
	}
	for i, c := range list(s.body, "Catch") {
		if catcher, ok := c.(object); ok {
			out = append(out, edge{str(catcher, "Next"), s.path + ".Catch[" + strconv.Itoa(i) + "].Next", "Catch", i})
		}
	}
	return out
}

// ends says whether the scope may end in s.
func (s *state) ends() bool {
	return s.kind == "Succeed" || s.kind == "Fail" || s.body["End"] == true
}

// inMap says whether s runs once per call rather than once per turn.
func (s *state) inMap() bool { return s.in.owner != nil }

// under returns the JSON path of a field of s.
func (s *state) under(keys ...string) string {
	p := s.path
	for _, k := range keys {
		p = at(p, k)
	}
	return p
}

// at appends a field to a JSON path, quoted where it must be.
func at(path, key string) string {
	for _, r := range key {
		if r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return path + "['" + strings.ReplaceAll(key, "'", `\'`) + "']"
		}
	}
	return path + "." + key
}

func str(o object, key string) string {
	s, _ := o[key].(string)
	return s
}

func sub(o object, keys ...string) object {
	for _, k := range keys {
		o, _ = o[k].(object)
	}
	return o
}

func list(o object, key string) []any {
	l, _ := o[key].([]any)
	return l
}

// errorNames returns what a retrier or catcher compares.
func errorNames(o object) []string {
	var out []string
	for _, v := range list(o, "ErrorEquals") {
		s, _ := v.(string)
		out = append(out, s)
	}
	return out
}

// walk visits v and everything in it, objects by sorted key; key is the name of
// the nearest field around the value.
func walk(path, key string, v any, visit func(path, key string, v any)) {
	visit(path, key, v)
	switch v := v.(type) {
	case object:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			walk(at(path, k), k, v[k], visit)
		}
	case []any:
		for i, e := range v {
			walk(path+"["+strconv.Itoa(i)+"]", key, e, visit)
		}
	}
}

// templates are the fields whose values may be paths, if the key ends in ".$".
var templates = []string{"Parameters", "ResultSelector", "ItemSelector"}

// walkTemplates visits everything in the templates of s.
func (s *state) walkTemplates(visit func(path, key string, v any)) {
	for _, t := range templates {
		if v, ok := s.body[t]; ok {
			walk(s.under(t), t, v, visit)
		}
	}
}
