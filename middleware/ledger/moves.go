package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Call is what an executor, or whoever asks for an approval, writes down of a
// call before anything runs.
type Call struct {
	Key         Key
	Tool        string
	Class       string
	Agent       string
	Turn        int
	Fingerprint Digest
	Received    Digest
	Summary     string
	Permission  string
	KeyWindow   time.Duration // how long the receiver honours a key; 0: no limit known
}

// Executor is the process that is about to run a call.
type Executor struct {
	Token      AttemptToken
	Attempt    int // the attempt that the caller names; 1 unless it says otherwise
	Deadline   time.Time
	QuietAfter time.Time
	RequestID  string
}

// Settlement is what became of a call, as far as its reporter knows.
type Settlement struct {
	Effect     Effect // Happened, NoEffect or Unknown
	Retryable  bool   // with NoEffect: nothing was sent
	Result     []byte
	NotKept    bool // with Happened: there is a result that can't be encoded
	ExternalID string
	Code       string
	Message    string
}

// Start asks to run the call c. On the zero Record it is the reservation, on a
// reserved or failed one it uses up an approval, a grant or the caller's word.
// [ErrNotAllowed] means that it must not run now.
func (r Record) Start(s Stamp, c Call, x Executor) (Move, error) {
	row, err := Decide(r, Start, Given{Now: s.At, Attempt: x.Attempt, KeyWindow: c.KeyWindow})
	if err != nil {
		return Move{}, err
	}
	attempt := Attempt{Number: 1, Token: x.Token, StartedAt: s.At, Deadline: x.Deadline, QuietAfter: x.QuietAfter, RequestID: x.RequestID}
	if !r.Exists() {
		return created(row, s, c, Record{Attempt: attempt})
	}
	attempt.Number = r.Attempt.Number + 1
	if r.Attempt.Token != "" {
		attempt.Earlier = append(slices.Clone(r.Attempt.Earlier), r.Attempt.Token)
	}
	return r.moved(row, Change{Stamp: s, Attempt: &attempt, Outcome: &Outcome{}, Evidence: r.earlier(s)}), nil
}

// earlier keeps why the attempt before failed, since the next one's outcome
// takes that place. A person's reason is among the decisions.
func (r Record) earlier(s Stamp) *Entry {
	if r.Outcome.Code == "" || r.Outcome.By.Kind == ByPerson {
		return nil
	}
	kind := NotAttempted
	if r.Outcome.By.Kind == ByHook {
		kind = FindAbsent
	}
	reason := fmt.Sprintf("attempt %d: %s: %s", r.Attempt.Number, r.Outcome.Code, r.Outcome.Message)
	return &Entry{ID: s.WriteID, Kind: kind, By: string(r.Outcome.By.Kind), Reason: Shorten(reason, MaxMessage), At: s.At, Before: r.State().String(), After: string(Started)}
}

// AskApproval reserves the call until a person approves it or window passes.
func (r Record) AskApproval(s Stamp, c Call, window time.Duration, policy int) (Move, error) {
	row, err := Decide(r, AskApproval, Given{Now: s.At})
	if err != nil {
		return Move{}, err
	}
	return created(row, s, c, Record{Approval: Approval{ExpiresAt: s.At.Add(window), Fingerprint: c.Fingerprint, Policy: policy}})
}

// Close makes sure that nothing can start under the key any more, before
// somebody is told that it did nothing.
func (r Record) Close(s Stamp, key Key, by Settler) (Move, error) {
	row, err := Decide(r, Close, Given{Now: s.At})
	if err != nil {
		return Move{}, err
	}
	outcome := Outcome{Code: "closed", Message: "nothing ran, and nothing can run any more", By: by, At: s.At}
	if !r.Exists() {
		return created(row, s, Call{Key: key}, Record{Outcome: outcome})
	}
	outcome = r.Outcome // why it failed stays; only the right to run again goes
	outcome.At = s.At
	return r.moved(row, Change{Stamp: s, Outcome: &outcome}), nil
}

// Follow records that the call answers as its owner does. The owner is "" or
// the key of another call.
func (r Record) Follow(s Stamp, c Call, owner Key) (Move, error) {
	row, err := Decide(r, Follow, Given{Now: s.At})
	if err != nil {
		return Move{}, err
	}
	return created(row, s, c, Record{Owner: owner.String()})
}

// Journal records a read that ran, with what it returned or why it failed.
func (r Record) Journal(s Stamp, c Call, what Settlement) (Move, error) {
	event := JournalFailed
	if what.Effect == Happened {
		event = JournalCompleted
	}
	row, err := Decide(r, event, Given{Now: s.At})
	if err != nil {
		return Move{}, err
	}
	return created(row, s, c, Record{Attempt: Attempt{Number: 1}, Outcome: what.outcome(Settler{Kind: ByExecutor}, s.At)})
}

// Settle records what the executor that holds token knows, also when it is
// late. If the ledger denies an effect that the executor saw, the move flags
// the contradiction. [ErrNotAllowed] means that only evidence may be left, see
// [Record.Note].
func (r Record) Settle(s Stamp, token AttemptToken, what Settlement) (Move, error) {
	given := Given{Now: s.At, Token: token}
	event := what.event()
	if _, err := Decide(r, event, given); err == nil {
		outcome := what.outcome(Settler{Kind: ByExecutor, ID: r.Attempt.RequestID}, s.At)
		// Every row of the event, so that a write which is still on its way when
		// the call is orphaned lands all the same.
		return Move{rows: rowsOf(event, ByToken), key: r.Key, read: r, proof: Proof{Kind: ByToken, Token: token}, change: Change{Stamp: s, Outcome: &outcome}}, nil
	} else if what.Effect != Happened {
		return Move{}, err
	}
	row, err := Decide(r, LateComplete, given)
	if err != nil {
		return Move{}, err
	}
	m := r.moved(row, r.contradiction(row, s, ByExecutor, what))
	m.proof.Token = token
	return m, nil
}

func (w Settlement) event() Event {
	switch {
	case w.Effect == Happened:
		return Complete
	case w.Effect == NoEffect && w.Retryable:
		return NotAttempted
	case w.Effect == NoEffect:
		return Reject
	}
	return LoseTrack
}

func (w Settlement) outcome(by Settler, at time.Time) Outcome {
	return Outcome{ExternalID: w.ExternalID, Result: w.Result, Ref: ResultRef{NotKept: w.NotKept}, Code: w.Code, Message: Shorten(w.Message, MaxMessage), By: by, At: at}
}

// Orphan turns a started call whose executor's deadline has passed into an
// indeterminate one.
func (r Record) Orphan(s Stamp) (Move, error) {
	return r.decided(Orphan, s, Given{Now: s.At}, func(c *Change) {
		c.Outcome = &Outcome{Code: "executor_lost", Message: "the executor did not report before its deadline", By: Settler{Kind: BySweeper}, At: s.At}
	})
}

// Expire ends an approval that nobody gave in time.
func (r Record) Expire(s Stamp) (Move, error) {
	return r.decided(Expire, s, Given{Now: s.At}, func(c *Change) {
		c.Outcome = &Outcome{Code: "approval_expired", Message: "nobody approved it in time", By: Settler{Kind: BySweeper}, At: s.At}
	})
}

// NewPolicy takes back an approval that was given under an older policy epoch.
func (r Record) NewPolicy(s Stamp, epoch int) (Move, error) {
	return r.decided(NewPolicy, s, Given{Now: s.At}, func(c *Change) {
		approval := r.Approval
		approval.Policy, approval.By, approval.At = epoch, "", time.Time{}
		c.Approval = &approval
	})
}

// contradiction is what a move writes that flags an effect which the record
// denies.
func (r Record) contradiction(row Row, s Stamp, by SettlerKind, what Settlement) Change {
	return Change{Stamp: s, Evidence: &Entry{
		ID: s.WriteID, Kind: row.Event, By: string(by), Reason: Shorten("reports the effect "+what.ExternalID, MaxMessage),
		At: s.At, Before: r.State().String(), After: row.After(r.State()).String(),
	}}
}

// Look records what a look-up that began at began found. Happened settles the
// call, or flags a contradiction if somebody has called it failed meanwhile.
// NoEffect settles it only if authoritative says that absence is proof and began
// lies after the call's quiet time. Unknown is [Record.Note]'s.
func (r Record) Look(s Stamp, began time.Time, authoritative bool, what Settlement) (Move, error) {
	event := Find
	if what.Effect == NoEffect {
		event = FindAbsent
	} else if row, err := Decide(r, LateFind, Given{Now: s.At}); err == nil {
		return r.moved(row, r.contradiction(row, s, ByHook, what)), nil
	}
	return r.decided(event, s, Given{Now: s.At, Began: began, Authoritative: authoritative}, func(c *Change) {
		outcome := what.outcome(Settler{Kind: ByHook}, s.At)
		c.Outcome = &outcome
	})
}

// CloseUndo records how undo n ended: Happened, or NoEffect for good. While it
// is unknown the undo stays open.
func (r Record) CloseUndo(s Stamp, n int, effect Effect) (Move, error) {
	event := UndoFail
	if effect == Happened {
		event = UndoComplete
	} else if effect != NoEffect {
		return Move{}, fmt.Errorf("%w: an undo that is unknown stays open", ErrNotAllowed)
	}
	return r.decided(event, s, Given{Now: s.At, Undo: n}, r.settledNow(s))
}

// settledNow makes retention count from the move: the call was unsettled until
// now, so repeats may come for as long as after any other settlement.
func (r Record) settledNow(s Stamp) func(*Change) {
	return func(c *Change) {
		if r.Outcome.At.IsZero() {
			return
		}
		outcome := r.Outcome
		outcome.At = s.At
		c.Outcome = &outcome
	}
}

// Note adds evidence without moving the call: Version stays as it is, so that
// evidence can't make a person's decision stale.
func (r Record) Note(s Stamp, e Entry) (Move, error) {
	row, err := Decide(r, Note, Given{Now: s.At})
	if err != nil {
		return Move{}, err
	}
	e.ID, e.At = s.WriteID, s.At
	e.Reason = Shorten(e.Reason, MaxMessage)
	return Move{rows: []Row{row}, key: r.Key, read: r, proof: Proof{Kind: ByExistence}, change: Change{Stamp: s, Evidence: &e}}, nil
}

// decided makes the move of a row that proves the version read.
func (r Record) decided(event Event, s Stamp, given Given, fill func(*Change)) (Move, error) {
	row, err := Decide(r, event, given)
	if err != nil {
		return Move{}, err
	}
	c := Change{Stamp: s}
	fill(&c)
	return r.moved(row, c), nil
}

func (r Record) moved(row Row, c Change) Move {
	return Move{rows: []Row{row}, key: r.Key, read: r, proof: Proof{Kind: row.Proof, Version: r.Version}, change: c}
}

// created makes the move that puts r, which holds what only its event knows.
func created(row Row, s Stamp, c Call, r Record) (Move, error) {
	if err := c.Key.Check(); err != nil {
		return Move{}, err
	}
	r.Key, r.Tool, r.Class, r.Agent, r.Turn = c.Key, c.Tool, c.Class, c.Agent, c.Turn
	r.Status, r.Flags, r.Version, r.LastWrite = row.To, row.Set, 1, s.WriteID
	r.Fingerprint, r.Received, r.Permission, r.CreatedAt = c.Fingerprint, c.Received, c.Permission, s.At
	r.Summary = Shorten(c.Summary, MaxSummary)
	r.WaitsSince = WaitsSince(State{}, r.State(), time.Time{}, s.At)
	return Move{rows: []Row{row}, key: c.Key, proof: Proof{Kind: ByAbsence}, change: Change{Stamp: s}, create: r}, nil
}

func rowsOf(event Event, proof ProofKind) []Row {
	var found []Row
	for i := range rows {
		if row := &rows[i]; row.Event == event && row.Proof == proof {
			found = append(found, *row)
		}
	}
	return found
}

// Shorten cuts s to at most limit bytes, at a rune's edge, and marks the cut.
func Shorten(s string, limit int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	cut := limit - len(mark)
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + mark
}
