package ledger

import "strings"

// Status is where a call stands. The zero Status means that there is no record.
type Status string

// The statuses of a call. Completed, Failed and Compensated are settled.
const (
	None          Status = ""              // no record
	Reserved      Status = "reserved"      // waits for an approval
	Started       Status = "started"       // an executor may be running it
	Completed     Status = "completed"     // took effect
	Failed        Status = "failed"        // certainly did not take effect
	Indeterminate Status = "indeterminate" // nobody knows; never runs again by itself
	Compensated   Status = "compensated"   // took effect and was undone
	Follower      Status = "follows"       // answers as its owner does; has no status of its own
)

// Statuses returns every status that a stored record can have, in the order of
// a call's life.
func Statuses() []Status {
	return []Status{Reserved, Started, Completed, Failed, Indeterminate, Compensated, Follower}
}

// String returns the word, or "none" for no record.
func (s Status) String() string {
	if s == None {
		return "none"
	}
	return string(s)
}

// Flags refine a status. They are stored one attribute each, and the rows of
// the table ask for them by name.
type Flags uint8

// The flags.
const (
	Retryable    Flags = 1 << iota // a failed call may run again, by a grant or a named next attempt
	Granted                        // a person granted one more attempt, not used yet
	Approved                       // a reserved call may start
	UndoOpen                       // an undo was asked for and has not ended
	Contradicted                   // a late outcome says what the status denies; nobody has looked yet
	Acknowledged                   // a person has seen the contradiction
	Decided                        // a person decided on the call while it was unknown
)

var flagNames = []string{"retryable", "granted", "approved", "undo_open", "contradicted", "acknowledged", "decided"}

// AllFlags returns every single flag, in the order of their bits.
func AllFlags() []Flags {
	all := make([]Flags, len(flagNames))
	for i := range flagNames {
		all[i] = 1 << i
	}
	return all
}

// Has reports whether all of the flags in want are set.
func (f Flags) Has(want Flags) bool { return f&want == want }

// Names returns the flags' names, in the order of their bits.
func (f Flags) Names() []string {
	var names []string
	for i, name := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String returns the names joined by ", ".
func (f Flags) String() string { return strings.Join(f.Names(), ", ") }

// State is a status with its flags: all that the table looks at.
type State struct {
	Status Status
	Flags  Flags
}

// String returns for example "failed, retryable, granted". A failed call that
// is not retryable reads "failed, final".
func (s State) String() string {
	words := []string{s.Status.String()}
	if s.Status == Failed && !s.Flags.Has(Retryable) {
		words = append(words, "final")
	}
	return strings.Join(append(words, s.Flags.Names()...), ", ")
}

// Effect is what is known of a call's effect. The zero Effect is Unknown.
type Effect uint8

// What can be known of an effect.
const (
	Unknown  Effect = iota // it may or may not have happened
	NoEffect               // it certainly did not happen
	Happened               // it happened
	Undone                 // it happened and was undone
)

// String returns the word that answers use: unknown, none, happened or undone.
func (e Effect) String() string {
	switch e {
	case NoEffect:
		return "none"
	case Happened:
		return "happened"
	case Undone:
		return "undone"
	case Unknown:
	}
	return "unknown"
}

// MarshalText returns [Effect.String].
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads what MarshalText writes. A word that this version does not
// know reads as Unknown.
func (e *Effect) UnmarshalText(text []byte) error {
	*e = Unknown
	for _, known := range []Effect{NoEffect, Happened, Undone} {
		if known.String() == string(text) {
			*e = known
		}
	}
	return nil
}
