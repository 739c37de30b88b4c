package ledger

//go:generate go run ../../internal/reference/states -o ../../docs/reference/states.md

import "slices"

// Event is what somebody wants to do to a call.
type Event string

// The events of the table.
const (
	Start            Event = "start"
	AskApproval      Event = "ask_approval"
	Close            Event = "close"
	Follow           Event = "follow"
	JournalCompleted Event = "journal_completed"
	JournalFailed    Event = "journal_failed"
	Approve          Event = "approve"
	NewPolicy        Event = "new_policy"
	Deny             Event = "deny"
	Expire           Event = "expire"
	Withdraw         Event = "withdraw"
	Complete         Event = "complete"
	NotAttempted     Event = "not_attempted"
	Reject           Event = "reject"
	LoseTrack        Event = "lose_track"
	Orphan           Event = "orphan"
	Find             Event = "found"
	FindAbsent       Event = "absent"
	ResolveCompleted Event = "resolve_completed"
	ResolveFailed    Event = "resolve_failed"
	ResolveRetry     Event = "resolve_retry"
	AskUndo          Event = "ask_undo"
	UndoComplete     Event = "undo_completed"
	UndoFail         Event = "undo_failed"
	AcknowledgeUndo  Event = "acknowledge_undo"
	LateComplete     Event = "late_completed"
	LateFind         Event = "late_found"
	Acknowledge      Event = "acknowledge"
	Note             Event = "note"
)

// Events returns every event, in the order of the table.
func Events() []Event {
	var all []Event
	for _, r := range rows {
		if !slices.Contains(all, r.Event) {
			all = append(all, r.Event)
		}
	}
	return all
}

// ProofKind is what must be true of the stored record in the same write.
type ProofKind string

// The proofs. A store needs to know only these five.
const (
	ByAbsence      ProofKind = "no record"
	ByVersion      ProofKind = "version read"
	ByToken        ProofKind = "own attempt token"
	ByEarlierToken ProofKind = "token of an earlier attempt"
	ByExistence    ProofKind = "record exists"
)

// Row is one allowed move. From is any of the statuses, With the flags that
// must be set and Without those that must not. The move keeps the status where
// Same is set, otherwise it goes to To. Guards are named conditions that only
// the record as it was read can answer; they come with [ByVersion] or
// [ByAbsence], so that the write proves that they still hold.
type Row struct {
	Name    string
	From    []Status
	With    Flags
	Without Flags
	Event   Event
	To      Status
	Same    bool
	Set     Flags
	Clear   Flags
	Proof   ProofKind
	Guards  []Guard
	Why     string
}

// Matches reports whether the row is about state s.
func (r Row) Matches(s State) bool {
	return slices.Contains(r.From, s.Status) && s.Flags.Has(r.With) && s.Flags&r.Without == 0
}

// After returns the state that the row leads to from s.
func (r Row) After(s State) State {
	if !r.Same {
		s.Status = r.To
	}
	s.Flags = s.Flags&^r.Clear | r.Set
	return s
}

// Table returns a copy of the rows: the only place that says which moves are
// allowed. Decide, the stores, the reference page and the tests derive from it.
func Table() []Row { return slices.Clone(rows) }

var (
	none      = []Status{None}
	recorded  = []Status{Reserved, Started, Completed, Failed, Indeterminate, Compensated}
	attempted = []Status{Started, Completed, Failed, Indeterminate, Compensated}
	undoable  = []Status{Completed, Indeterminate, Failed}
)

var rows = []Row{
	{
		Name: "start", From: none, Event: Start, To: Started, Proof: ByAbsence,
		Why: "One conditional put decides which of many executors runs the call.",
	},
	{
		Name: "ask approval", From: none, Event: AskApproval, To: Reserved, Proof: ByAbsence,
		Why: "The call is kept from running until a person allows it.",
	},
	{
		Name: "close unseen", From: none, Event: Close, To: Failed, Proof: ByAbsence,
		Why: "A delayed invocation must not run a call that the model was told did nothing.",
	},
	{
		Name: "close retryable", From: []Status{Failed}, With: Retryable, Without: Granted, Event: Close, To: Failed, Clear: Retryable, Proof: ByVersion,
		Why: "Whoever tells the model that nothing happened takes the right to run away first. A person's grant stays.",
	},
	{
		Name: "follow", From: none, Event: Follow, To: Follower, Proof: ByAbsence,
		Why: "Another call owns the key or the intent; this one answers as its owner does.",
	},
	{
		Name: "journal completed", From: none, Event: JournalCompleted, To: Completed, Proof: ByAbsence,
		Why: "A journalled read is recorded once, after it ran: it changed nothing.",
	},
	{
		Name: "journal failed", From: none, Event: JournalFailed, To: Failed, Proof: ByAbsence,
		Why: "A journalled read that failed answers the same to every repeat.",
	},
	{
		Name: "approve", From: []Status{Reserved}, Without: Approved, Event: Approve, To: Reserved, Set: Approved, Proof: ByVersion, Guards: []Guard{ApprovalOpen},
		Why: "A person lets the call start, while the window is open.",
	},
	{
		Name: "new policy", From: []Status{Reserved}, With: Approved, Event: NewPolicy, To: Reserved, Clear: Approved, Proof: ByVersion,
		Why: "An approval given under an older policy has to be given again.",
	},
	{
		Name: "deny", From: []Status{Reserved}, Event: Deny, To: Failed, Clear: Approved, Proof: ByVersion,
		Why: "A person said no; the call never runs.",
	},
	{
		Name: "expire", From: []Status{Reserved}, Event: Expire, To: Failed, Clear: Approved, Proof: ByVersion, Guards: []Guard{ApprovalOver},
		Why: "Nobody allowed it in time; the call never runs.",
	},
	{
		Name: "start approved", From: []Status{Reserved}, With: Approved, Event: Start, To: Started, Clear: Approved, Proof: ByVersion, Guards: []Guard{ApprovalOpen},
		Why: "The approval is used up by the write that starts the call.",
	},
	{
		Name: "start granted", From: []Status{Failed}, With: Granted, Without: Contradicted, Event: Start, To: Started, Clear: Retryable | Granted | Decided, Proof: ByVersion, Guards: []Guard{GrantUsable},
		Why: "A person granted one more attempt, and this uses it up. An effect that was reported meanwhile has to be looked at first.",
	},
	{
		Name: "start next attempt", From: []Status{Failed}, With: Retryable, Without: Granted | Contradicted | Acknowledged, Event: Start, To: Started, Clear: Retryable | Decided, Proof: ByVersion, Guards: []Guard{NamesNextAttempt, NeedsNoApproval, WithinKeyWindow},
		Why: "The caller's word that nobody was told 'failed'. A stale repeat names an older attempt and starts nothing.",
	},
	{
		Name: "withdraw", From: []Status{Failed}, With: Retryable, Event: Withdraw, To: Failed, Clear: Retryable | Granted, Proof: ByVersion,
		Why: "A person takes back the right to run again.",
	},
	{
		Name: "complete", From: []Status{Started}, Event: Complete, To: Completed, Proof: ByToken,
		Why: "The executor saw the effect.",
	},
	{
		Name: "not attempted", From: []Status{Started}, Event: NotAttempted, To: Failed, Set: Retryable, Proof: ByToken,
		Why: "Nothing was sent, so it may be asked for again.",
	},
	{
		Name: "reject", From: []Status{Started}, Event: Reject, To: Failed, Proof: ByToken,
		Why: "The receiver said no, definitely.",
	},
	{
		Name: "lose track", From: []Status{Started}, Event: LoseTrack, To: Indeterminate, Proof: ByToken,
		Why: "The request may have arrived. Nobody knows, so nothing runs again by itself.",
	},
	{
		Name: "orphan", From: []Status{Started}, Event: Orphan, To: Indeterminate, Proof: ByVersion, Guards: []Guard{PastDeadline},
		Why: "The executor sends nothing after its hard deadline; whether it did before, nobody knows.",
	},
	{
		Name: "complete late", From: []Status{Indeterminate}, Without: Decided, Event: Complete, To: Completed, Proof: ByToken,
		Why: "The executor itself came back and knows. Asking for an undo counts as a decision, so an open undo is kept out too.",
	},
	{
		Name: "not attempted late", From: []Status{Indeterminate}, Without: Decided, Event: NotAttempted, To: Failed, Set: Retryable, Proof: ByToken,
		Why: "The executor itself came back and knows.",
	},
	{
		Name: "reject late", From: []Status{Indeterminate}, Without: Decided, Event: Reject, To: Failed, Proof: ByToken,
		Why: "The executor itself came back and knows.",
	},
	{
		Name: "found", From: []Status{Indeterminate}, Without: UndoOpen, Event: Find, To: Completed, Proof: ByVersion,
		Why: "A look-up saw the effect; the version read before the look-up proves that nobody decided meanwhile.",
	},
	{
		Name: "absent", From: []Status{Indeterminate}, Without: UndoOpen, Event: FindAbsent, To: Failed, Set: Retryable, Proof: ByVersion, Guards: []Guard{AbsenceIsProof, LookedLate},
		Why: "Finding nothing proves nothing, unless the look-up is authoritative and began when no request could travel any more.",
	},
	{
		Name: "resolve completed", From: []Status{Indeterminate}, Without: UndoOpen, Event: ResolveCompleted, To: Completed, Proof: ByVersion,
		Why: "A person looked and takes the responsibility.",
	},
	{
		Name: "resolve failed", From: []Status{Indeterminate}, Without: UndoOpen, Event: ResolveFailed, To: Failed, Proof: ByVersion,
		Why: "A person looked and takes the responsibility; it can't run any more.",
	},
	{
		Name: "resolve failed with a grant", From: []Status{Indeterminate}, Without: UndoOpen, Event: ResolveRetry, To: Failed, Set: Retryable | Granted, Proof: ByVersion,
		Why: "A person looked, and grants one more attempt.",
	},
	{
		Name: "ask undo", From: []Status{Completed}, Without: UndoOpen, Event: AskUndo, Same: true, Set: UndoOpen, Proof: ByVersion, Guards: []Guard{NoUndoStands},
		Why: "Of several people who ask, one wins here; the undo itself is a call of its own.",
	},
	{
		Name: "ask undo of unknown", From: []Status{Indeterminate}, Without: UndoOpen, Event: AskUndo, Same: true, Set: UndoOpen | Decided, Proof: ByVersion, Guards: []Guard{PastQuiet, KnowsUnknown, NoUndoStands},
		Why: "A request that still travels would land after its undo; and the person must know that it may undo nothing.",
	},
	{
		Name: "ask undo of contradicted", From: []Status{Failed}, With: Acknowledged, Without: UndoOpen | Retryable, Event: AskUndo, Same: true, Set: UndoOpen, Proof: ByVersion, Guards: []Guard{NoUndoStands},
		Why: "The call was called failed, and a person has seen that its effect stands.",
	},
	{
		Name: "undo completed", From: undoable, With: UndoOpen, Event: UndoComplete, To: Compensated, Clear: UndoOpen, Proof: ByVersion, Guards: []Guard{ThatUndo},
		Why: "Only the attempt that this undo was asked for ends it.",
	},
	{
		Name: "undo failed", From: undoable, With: UndoOpen, Event: UndoFail, Same: true, Clear: UndoOpen, Proof: ByVersion, Guards: []Guard{ThatUndo},
		Why: "The undo did nothing for good, so it can be asked for again.",
	},
	{
		Name: "acknowledge undo", From: undoable, Without: UndoOpen, Event: AcknowledgeUndo, To: Compensated, Clear: Retryable | Granted, Proof: ByVersion, Guards: []Guard{AskedUndo, UndoContradicted},
		Why: "An undo that was called failed took effect after all, and a person has seen it.",
	},
	{
		Name: "contradict failed", From: []Status{Failed}, Without: Contradicted, Event: LateComplete, To: Failed, Set: Contradicted, Clear: Retryable | Granted | Acknowledged, Proof: ByToken,
		Why: "The executor saw an effect that the ledger denies: nothing may run again, and somebody has to look.",
	},
	{
		Name: "contradict by earlier attempt", From: attempted, Without: Contradicted, Event: LateComplete, Same: true, Set: Contradicted, Clear: Retryable | Granted | Acknowledged, Proof: ByEarlierToken,
		Why: "An attempt that was called failed took effect after all.",
	},
	{
		Name: "contradict by look-up", From: []Status{Failed}, Without: Contradicted | Acknowledged, Event: LateFind, To: Failed, Set: Contradicted, Clear: Retryable | Granted, Proof: ByVersion,
		Why: "A look-up saw an effect that somebody has called failed meanwhile: nothing may run again, and somebody has to look.",
	},
	{
		Name: "acknowledge", From: attempted, With: Contradicted, Event: Acknowledge, Same: true, Set: Acknowledged, Clear: Contradicted, Proof: ByVersion,
		Why: "A person has seen the contradiction; an undo may be asked for.",
	},
	{
		Name: "note", From: recorded, Event: Note, Same: true, Proof: ByExistence,
		Why: "Late outcomes that agree, findings and lost waits are kept beside the record and change nothing.",
	},
}
