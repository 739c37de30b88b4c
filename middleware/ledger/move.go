package ledger

import (
	"fmt"
	"slices"
	"time"
)

// Move is one allowed change and the proof it needs. Only the methods of
// [Record] make moves, so a store can't be asked for one that the table lacks.
type Move struct {
	rows   []Row // of one event and one proof; several only with ByToken
	key    Key
	proof  Proof
	change Change
	create Record // with ByAbsence: the whole record
	read   Record // what the move was decided on; zero with ByAbsence
}

// Stamp says when a move is made and names its write. WriteID must be fresh and
// random: it is how a writer recognises its own write after a lost answer.
type Stamp struct {
	At      time.Time
	WriteID string
}

// Proof is what must be true of the stored record in the same write, beside
// that it is in one of the move's From states.
type Proof struct {
	Kind    ProofKind
	Version int64        // ByVersion
	Token   AttemptToken // ByToken, ByEarlierToken
}

// Change is what a move writes beside the state. Nil fields stay as they are.
type Change struct {
	Stamp    Stamp
	Attempt  *Attempt
	Approval *Approval
	Undo     *Undo
	Outcome  *Outcome
	Decision *Entry // appended in the same write
	Evidence *Entry // appended; with [Note] it is all that is written
}

// Event returns what the move does.
func (m Move) Event() Event { return m.rows[0].Event }

// Rows returns the rows of the table that allow the move; a store accepts the
// move in the From state of any of them. All lead to the same status. The caller
// must not change them.
func (m Move) Rows() []Row { return m.rows }

// Key returns the key of the record that the move is about.
func (m Move) Key() Key { return m.key }

// Proof returns what must be true of the stored record in the same write.
func (m Move) Proof() Proof { return m.proof }

// Read returns the record that the move was decided on, zero for a move from
// "no record". With [ByVersion] the proof holds only while it still stands, but
// for its evidence; with the other proofs it may have moved on.
func (m Move) Read() Record { return m.read }

// Change returns what is written beside the state.
func (m Move) Change() Change { return m.change }

// Creates returns the whole new record of a move from "no record"; ok is false
// for every other move.
func (m Move) Creates() (r Record, ok bool) { return m.create, m.proof.Kind == ByAbsence }

// NotesOnly reports whether the move appends evidence and changes nothing.
func (m Move) NotesOnly() bool { return m.proof.Kind == ByExistence }

// On applies the move to the stored record, or to the zero Record if there is
// none. If the proof fails it returns current and [ErrStale]. A store that can
// lock a record needs nothing else.
func (m Move) On(current Record) (Record, error) {
	row, ok := m.proves(current)
	if !ok {
		return current, &staleError{event: m.Event(), state: current.State(), version: current.Version}
	}
	if m.proof.Kind == ByAbsence {
		return m.create, nil
	}
	return m.change.apply(current, row), nil
}

// staleError is an [ErrStale] that makes its words only when somebody reads
// them: each repeat of a call meets one.
type staleError struct {
	event   Event
	state   State
	version int64
}

func (e *staleError) Error() string {
	return fmt.Sprintf("%v: %s: it is %s at version %d", ErrStale, e.event, e.state, e.version)
}

func (e *staleError) Unwrap() error { return ErrStale }

// StoredIn reports whether r, the record that refused the move, holds this very
// move: the write was stored and its answer was lost. A start counts only while
// it still is the last word, since it may have been orphaned and settled by a
// person while its sender waited. A decision counts wherever its id is.
func (m Move) StoredIn(r Record) bool {
	switch {
	case !r.Exists():
		return false
	case m.witnesses():
		return r.HasEvidence(m.change.Stamp.WriteID)
	case m.change.Decision != nil && r.HasDecision(m.change.Decision.ID):
		return true
	}
	return r.LastWrite == m.change.Stamp.WriteID && (m.Event() != Start || r.Status == Started)
}

// witnesses reports whether the move appends evidence without proving a version.
// Its states may come back, as those of a contradiction do once a person has
// acknowledged it, so only the evidence's id keeps a second arrival out.
func (m Move) witnesses() bool {
	return m.change.Evidence != nil && m.proof.Kind != ByVersion
}

func (m Move) proves(current Record) (Row, bool) {
	if m.witnesses() && m.StoredIn(current) {
		return Row{}, false
	}
	p := m.proof
	switch p.Kind {
	case ByAbsence:
		return m.rows[0], !current.Exists()
	case ByVersion:
		if p.Version != current.Version {
			return Row{}, false
		}
	case ByToken:
		if p.Token != current.Attempt.Token {
			return Row{}, false
		}
	case ByEarlierToken:
		if !slices.Contains(current.Attempt.Earlier, p.Token) {
			return Row{}, false
		}
	case ByExistence:
	}
	i := slices.IndexFunc(m.rows, func(row Row) bool { return row.Matches(current.State()) })
	if i < 0 {
		return Row{}, false
	}
	return m.rows[i], true
}

func (c Change) apply(r Record, row Row) Record {
	if c.Evidence != nil {
		r.Evidence = append(slices.Clone(r.Evidence), *c.Evidence)
	}
	if row.Event == Note {
		r.Rev++
		r.LastNote = c.Stamp.WriteID
		return r
	}
	before := r.State()
	after := row.After(before)
	r.Status, r.Flags = after.Status, after.Flags
	r.Version++
	r.LastWrite = c.Stamp.WriteID
	r.WaitsSince = WaitsSince(before, after, r.WaitsSince, c.Stamp.At)
	if c.Attempt != nil {
		r.Attempt = *c.Attempt
	}
	if c.Approval != nil {
		r.Approval = *c.Approval
	}
	if c.Undo != nil {
		r.Undo = *c.Undo
	}
	if c.Outcome != nil {
		r.Outcome = *c.Outcome
	}
	if c.Decision != nil {
		r.Decisions = append(slices.Clone(r.Decisions), *c.Decision)
	}
	return r
}

// WaitsSince returns since when a call in state after has needed somebody, if
// it was in state before until at, waiting since since.
func WaitsSince(before, after State, since, at time.Time) time.Time {
	switch {
	case !after.Unsettled():
		return time.Time{}
	case before == after && !since.IsZero():
		return since
	}
	return at
}
