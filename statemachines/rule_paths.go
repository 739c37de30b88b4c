package statemachines

import (
	"regexp"
	"slices"
	"strings"
)

// pathFields are the fields of a state whose whole value is a path.
var pathFields = []string{"ItemsPath", "MaxConcurrencyPath", "SecondsPath", "TimestampPath", "TimeoutSecondsPath", "ErrorPath", "CausePath", "InputPath", "OutputPath"}

// embedded finds the paths in an intrinsic's arguments; it is asked after the
// context object's paths ($$.) have been cut out.
var (
	embedded   = regexp.MustCompile(`\$\.[A-Za-z0-9_.\[\]*]+`)
	contextual = regexp.MustCompile(`\$\$\.[A-Za-z0-9_.\[\]*]+`)
)

// read is a path that a state reads from its own data, and where it stands.
type read struct {
	path string
	at   string
}

// readsOutsideRules returns what s reads but for the comparisons of a Choice.
func (s *state) readsOutsideRules() []read {
	var out []read
	for _, k := range pathFields {
		if p, ok := s.body[k].(string); ok {
			out = append(out, read{p, s.under(k)})
		}
	}
	for _, t := range []string{"Parameters", "ItemSelector"} {
		walk(s.under(t), t, s.body[t], func(path, key string, v any) {
			text, ok := v.(string)
			if !ok || !strings.HasSuffix(key, ".$") {
				return
			}
			for _, p := range embedded.FindAllString(contextual.ReplaceAllString(text, ""), -1) {
				out = append(out, read{p, path})
			}
		})
	}
	return out
}

// reads returns every path that s reads from its own data.
func (s *state) reads() []string {
	var out []string
	for _, r := range s.readsOutsideRules() {
		out = append(out, r.path)
	}
	walk(s.under("Choices"), "", s.body["Choices"], func(_, key string, v any) {
		if text, ok := v.(string); ok && (key == "Variable" || strings.HasSuffix(key, "Path")) {
			out = append(out, text)
		}
	})
	return out
}

// topField returns "x" of "$.x.y".
func topField(path string) string {
	rest, ok := strings.CutPrefix(path, "$.")
	if !ok {
		return ""
	}
	if i := strings.IndexAny(rest, ".["); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

// answerRoots returns where the Lambdas' answers are kept in sc.
func (sc *scope) answerRoots() []string {
	var out []string
	for _, s := range sc.sorted {
		to := str(s.body, "ResultPath")
		if s.kind != "Task" || to == "" || !strings.HasPrefix(s.resource(), lambdaInvoke) {
			continue
		}
		selector := sub(s.body, "ResultSelector")
		if selector == nil {
			out = append(out, to)
		}
		for k, v := range selector {
			if v == "$.Payload" {
				out = append(out, to+"."+strings.TrimSuffix(k, ".$"))
			}
		}
	}
	return out
}

// inAnswer says whether path leads into an answer of the machine's own scope,
// which is the planner's.
func (d *definition) inAnswer(path string) bool { return isInside(path, d.scopes[0].answerRoots()) }

func isInside(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return path != r && inside(path, r) })
}

func guardedPaths(f *search) {
	for _, sc := range f.scopes {
		for _, s := range sc.sorted {
			if !sc.reached[s.name] {
				continue
			}
			for _, r := range s.readsOutsideRules() {
				f.use(r.at, r.path, sc.known[s.name])
			}
			f.choices(s, sc.known[s.name])
		}
	}
}

// use checks one use of a path where known holds.
func (f *search) use(at, path string, known facts) {
	if !known.present(path) {
		f.add(at, "%s may be absent here", path)
	}
}

func (f *search) choices(s *state, known facts) {
	for i, c := range list(s.body, "Choices") {
		rule, _ := c.(object)
		f.compare(s.under("Choices")+index(i), rule, known)
		known = known.with(whenFalse(rule))
	}
}

// compare checks a rule from left to right: an And knows that its earlier parts
// matched, an Or that they did not.
func (f *search) compare(at string, rule object, known facts) {
	if c, ok := comparison(rule); ok {
		if c.op != "IsPresent" {
			f.use(at+".Variable", c.path, known)
		}
		if strings.HasSuffix(c.op, "Path") {
			f.use(at+"."+c.op, c.with, known)
		}
		return
	}
	if not := sub(rule, "Not"); not != nil {
		f.compare(at+".Not", not, known)
	}
	for key, learn := range map[string]func(object) []fact{"And": whenTrue, "Or": whenFalse} {
		inner := known
		for i, r := range list(rule, key) {
			part, _ := r.(object)
			f.compare(at+"."+key+index(i), part, inner)
			inner = inner.with(learn(part))
		}
	}
}

func dollarKeys(f *search) {
	for _, s := range f.all() {
		s.walkTemplates(func(path, key string, v any) {
			text, isText := v.(string)
			isPath := text == "$" || strings.HasPrefix(text, "$.") || strings.HasPrefix(text, "$$.") || strings.HasPrefix(text, "States.")
			named := strings.HasSuffix(key, ".$")
			_, isList := v.([]any)
			switch {
			case isText && isPath && !named:
				f.add(path, "%q is sent as text", text)
			case named && !isList && (!isText || !isPath):
				f.add(path, "the key asks for a path and the value is none")
			}
		})
	}
}

var foreignFields = map[string]bool{"Assign": true, "Arguments": true, "Output": true, "Items": true, "Condition": true}

var intrinsic = regexp.MustCompile(`States\.([A-Za-z0-9]+)\s*\(`)

func jsonpathSubset(f *search) {
	if f.root["QueryLanguage"] != "JSONPath" {
		f.add("$.QueryLanguage", "the machine doesn't say JSONPath")
	}
	walk("$", "", f.root, func(path, key string, v any) {
		if o, ok := v.(object); ok {
			for k := range o {
				if foreignFields[k] || (k == "QueryLanguage" && o[k] != "JSONPath") {
					f.add(at(path, k), "%s belongs to another language", k)
				}
			}
		}
		text, _ := v.(string)
		if !strings.HasSuffix(key, ".$") && !strings.HasSuffix(key, "Path") {
			return
		}
		for _, m := range intrinsic.FindAllStringSubmatch(text, -1) {
			if m[1] != "MathAdd" && m[1] != "ArrayGetItem" {
				f.add(path, "States.%s is outside the subset", m[1])
			}
		}
	})
}
