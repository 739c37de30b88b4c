package statemachines

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

func narrowRetry(f *search) {
	for _, s := range f.of("Task") {
		if !s.mayRun() {
			continue
		}
		f.eachErrorName(s, "Retry", func(path, name string) {
			if !isHandlerNotEntered(name) {
				f.add(path, "%s is retried where a tool may have run", name)
			}
		})
	}
	for _, s := range f.of("Map") {
		if len(list(s.body, "Retry")) > 0 {
			f.add(s.under("Retry"), "a whole Map is retried, and each call in it")
		}
	}
}

func (f *search) eachErrorName(s *state, field string, visit func(path, name string)) {
	for i, r := range list(s.body, field) {
		o, _ := r.(object)
		for j, name := range errorNames(o) {
			visit(s.under(field)+index(i)+".ErrorEquals"+index(j), name)
		}
	}
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

func boundedRetry(f *search) {
	for _, s := range f.all() {
		for i, r := range list(s.body, "Retry") {
			o, _ := r.(object)
			if wrong := unbounded(o); wrong != "" {
				f.add(s.under("Retry")+index(i), "%s", wrong)
			}
		}
	}
}

// unbounded says what a retrier leaves open, "" if nothing.
func unbounded(retrier object) string {
	attempts, ok := retrier["MaxAttempts"].(float64)
	if !ok || attempts < 0 || attempts > 8 {
		return "MaxAttempts is not 0-8"
	}
	if attempts == 0 {
		return ""
	}
	for _, k := range []string{"IntervalSeconds", "BackoffRate", "MaxDelaySeconds"} {
		if n, ok := retrier[k].(float64); !ok || n < 1 {
			return k + " is not spelled out"
		}
	}
	if retrier["JitterStrategy"] != "FULL" {
		return "JitterStrategy is not FULL"
	}
	return ""
}

func knownErrors(f *search) {
	for _, s := range f.all() {
		for _, field := range []string{"Retry", "Catch"} {
			f.eachErrorName(s, field, func(path, name string) {
				if !isKnownError(name) {
					f.add(path, "%q is no error that Step Functions or we report", name)
				}
			})
		}
	}
}

func catchEverything(f *search) {
	for _, s := range f.of("Task", "Map") {
		named := false
		for _, c := range list(s.body, "Catch") {
			o, _ := c.(object)
			named = named || slices.Contains(errorNames(o), "States.DataLimitExceeded")
		}
		if !named {
			f.add(s.under("Catch"), "%s doesn't catch States.DataLimitExceeded by name", s.name)
		}
		f.allComesLast(s, "Catch", true)
		f.allComesLast(s, "Retry", false)
	}
}

// allComesLast checks that States.ALL stands alone and last, and at all if it is
// required.
func (f *search) allComesLast(s *state, field string, required bool) {
	l := list(s.body, field)
	for i, r := range l {
		o, _ := r.(object)
		names := errorNames(o)
		last := i == len(l)-1
		switch {
		case slices.Contains(names, "States.ALL") && (len(names) > 1 || !last):
			f.add(s.under(field)+index(i), "States.ALL doesn't stand alone and last")
		case required && last && !slices.Contains(names, "States.ALL"):
			f.add(s.under(field), "%s doesn't catch States.ALL last", s.name)
		}
	}
	if required && len(l) == 0 {
		f.add(s.under(field), "%s catches nothing", s.name)
	}
}

func resultKeepsState(f *search) {
	for _, s := range f.all() {
		for i, c := range list(s.body, "Catch") {
			if o, _ := c.(object); !keeps(o) {
				f.add(s.under("Catch")+index(i)+".ResultPath", "the error replaces the state of %s", s.name)
			}
		}
		switch s.kind {
		case "Task", "Map":
			if !keeps(s.body) {
				f.add(s.under("ResultPath"), "the result replaces the state of %s", s.name)
			}
		case "Pass":
			if lost := s.lostByReplacing(); !s.ends() && !keeps(s.body) && len(lost) > 0 {
				f.add(s.under("ResultPath"), "%s replaces the state and loses %s", s.name, strings.Join(lost, ", "))
			}
		default:
			continue
		}
		for _, k := range []string{"InputPath", "OutputPath"} {
			if _, ok := s.body[k]; ok {
				f.add(s.under(k), "%s narrows the state of %s", k, s.name)
			}
		}
	}
}

// keeps says whether a result goes nowhere or to a field.
func keeps(o object) bool {
	to, named := o["ResultPath"]
	path, _ := to.(string)
	return named && (to == nil || strings.HasPrefix(path, "$."))
}

// lostByReplacing returns the fields of the state that some state of the scope
// reads, that no Task writes first, and that s doesn't write.
func (s *state) lostByReplacing() []string {
	made := sub(s.body, "Parameters")
	if made == nil {
		made = sub(s.body, "Result")
	}
	read := map[string]bool{}
	for _, other := range s.in.sorted {
		for _, p := range other.reads() {
			read[topField(p)] = true
		}
	}
	for _, other := range s.in.sorted {
		if other.kind == "Task" {
			delete(read, topField(str(other.body, "ResultPath")))
		}
	}
	for k := range made {
		delete(read, strings.TrimSuffix(k, ".$"))
	}
	delete(read, "")
	return slices.Sorted(maps.Keys(read))
}

// errorIsAnAnswer wants an iteration's errors at the Choice that bounds it. The
// wait is a doorbell: its errors lead back to asking, which that rule checks.
func errorIsAnAnswer(f *search) {
	for _, s := range f.of("Task") {
		if !s.inMap() {
			continue
		}
		for _, e := range s.edges() {
			to := s.in.states[e.to]
			switch {
			case e.via != "Catch" || to == nil:
			case to.ends():
				f.add(e.path, "an error of %s ends the call", s.name)
			case s.resource() != lambdaWait && len(to.bounds()) == 0:
				f.add(e.path, "an error of %s goes round the Choice that bounds the loop", s.name)
			}
		}
	}
}
