package statemachines

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func choiceDefault(f *search) {
	for _, s := range f.of("Choice") {
		to, ok := s.in.states[str(s.body, "Default")]
		switch {
		case s.body["Default"] == nil:
			f.add(s.under("Default"), "%s has no Default", s.name)
		case ok && to.ends() && to.kind != "Fail":
			f.add(s.under("Default"), "whatever %s doesn't understand ends well in %s", s.name, to.name)
		}
	}
}

var verdict = regexp.MustCompile(`(^|[._])(status|effect)$`)

func noStatus(f *search) {
	for _, s := range f.of("Choice") {
		walk(s.under("Choices"), "", s.body["Choices"], func(path, _ string, v any) {
			rule, _ := v.(object)
			c, ok := comparison(rule)
			if ok && verdict.MatchString(c.path) && !strings.HasPrefix(c.op, "Is") {
				f.add(path, "%s is compared", c.path)
			}
		})
	}
}

// isRule says whether rule, and each part of it, compares something.
func isRule(rule object) bool {
	if _, ok := comparison(rule); ok {
		return true
	}
	if not := sub(rule, "Not"); not != nil {
		return isRule(not)
	}
	parts := append(list(rule, "And"), list(rule, "Or")...)
	for _, p := range parts {
		if part, _ := p.(object); !isRule(part) {
			return false
		}
	}
	return len(parts) > 0
}

// nextDecides looks at each rule that leads on: what does it go by?
func nextDecides(f *search) {
	for _, s := range f.of("Choice") {
		for _, e := range s.edges() {
			to := s.in.states[e.to]
			bound := slices.ContainsFunc(s.bounds(), func(b bound) bool { return e.via == "Choice" && b.at == e.at })
			if e.via != "Choice" || to == nil || to.kind == "Fail" || bound {
				continue
			}
			rule, _ := list(s.body, "Choices")[e.at].(object)
			said := saidNext(rule, s.in.answerRoots())
			switch {
			case said == "" && (rule["Not"] == nil || to.ends()):
				f.add(e.path, "%s goes on to %s without asking for the answer's next", s.name, to.name)
			case said != "done" && to.ends() && s.inMap():
				f.add(e.path, "%s ends the call in %s though next isn't done", s.name, to.name)
			}
		}
	}
}

// saidNext returns the text with which a matching rule has compared the next of
// an answer, "" if with none.
func saidNext(rule object, roots []string) string {
	for _, f := range whenTrue(rule) {
		if root, ok := strings.CutSuffix(f.path, ".next"); ok && f.op == "StringEquals" && slices.Contains(roots, root) {
			return f.with
		}
	}
	return ""
}

func safeWait(f *search) {
	for _, sc := range f.scopes {
		for _, s := range sc.sorted {
			if s.kind != "Wait" {
				continue
			}
			field, ok := s.body["SecondsPath"].(string)
			if !ok || strings.Count(field, ".") == 0 {
				f.add(s.path, "%s doesn't wait for the seconds of one field", s.name)
				continue
			}
			for _, p := range sc.sorted {
				if p.goesTo(s.name) && !p.makesSeconds(field, sc.known[p.name]) {
					f.add(p.path, "%s goes to %s without making %s whole, at least 1 and at most a day", p.name, s.name, field)
				}
			}
		}
	}
}

func (s *state) goesTo(name string) bool {
	for _, e := range s.edges() {
		if e.to == name {
			return true
		}
	}
	return false
}

var plusOne = regexp.MustCompile(`^States\.MathAdd\((\$[A-Za-z0-9_.]+), ?1\)$`)

// makesSeconds says whether s writes field as x + 1 with a safe x.
func (s *state) makesSeconds(field string, known facts) bool {
	dot := strings.LastIndex(field, ".")
	if s.kind != "Pass" || s.resultRoot() != field[:dot] {
		return false
	}
	m := plusOne.FindStringSubmatch(str(sub(s.body, "Parameters"), field[dot+1:]+".$"))
	if m == nil {
		return false
	}
	return s.in.isCounter(m[1]) || known.between(m[1], 0, 86_400)
}

// between says whether path is known to be a number within the bounds.
func (f facts) between(path string, least, most float64) bool {
	low, high := false, false
	for k := range f {
		n, err := strconv.ParseFloat(k.with, 64)
		if k.path != path || err != nil {
			continue
		}
		low = low || (k.op == "NumericGreaterThanEquals" && n >= least)
		high = high || (k.op == "NumericLessThanEquals" && n <= most)
	}
	return low && high && f[fact{path, "IsNumeric", "true"}] && f.present(path)
}
