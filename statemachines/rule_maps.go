package statemachines

import (
	"fmt"
	"slices"
	"strings"
)

func inlineStandard(f *search) {
	for _, sc := range f.scopes {
		for _, s := range sc.sorted {
			if s.kind != "Map" || !sc.reached[s.name] {
				continue
			}
			config := sub(s.body, "ItemProcessor", "ProcessorConfig")
			if str(config, "Mode") != "INLINE" || config["ExecutionType"] != nil {
				f.add(s.under("ItemProcessor", "ProcessorConfig"), "%s is not INLINE", s.name)
			}
			if sub(s.body, "ItemSelector") == nil {
				f.add(s.under("ItemSelector"), "%s has no ItemSelector", s.name)
			}
			f.concurrency(s, sc.known[s.name])
		}
	}
}

func (f *search) concurrency(s *state, known facts) {
	if path, ok := s.body["MaxConcurrencyPath"].(string); ok {
		if !known.between(path, 1, MaxConcurrency) {
			f.add(s.under("MaxConcurrencyPath"), "%s isn't checked as a number 1-%d before %s", path, MaxConcurrency, s.name)
		}
		return
	}
	if n, ok := s.body["MaxConcurrency"].(float64); !ok || n < 1 || n > MaxConcurrency {
		f.add(s.under("MaxConcurrency"), "%s has no bound of 1-%d", s.name, MaxConcurrency)
	}
}

func smallMaps(f *search) {
	for _, sc := range f.scopes {
		for _, s := range sc.sorted {
			if s.kind == "Map" && sc.reached[s.name] && !sc.known[s.name].fewerThan(str(s.body, "ItemsPath"), MaxCalls) {
				f.add(s.under("ItemsPath"), "%s may have more than %d items", s.name, MaxCalls)
			}
		}
	}
}

// fewerThan says whether the list at path is known to have at most n elements.
func (f facts) fewerThan(path string, n int) bool {
	for i := range n + 1 {
		if f[fact{fmt.Sprintf("%s[%d]", path, i), "IsPresent", "false"}] {
			return true
		}
	}
	return false
}

// singleFields are what an iteration's end may copy out of the envelope and out
// of an answer: small by contract, unlike their parents.
var singleFields = []string{".call.id", ".run.id", ".next", ".status", ".error.code", ".error.message", ".retry_after_seconds"}

func iterationsEndWell(f *search) {
	for _, s := range f.all() {
		switch {
		case !s.inMap() || !s.ends():
		case s.kind == "Fail":
			f.add(s.path, "%s fails its iteration", s.name)
		case s.kind != "Pass" || sub(s.body, "Parameters") == nil || s.body["ResultPath"] != nil:
			f.add(s.path, "%s hands its whole state on", s.name)
		default:
			f.copiesSingleFields(s, s.in.known[s.name])
		}
	}
}

func (f *search) copiesSingleFields(s *state, known facts) {
	_, counters := s.in.owner.mapCounts()
	counters = append(counters, s.in.counters()...)
	for _, r := range s.readsOutsideRules() {
		single := slices.ContainsFunc(singleFields, func(suffix string) bool { return strings.HasSuffix(r.path, suffix) })
		if !single && !slices.Contains(counters, r.path) {
			f.add(r.at, "%s copies %s, which isn't a single field", s.name, r.path)
		}
		if isInside(r.path, s.in.answerRoots()) && s.in.reached[s.name] && !known[fact{r.path, "IsString", "true"}] {
			f.add(r.at, "%s copies %s, which may be anything", s.name, r.path)
		}
	}
}

func namedEnds(f *search) {
	for _, sc := range f.scopes {
		for _, s := range sc.sorted {
			if s.kind != "Fail" || !sc.reached[s.name] {
				continue
			}
			if s.body["ErrorPath"] != nil || s.body["CausePath"] != nil {
				f.namedByPath(s, sc.known[s.name])
				continue
			}
			if name := str(s.body, "Error"); !listed(ownErrors, name) {
				f.add(s.under("Error"), "%s fails as %q, which is no name of ours", s.name, name)
			}
			if str(s.body, "Cause") == "" {
				f.add(s.under("Cause"), "%s fails without a cause", s.name)
			}
		}
	}
}

func (f *search) namedByPath(s *state, known facts) {
	for _, k := range []string{"ErrorPath", "CausePath"} {
		path := str(s.body, k)
		if path == "" || !known[fact{path, "IsString", "true"}] {
			f.add(s.under(k), "%s isn't known to be a text where %s fails by it", path, s.name)
		}
	}
}

const longestName = 80

func wholeGraph(f *search) {
	seen := map[string]string{}
	for _, sc := range f.scopes {
		if _, ok := sc.states[sc.start]; !ok {
			f.add(sc.path+".StartAt", "the start %q doesn't exist here", sc.start)
		}
		for _, s := range sc.sorted {
			if other, ok := seen[s.name]; ok {
				f.add(s.path, "there is another %s at %s", s.name, other)
			}
			seen[s.name] = s.path
			f.wholeState(s)
		}
	}
}

func (f *search) wholeState(s *state) {
	if len(s.name) > longestName {
		f.add(s.path, "the name has more than %d characters", longestName)
	}
	if !s.in.reached[s.name] {
		f.add(s.path, "%s is never reached", s.name)
	}
	for _, e := range s.edges() {
		if _, ok := s.in.states[e.to]; !ok {
			f.add(e.path, "%s goes on to %q, which doesn't exist here", s.name, e.to)
		}
	}
	for i, c := range list(s.body, "Choices") {
		if rule, _ := c.(object); !isRule(rule) || str(rule, "Next") == "" {
			f.add(s.under("Choices")+index(i), "a rule of %s compares nothing or leads nowhere", s.name)
		}
	}
	_, next := s.body["Next"]
	switch {
	case next && s.ends():
		f.add(s.path, "%s both goes on and ends", s.name)
	case !next && !s.ends() && s.kind != "Choice":
		f.add(s.path, "%s neither goes on nor ends", s.name)
	}
}

const shortest = 3

func shortPath(f *search) {
	for _, sc := range f.scopes {
		if sc.owner != nil {
			if n := sc.distance(sc.start, func(s *state) bool { return s.ends() }); n > shortest {
				f.add(sc.path, "the shortest call takes %d states", n)
			}
			continue
		}
		for _, s := range sc.sorted {
			if s.kind != "Map" || !s.loops() {
				continue
			}
			if n := sc.distance(str(s.body, "Next"), func(t *state) bool { return t == s }); n > shortest {
				f.add(s.path, "the shortest turn takes %d states", n)
			}
		}
	}
}

// distance returns how many states lie on the shortest way from a state to the
// first that is wanted, both counted; an error is no short way.
func (sc *scope) distance(from string, wanted func(*state) bool) int {
	depth := map[string]int{from: 1}
	queue := []string{from}
	for len(queue) > 0 {
		s, ok := sc.states[queue[0]]
		queue = queue[1:]
		if !ok {
			continue
		}
		if wanted(s) {
			return depth[s.name]
		}
		for _, e := range s.edges() {
			if depth[e.to] == 0 && e.via != "Catch" {
				depth[e.to] = depth[s.name] + 1
				queue = append(queue, e.to)
			}
		}
	}
	return 0
}
