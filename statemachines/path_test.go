package statemachines_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// line is the way of the run, or of one call in one Map.
type line struct {
	name  string
	steps []step
}

// step is a state that was entered, with the attempts of its task and the errors
// that they ended in.
type step struct {
	state    string
	attempts int
	errors   string // separated by commas; the same in a row is said once
}

func (s *step) String() string {
	out := s.state
	if s.attempts > 1 {
		out += fmt.Sprintf("[%d attempts]", s.attempts)
	}
	if s.errors != "" {
		out += "(" + s.errors + ")"
	}
	return out
}

func (s *step) fail(name string) {
	switch {
	case s.errors == "":
		s.errors = name
	case s.errors != name && !strings.HasSuffix(s.errors, ", "+name):
		s.errors += ", " + name
	}
}

// ways puts the events in lines: an event belongs where the one before it did,
// but for those that begin and end an iteration.
func ways(events []event) []string {
	run := &line{name: "run"}
	lines := []*line{run}
	owner := map[int64]*line{0: run}
	for _, e := range events {
		l := owner[e.Previous]
		switch {
		case e.Type == "MapIterationStarted":
			l = &line{}
			lines = append(lines, l)
		case strings.HasPrefix(e.Type, "MapState"):
			l = run
		case strings.HasSuffix(e.Type, "StateEntered"):
			l.enter(e)
		case e.Type == "TaskScheduled" && len(l.steps) > 0:
			l.steps[len(l.steps)-1].attempts++
		case (e.Type == "TaskFailed" || e.Type == "TaskTimedOut") && len(l.steps) > 0:
			l.steps[len(l.steps)-1].fail(e.Failed.Error + e.TimedOut.Error)
		}
		owner[e.ID] = l
	}
	var out []string
	for _, l := range lines {
		out = append(out, l.name+": "+strings.Join(fold(l.steps), " > "))
	}
	return foldLines(out)
}

// foldLines writes a line that stands three times or more in a row once, with
// the number.
func foldLines(lines []string) []string {
	var out []string
	for i := 0; i < len(lines); {
		n := 1
		for i+n < len(lines) && lines[i+n] == lines[i] {
			n++
		}
		if n < 3 {
			out = append(out, lines[i:i+n]...)
		} else {
			out = append(out, fmt.Sprintf("%s (in %d Maps)", lines[i], n))
		}
		i += n
	}
	return out
}

func (l *line) enter(e event) {
	if l.name == "" {
		var in struct {
			Envelope struct{ Call struct{ ID string } }
		}
		_ = json.Unmarshal([]byte(e.Entered.Input), &in) // a line without a name shows it
		l.name = "  " + in.Envelope.Call.ID
	}
	l.steps = append(l.steps, step{state: e.Entered.Name})
}

// longestCycle is the most states in one way round a call's loop.
const longestCycle = 6

// fold writes what is repeated three times or more once, with the number.
func fold(steps []step) []string {
	var out []string
	for i := 0; i < len(steps); {
		length, times := cycle(steps[i:])
		if times < 3 {
			out = append(out, steps[i].String())
			i++
			continue
		}
		out = append(out, fmt.Sprintf("(%s) x %d", strings.Join(fold(steps[i:i+length]), " > "), times))
		i += length * times
	}
	return out
}

// cycle returns the repetition at the front of steps that covers the most.
func cycle(steps []step) (length, times int) {
	for n := 1; n <= longestCycle && n <= len(steps); n++ {
		k := 1
		for len(steps) >= (k+1)*n && slices.Equal(steps[:n], steps[k*n:(k+1)*n]) {
			k++
		}
		if k > 1 && k*n > length*times {
			length, times = n, k
		}
	}
	return length, times
}
