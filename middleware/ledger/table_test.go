package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// reachable walks the table from "no record", guards aside, and returns every
// state with the row that first led there.
func reachable() map[State]string {
	found := map[State]string{{}: "nothing"}
	todo := []State{{}}
	for len(todo) > 0 {
		s := todo[0]
		todo = todo[1:]
		for _, row := range rows {
			if !row.Matches(s) {
				continue
			}
			after := row.After(s)
			if _, seen := found[after]; !seen {
				found[after] = row.Name
				todo = append(todo, after)
			}
		}
	}
	return found
}

// brokenRules returns what is wrong with the table as a whole: the rules that
// no single story shows.
func brokenRules() []string {
	var broken []string
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	states := reachable()
	for _, status := range Statuses() {
		if !slices.ContainsFunc(keys(states), func(s State) bool { return s.Status == status }) {
			report("nothing leads to %s", status)
		}
	}
	for s := range states {
		for _, wrong := range impossible(s) {
			report("%s is reachable: %s", s, wrong)
		}
		for _, row := range rows {
			if row.Matches(s) {
				checkRow(row, s, report)
			}
		}
		ambiguous(s, report)
	}
	return broken
}

func impossible(s State) []string {
	only := func(flag Flags, statuses ...Status) string {
		if s.Flags.Has(flag) && !slices.Contains(statuses, s.Status) {
			return flag.String() + " has no meaning there"
		}
		return ""
	}
	wrong := []string{
		only(Retryable, Failed), only(Granted, Failed), only(Approved, Reserved), only(UndoOpen, Completed, Failed, Indeterminate),
	}
	if s.Flags.Has(Granted) && !s.Flags.Has(Retryable) {
		wrong = append(wrong, "a grant for a call that can't run again")
	}
	if s.Flags.Has(Contradicted | Acknowledged) {
		wrong = append(wrong, "a contradiction that was seen already")
	}
	return slices.DeleteFunc(wrong, func(w string) bool { return w == "" })
}

// checkRow holds one move against the promise.
func checkRow(row Row, s State, report func(string, ...any)) {
	after := row.After(s)
	settled := func(st Status) bool { return st == Completed || st == Failed || st == Compensated }
	toldNothing := s.Status == Failed && !s.Flags.Has(Retryable)
	switch {
	case after.Status == Started && (s.Status == Started || s.Status == Indeterminate) && after.Status != s.Status:
		report("%s: an unknown call runs again", row.Name)
	case row.Event == Start && s.Status == Started:
		report("%s: two executors", row.Name)
	case row.Event == Start && s.Flags.Has(Contradicted):
		report("%s: runs again although an effect was reported", row.Name)
	case row.Event == Start && s.Flags.Has(Acknowledged) && !s.Flags.Has(Granted):
		report("%s: runs again unasked although a person has seen an effect", row.Name)
	case row.Event == Start && toldNothing:
		report("%s: runs after somebody was told that it did nothing", row.Name)
	case settled(s.Status) && s.Status != after.Status && (s.Status != Failed || after.Status != Started || !s.Flags.Has(Retryable)) && after.Status != Compensated:
		report("%s: a settled call becomes %s", row.Name, after)
	case after.Status == Compensated && s.Status != Compensated && row.Event != UndoComplete && row.Event != AcknowledgeUndo:
		report("%s: compensated unasked", row.Name)
	case row.Proof == ByExistence && after != s:
		report("%s: evidence moves the call", row.Name)
	case len(row.Guards) > 0 && row.Proof != ByVersion:
		report("%s: its guards are not proved by the write", row.Name)
	case row.Proof == ByAbsence && s.Status != None:
		report("%s: creates what exists", row.Name)
	case row.Proof != ByAbsence && s.Status == None:
		report("%s: moves what does not exist", row.Name)
	}
}

// ambiguous finds two rows that would answer one event in one state.
func ambiguous(s State, report func(string, ...any)) {
	seen := map[Event]Row{}
	for _, row := range rows {
		if !row.Matches(s) {
			continue
		}
		if other, twice := seen[row.Event]; twice && other.Proof == row.Proof {
			report("%s and %s both answer %s in %s", other.Name, row.Name, row.Event, s)
		}
		seen[row.Event] = row
	}
}

func keys(m map[State]string) []State {
	all := make([]State, 0, len(m))
	for s := range m {
		all = append(all, s)
	}
	return all
}

// Proves: R29, R61, R113, R114, R115, R116
func TestTableKeepsThePromise(t *testing.T) {
	for _, broken := range brokenRules() {
		t.Error(broken)
	}
}

func TestEveryRowHasANameOfItsOwnAndAReason(t *testing.T) {
	names := map[string]bool{}
	for _, row := range Table() {
		if row.Name == "" || names[row.Name] {
			t.Errorf("row %q: want a name of its own", row.Name)
		}
		names[row.Name] = true
		if !strings.HasSuffix(row.Why, ".") {
			t.Errorf("row %q: want a reason in whole sentences", row.Name)
		}
	}
}

func TestEveryPairOfStateAndEventIsARowOrIsRefusedByName(t *testing.T) {
	for s := range reachable() {
		for _, event := range Events() {
			known := slices.ContainsFunc(rows, func(row Row) bool { return row.Event == event && row.Matches(s) })
			_, err := Decide(Record{Status: s.Status, Flags: s.Flags}, event, Given{})
			switch {
			case err == nil && !known:
				t.Errorf("%s from %s is allowed by no row", event, s)
			case err != nil && !errors.Is(err, ErrNotAllowed):
				t.Errorf("%s from %s: %v", event, s, err)
			case err != nil && (!strings.Contains(err.Error(), string(event)) || !strings.Contains(err.Error(), s.String())):
				t.Errorf("%s from %s is refused without its name: %v", event, s, err)
			}
		}
	}
}

// failingStories runs every story file on the table as it stands and returns
// the places where something else came out than is written.
func failingStories(t *testing.T) []string {
	t.Helper()
	var failing []string
	err := filepath.WalkDir("testdata/stories", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s := newStory(t)
		datadriven.RunTestFromString(t, string(text), func(_ *testing.T, d *datadriven.TestData) (expected string) {
			expected = d.Expected
			defer func() {
				if recover() != nil { // a broken table may panic: that is noticed too
					failing = append(failing, d.Pos)
				}
			}()
			if got := s.run(d); got != d.Expected {
				failing = append(failing, d.Pos)
			}
			return expected
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return failing
}

// alterations returns each way to break one row.
func alterations(row Row) map[string]*Row {
	changed := map[string]*Row{"deleted": nil}
	alter := func(name string, f func(*Row)) {
		copied := row
		copied.Guards, copied.From = slices.Clone(row.Guards), slices.Clone(row.From)
		f(&copied)
		changed[name] = &copied
	}
	for i, g := range row.Guards {
		alter("without guard "+string(g), func(r *Row) { r.Guards = slices.Delete(r.Guards, i, i+1) })
	}
	for _, flag := range AllFlags() {
		if row.With.Has(flag) {
			alter("not asking for "+flag.String(), func(r *Row) { r.With &^= flag })
		}
		if row.Without.Has(flag) {
			alter("letting "+flag.String()+" pass", func(r *Row) { r.Without &^= flag })
		}
		if row.Clear.Has(flag) {
			alter("not clearing "+flag.String(), func(r *Row) { r.Clear &^= flag })
		}
		if row.Set.Has(flag) {
			alter("not setting "+flag.String(), func(r *Row) { r.Set &^= flag })
		}
	}
	for i, from := range row.From {
		if len(row.From) > 1 {
			alter("not from "+from.String(), func(r *Row) { r.From = slices.Delete(r.From, i, i+1) })
		}
	}
	if row.Same && !slices.Equal(row.From, []Status{Completed}) {
		alter("to completed", func(r *Row) { r.Same, r.To = false, Completed })
	} else if !row.Same {
		for _, to := range []Status{Started, Completed, Failed, Indeterminate} {
			if to != row.To {
				alter("to "+to.String(), func(r *Row) { r.To = to })
			}
		}
	}
	switch row.Proof {
	case ByVersion, ByToken, ByEarlierToken:
		alter("proved by existence", func(r *Row) { r.Proof = ByExistence })
	case ByAbsence:
		alter("proved by version", func(r *Row) { r.Proof = ByVersion })
	case ByExistence:
	}
	return changed
}

func TestNoRowCanBeDeletedOrAlteredUnnoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: it alters the rules some 400 times, one after the other; make test does so")
	}
	whole := rows
	t.Cleanup(func() { rows = whole })
	var unnoticed []string // reported at the end: datadriven stops at a failed test
	for i, row := range whole {
		for name, altered := range alterations(row) {
			rows = slices.Clone(whole)
			if altered == nil {
				rows = slices.Delete(rows, i, i+1)
			} else {
				rows[i] = *altered
			}
			if len(failingStories(t)) == 0 && len(brokenRules()) == 0 {
				unnoticed = append(unnoticed, fmt.Sprintf("row %q %s: nobody noticed", row.Name, name))
			}
		}
	}
	slices.Sort(unnoticed)
	for _, what := range unnoticed {
		t.Error(what)
	}
}
