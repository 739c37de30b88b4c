package ledger

import (
	"fmt"
	"slices"
	"strings"
)

// Decide returns the row by which event moves r, or [ErrNotAllowed] with the
// reason: no row for the state, a guard that does not hold, or another's token.
// It is the only comparison of statuses that there is.
func Decide(r Record, event Event, given Given) (Row, error) {
	var unmet []string
	for i := range rows {
		row := &rows[i] // not copied: most are of other events
		if row.Event != event || !row.Matches(r.State()) {
			continue
		}
		missing := row.unmet(r, given)
		if len(missing) == 0 {
			return *row, nil
		}
		unmet = append(unmet, missing...)
	}
	if len(unmet) > 0 {
		return Row{}, fmt.Errorf("%w: %s from %s: not so: %s", ErrNotAllowed, event, r.State(), strings.Join(unmet, "; "))
	}
	return Row{}, fmt.Errorf("%w: %s from %s", ErrNotAllowed, event, r.State())
}

func (row Row) unmet(r Record, given Given) []string {
	var missing []string
	switch row.Proof {
	case ByToken:
		if given.Token == "" || given.Token != r.Attempt.Token {
			missing = append(missing, string(ByToken))
		}
	case ByEarlierToken:
		if !slices.Contains(r.Attempt.Earlier, given.Token) {
			missing = append(missing, string(ByEarlierToken))
		}
	case ByAbsence, ByVersion, ByExistence:
	}
	for _, g := range row.Guards {
		if !g.holds(r, given) {
			missing = append(missing, string(g))
		}
	}
	return missing
}
