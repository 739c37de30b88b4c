package statemachines

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// fact is a comparison of a Choice that holds on every way to a state.
type fact struct {
	path string
	op   string
	with string
}

type facts map[fact]bool

// copied is the op of a value that a template copied: what is inside it isn't
// known here, and is the business of whoever made it.
const copied = "copied"

// present says whether something is known to be at path: it was checked or
// written itself, something inside it was, or something around it was copied.
func (f facts) present(path string) bool {
	for k := range f {
		switch {
		case k.op == "IsPresent" && k.with == "true" && inside(k.path, path):
			return true
		case k.op == copied && inside(path, k.path):
			return true
		}
	}
	return false
}

// inside says whether path is outer or leads into it.
func inside(path, outer string) bool {
	return path == outer || strings.HasPrefix(path, outer+".") || strings.HasPrefix(path, outer+"[")
}

func (f facts) with(more []fact) facts {
	out := maps.Clone(f)
	for _, m := range more {
		out[m] = true
	}
	return out
}

// without drops what was known below root, which has just been written.
func (f facts) without(root string) facts {
	out := facts{}
	for k := range f {
		if !inside(k.path, root) {
			out[k] = true
		}
	}
	return out
}

func (f facts) and(other facts) facts {
	out := facts{}
	for k := range f {
		if other[k] {
			out[k] = true
		}
	}
	return out
}

// comparison returns the fact that a comparison states, and whether rule is one.
func comparison(rule object) (fact, bool) {
	path := str(rule, "Variable")
	if path == "" {
		return fact{}, false
	}
	for _, op := range slices.Sorted(maps.Keys(rule)) {
		if op != "Variable" && op != "Next" && op != "Comment" {
			return fact{path, op, fmt.Sprint(rule[op])}, true
		}
	}
	return fact{}, false
}

// whenTrue returns what holds if rule matched.
func whenTrue(rule object) []fact {
	if f, ok := comparison(rule); ok {
		return []fact{f}
	}
	if not := sub(rule, "Not"); not != nil {
		return whenFalse(not)
	}
	var out []fact
	for _, r := range list(rule, "And") {
		if o, ok := r.(object); ok {
			out = append(out, whenTrue(o)...)
		}
	}
	return out
}

// whenFalse returns what holds if rule did not match.
func whenFalse(rule object) []fact {
	if f, ok := comparison(rule); ok {
		switch {
		case f.op == "IsPresent" && f.with == "false":
			return []fact{{f.path, "IsPresent", "true"}}
		case f.op == "IsPresent":
			return []fact{{f.path, "IsPresent", "false"}}
		}
		return nil
	}
	if not := sub(rule, "Not"); not != nil {
		return whenTrue(not)
	}
	var out []fact
	for _, r := range list(rule, "Or") {
		if o, ok := r.(object); ok {
			out = append(out, whenFalse(o)...)
		}
	}
	return out
}

// entryFacts returns, for each state of sc, what holds whenever it is entered: the
// greatest fixpoint over all the ways into it.
func entryFacts(sc *scope) map[string]facts {
	known := map[string]facts{sc.start: {}}
	if sc.owner != nil {
		known[sc.start] = facts{}.with(made("$", sub(sc.owner.body, "ItemSelector")))
	}
	for changed := true; changed; {
		changed = false
		for _, s := range sc.sorted {
			in, ok := known[s.name]
			if !ok {
				continue
			}
			for _, e := range s.edges() {
				out := s.after(in, e)
				old, seen := known[e.to]
				if seen {
					out = old.and(out)
				}
				if !seen || len(out) != len(old) {
					known[e.to], changed = out, true
				}
			}
		}
	}
	return known
}

// after returns what holds when s is left by e, given what held on entry.
func (s *state) after(in facts, e edge) facts {
	switch {
	case s.kind == "Choice":
		return s.afterChoice(in, e)
	case e.via == "Catch":
		catcher, _ := list(s.body, "Catch")[e.at].(object)
		return written(in, catcher, object{"Error": "", "Cause": ""})
	case s.kind == "Wait":
		return in
	}
	return written(in, s.body, s.result())
}

// result returns what s makes, as far as the definition says.
func (s *state) result() any {
	for _, k := range []string{"ResultSelector", "Parameters", "Result"} {
		if k == "Parameters" && s.kind != "Pass" {
			continue
		}
		if v, ok := s.body[k]; ok {
			return v
		}
	}
	return nil
}

func (s *state) afterChoice(in facts, e edge) facts {
	out := in
	for i, c := range list(s.body, "Choices") {
		rule, _ := c.(object)
		if e.via == "Choice" && i == e.at {
			return out.with(whenTrue(rule))
		}
		out = out.with(whenFalse(rule))
	}
	return out
}

// written replaces what is known at a ResultPath by what is known of the result;
// without a ResultPath, everything.
func written(in facts, by object, result any) facts {
	to, named := by["ResultPath"]
	if named && to == nil {
		return in
	}
	path, _ := to.(string)
	if path == "" || path == "$" {
		return facts{}.with(made("$", result))
	}
	return in.without(path).with(made(path, result))
}

// made returns what is known of a value that a template, or a literal, makes. A
// Lambda's payload is there, but nothing is known of what is inside it.
func made(path string, value any) []fact {
	out := []fact{{path, "IsPresent", "true"}}
	o, ok := value.(object)
	if !ok {
		return out
	}
	for _, k := range slices.Sorted(maps.Keys(o)) {
		name, isPath := strings.CutSuffix(k, ".$")
		switch {
		case !isPath:
			out = append(out, made(path+"."+name, o[k])...)
		case o[k] == "$.Payload":
			out = append(out, fact{path + "." + name, "IsPresent", "true"})
		default:
			out = append(out, fact{path + "." + name, "IsPresent", "true"}, fact{path + "." + name, copied, ""})
		}
	}
	return out
}
