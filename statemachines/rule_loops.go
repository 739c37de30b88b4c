package statemachines

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// bound is a rule of a Choice that ends a loop once a counter is reached.
type bound struct {
	counter string
	limit   float64
	at      int
}

// bounds returns the rules of s that end its loop.
func (s *state) bounds() []bound {
	var out []bound
	for i, c := range list(s.body, "Choices") {
		rule, _ := c.(object)
		n, ok := rule["NumericGreaterThanEquals"].(float64)
		to := s.in.states[str(rule, "Next")]
		if ok && to != nil && to.ends() {
			out = append(out, bound{str(rule, "Variable"), n, i})
		}
	}
	return out
}

// resultRoot returns where a Pass writes, "$" for the whole state.
func (s *state) resultRoot() string {
	if to := str(s.body, "ResultPath"); to != "" {
		return to
	}
	return "$"
}

// counts returns the counters that grow by one when s is left by e.
func (s *state) counts(e edge) []string {
	if e.via != "Next" {
		return nil
	}
	switch s.kind {
	case "Pass":
		return s.passCounts()
	case "Map":
		outer, _ := s.mapCounts()
		return outer
	}
	return nil
}

func (s *state) passCounts() []string {
	var out []string
	params := sub(s.body, "Parameters")
	for _, k := range slices.Sorted(maps.Keys(params)) {
		counter := s.resultRoot() + "." + strings.TrimSuffix(k, ".$")
		if m := plusOne.FindStringSubmatch(str(params, k)); m != nil && m[1] == counter {
			out = append(out, counter)
		}
	}
	return out
}

var firstItem = regexp.MustCompile(`^States\.ArrayGetItem\(\$\[\*\]\.([A-Za-z0-9_]+), ?0\)$`)

// mapCounts follows a counter through the Map: every iteration's end adds one to
// what the ItemSelector gave it, and the ResultSelector takes the first. It
// returns the counters and their fields inside the iterations.
func (s *state) mapCounts() (outer, inner []string) {
	results, selector := sub(s.body, "ResultSelector"), sub(s.body, "ItemSelector")
	for _, k := range slices.Sorted(maps.Keys(results)) {
		m := firstItem.FindStringSubmatch(str(results, k))
		if m == nil {
			continue
		}
		counter := s.resultRoot() + "." + strings.TrimSuffix(k, ".$")
		from := s.endsAdding(m[1])
		if from != "" && str(selector, from+".$") == counter {
			outer, inner = append(outer, counter), append(inner, "$."+from)
		}
	}
	return outer, inner
}

// endsAdding returns the field to which every end of the Map's iterations adds
// one as field, "" if one of them doesn't.
func (s *state) endsAdding(field string) string {
	from := ""
	states := sub(s.body, "ItemProcessor", "States")
	for _, name := range slices.Sorted(maps.Keys(states)) {
		end := sub(states, name)
		if end["End"] != true {
			continue
		}
		m := plusOne.FindStringSubmatch(str(sub(end, "Parameters"), field+".$"))
		if m == nil || (from != "" && m[1] != from) {
			return ""
		}
		from = m[1]
	}
	return strings.TrimPrefix(from, "$.")
}

// counters returns what grows somewhere in sc.
func (sc *scope) counters() []string {
	set := map[string]bool{}
	for _, s := range sc.sorted {
		for _, e := range s.edges() {
			for _, c := range s.counts(e) {
				set[c] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func (sc *scope) isCounter(path string) bool { return slices.Contains(sc.counters(), path) }

// reaches says whether there is a way, of any length, from one state to another
// over the edges that skip leaves; nil leaves all.
func (sc *scope) reaches(from, to string, skip func(*state, edge) bool) bool {
	seen := map[string]bool{}
	queue := []string{from}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if name == to {
			return true
		}
		s, ok := sc.states[name]
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		for _, e := range s.edges() {
			if skip == nil || !skip(s, e) {
				queue = append(queue, e.to)
			}
		}
	}
	return false
}

func countedLoops(f *search) {
	for _, sc := range f.scopes {
		f.uncounted(sc)
		for _, c := range sc.counters() {
			f.uncompared(sc, c)
		}
		for _, s := range sc.sorted {
			f.checkReset(s)
		}
	}
}

// uncounted reports the first state, in the order of the run, that has a way back
// to itself on which nothing counts.
func (f *search) uncounted(sc *scope) {
	counted := func(s *state, e edge) bool { return len(s.counts(e)) > 0 }
	for _, s := range sc.sorted {
		for _, e := range s.edges() {
			if !counted(s, e) && sc.reaches(e.to, s.name, counted) {
				f.add(e.path, "there is a way from %s over %s and back that isn't counted", s.name, e.to)
				return
			}
		}
	}
}

// uncompared reports the states that count on a way round that doesn't pass the
// Choice which bounds the counter. If none does, that is bound-before-loops'
// finding.
func (f *search) uncompared(sc *scope, counter string) {
	compared := func(s *state, _ edge) bool { return s.isBound(counter) }
	for _, s := range sc.sorted {
		for _, e := range s.edges() {
			if sc.isBounded(counter) && slices.Contains(s.counts(e), counter) && sc.reaches(e.to, s.name, compared) {
				f.add(e.path, "there is a way from %s over %s and back on which %s isn't compared", s.name, e.to, counter)
			}
		}
	}
}

func (s *state) isBound(counter string) bool {
	return slices.ContainsFunc(s.bounds(), func(b bound) bool { return b.counter == counter })
}

// isBounded says whether some Choice of sc compares the counter.
func (sc *scope) isBounded(counter string) bool {
	return slices.ContainsFunc(sc.sorted, func(s *state) bool { return s.isBound(counter) })
}

// checkReset looks for a state inside a loop that writes a counter in another
// way than by keeping it or adding one.
func (f *search) checkReset(s *state) {
	if s.kind == "Choice" || s.kind == "Wait" || !s.loops() {
		return
	}
	if to, named := s.body["ResultPath"]; named && to == nil {
		return
	}
	for _, c := range s.in.counters() {
		rest, inside := strings.CutPrefix(c, s.resultRoot()+".")
		next := edge{via: "Next"}
		if !inside || slices.Contains(s.counts(next), c) {
			continue
		}
		if s.kind != "Pass" || kept(sub(s.body, "Parameters"), rest) != c {
			f.add(s.path, "%s overwrites %s inside the loop that it counts", s.name, c)
		}
	}
}

// kept returns the path that a template copies to the field.
func kept(template object, field string) string {
	keys := strings.Split(field, ".")
	last := len(keys) - 1
	return str(sub(template, keys[:last]...), keys[last]+".$")
}

func (s *state) loops() bool {
	for _, e := range s.edges() {
		if s.in.reaches(e.to, s.name, nil) {
			return true
		}
	}
	return false
}

func boundBeforeLoops(f *search) {
	for _, sc := range f.scopes {
		limit := float64(MaxTurns)
		if sc.owner != nil {
			limit = MaxRounds
		}
		for _, c := range sc.counters() {
			if !sc.isBounded(c) {
				f.add(sc.path, "no Choice ends the loop that %s counts", c)
			}
		}
		for _, s := range sc.sorted {
			if s.kind == "Choice" && s.loops() && len(s.bounds()) > 0 {
				f.checkOrder(s, limit)
			}
		}
	}
}

// checkOrder walks the rules of a bounding Choice: before one that leads back,
// each bounded counter must have been compared.
func (f *search) checkOrder(s *state, limit float64) {
	open := map[string]bool{}
	for _, c := range s.in.counters() {
		open[c] = s.in.isBounded(c)
	}
	bounds := s.bounds()
	for _, e := range s.edges() {
		i := slices.IndexFunc(bounds, func(b bound) bool { return e.via == "Choice" && b.at == e.at })
		if i >= 0 {
			open[bounds[i].counter] = false
			if bounds[i].limit > limit {
				f.add(e.path, "the bound is %v, above %v", bounds[i].limit, limit)
			}
			continue
		}
		for _, c := range slices.Sorted(maps.Keys(open)) {
			if open[c] && s.leadsBack(e.to) {
				f.add(e.path, "the way back over %s comes before %s is compared", e.to, c)
			}
		}
	}
}
