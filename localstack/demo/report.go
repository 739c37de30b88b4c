package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// Version is the version of the report's JSON form.
const Version = 1

// Report is what became of the stories.
type Report struct {
	Version int     `json:"version"`
	Stories []Story `json:"stories"`
	Summary Summary `json:"summary"`
}

// Story is one story's outcome. Effects are counted in the billing service's
// own database, never in ours.
type Story struct {
	Name           string   `json:"name"`
	RunID          string   `json:"run_id"`
	RunStatus      string   `json:"run_status"`
	CallStatus     string   `json:"call_status"`
	SettledBy      string   `json:"settled_by"`
	Effects        int      `json:"effects"`
	GuardedEffects *int     `json:"guarded_effects,omitempty"` // beside Effects of a plain Lambda
	Attempts       int      `json:"attempts"`
	ModelHeard     []string `json:"model_heard"`
	OK             bool     `json:"ok"`
	Why            string   `json:"why,omitempty"` // what did not hold

	voids int  // effects that were undone
	later bool // it was settled after the run's end
}

// Summary counts. DoubleEffects counts the effects beyond one that Onceward let
// happen, not those of the plain Lambda.
type Summary struct {
	Stories       int `json:"stories"`
	OK            int `json:"ok"`
	DoubleEffects int `json:"double_effects"`
}

func newReport(stories []Story) Report {
	r := Report{Version: Version, Stories: stories, Summary: Summary{Stories: len(stories)}}
	for _, s := range stories {
		if s.OK {
			r.Summary.OK++
		}
		ours := s.Effects
		if s.GuardedEffects != nil {
			ours = *s.GuardedEffects
		}
		r.Summary.DoubleEffects += max(0, ours-1)
	}
	return r
}

// Err returns an error that names the stories that did not hold, or nil.
func (r Report) Err() error {
	var errs []error
	for _, s := range r.Stories {
		if !s.OK {
			errs = append(errs, fmt.Errorf("demo: %s: %s", s.Name, s.Why))
		}
	}
	return errors.Join(errs...)
}

// WriteJSON writes the report as one JSON document.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// settlers says in plain words who settled a call.
var settlers = map[string]string{"": "nobody", "executor": "the tool itself", "hook": "the tool's look-up", "person": "the operator", "planner": "the end of the turn", "sweeper": "the sweeper"}

func (s *Story) settler() string {
	switch {
	case s.CallStatus == "indeterminate":
		return "nobody yet" // somebody has said that it is unknown
	case s.later:
		return settlers[s.SettledBy] + ", later"
	}
	return settlers[s.SettledBy]
}

func (s *Story) effects() string {
	switch {
	case s.GuardedEffects != nil:
		return fmt.Sprintf("plain %d, ours %d", s.Effects, *s.GuardedEffects)
	case s.voids > 0:
		return strconv.Itoa(s.Effects) + ", " + counted(s.voids, "void")
	}
	return strconv.Itoa(s.Effects)
}

// counted returns for example "1 credit" or "2 credits".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func (r Report) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "story\trun\tcall\tsettled by\teffects\tattempts\tdid it hold?")
	for _, s := range r.Stories {
		held := "yes"
		if !s.OK {
			held = "NO: " + s.Why
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", s.Name, s.RunStatus, s.CallStatus, s.settler(), s.effects(), s.Attempts, held)
	}
	return t.Flush()
}
