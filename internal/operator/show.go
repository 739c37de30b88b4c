package operator

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// maxShownResult bounds the result in an answer; a Lambda's answer is limited.
const maxShownResult = 1 << 20

// Detail is all there is to see of a call.
type Detail struct {
	Record
	UndoCall   *UndoCall       `json:"undo_call,omitempty" doc:"The latest undo that was asked for, as its own record says"`
	Decisions  []Entry         `json:"decisions" nullable:"false" doc:"By people, the oldest first"`
	Evidence   []Entry         `json:"evidence" nullable:"false" doc:"What arrived without changing the status, the oldest first"`
	Result     json.RawMessage `json:"result,omitempty" doc:"What the tool returned; absent if there is none or it was not kept"`
	ResultKept bool            `json:"result_kept" doc:"True only if the call took effect and its result is kept and shown"`
	Heard      *Heard          `json:"heard,omitempty" doc:"What the model heard; absent while it has not heard anything"`
	Waits      []Wait          `json:"waits" nullable:"false" doc:"Parked runs, the oldest first"`
	WhatToDo   string          `json:"what_to_do,omitempty" doc:"Present while an undo is open, while a parked run could go on and is not woken yet, and if its wait or an older entry of its history can't be read"`

	// HistoryIncomplete is false where everything is shown.
	HistoryIncomplete bool `json:"history_incomplete,omitempty" doc:"True if an older decision or piece of evidence can't be read; those that the record holds are shown"`
}

// Heard is what the model heard of the call when its turn was closed.
type Heard struct {
	Status string `json:"status"`
	Says   string `json:"says"`
}

// Wait is a parked run, without its token.
type Wait struct {
	Execution string `json:"execution"`
	ParkedAt  string `json:"parked_at" format:"date-time"`
	RungAt    string `json:"rung_at,omitempty" format:"date-time" doc:"Absent until its bell was confirmed"`
	How       string `json:"how,omitempty" doc:"How the bell ended"`
}

// Show returns everything about one call, read consistently.
func (s *Service) Show(ctx context.Context, id Identity, key string) (Detail, error) {
	if err := id.May(ReadCalls); err != nil {
		return Detail{}, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	k, err := keyOf(id, key)
	if err != nil {
		return Detail{}, err
	}
	r, err := s.load(ctx, k)
	if err != nil {
		return Detail{}, err
	}
	return s.detail(ctx, r)
}

func (s *Service) detail(ctx context.Context, r ledger.Record) (Detail, error) {
	unreadable := func(what string, err error) error {
		return problem(Unavailable, "the call's "+what+" could not be read").because(err)
	}
	d := Detail{Record: *viewOf(r, s.cfg.Now()), Waits: []Wait{}}
	past, err := s.history(ctx, r)
	if err != nil {
		return Detail{}, unreadable("history", err)
	}
	d.Decisions, d.Evidence, d.HistoryIncomplete = entriesOf(past.decisions, true), entriesOf(past.evidence, false), past.unreadable
	if r.Undo.N > 0 {
		d.UndoCall = s.undoCall(ctx, &undoing{s: s, owner: r}, r.Undo.N)
	}
	if d.Result, d.ResultKept, err = s.result(ctx, r); err != nil {
		return Detail{}, unreadable("result", err)
	}
	if d.Heard, err = s.heard(ctx, r); err != nil {
		return Detail{}, unreadable("turn", err)
	}
	waits, broken, err := s.waits(ctx, r.Key)
	if err != nil {
		return Detail{}, unreadable("waits", err)
	}
	for _, w := range waits {
		d.Waits = append(d.Waits, Wait{Execution: w.Execution, ParkedAt: stamp(w.ParkedAt), RungAt: stamp(w.RungAt), How: w.How})
	}
	d.advise(r, !r.NeedsSomebody(s.cfg.Now()), broken, s.sleeps(r, waits))
	return d, nil
}

// advise says what to do. Why it needs somebody is what cannot be seen of its
// record, where the record itself needs nobody.
func (d *Detail) advise(r ledger.Record, needsNobody, brokenWait, sleeps bool) {
	var words []string
	if sleeps {
		words = append(words, wakeIt)
	}
	if brokenWait {
		words = append(words, repairWait)
	}
	if r.Flags.Has(ledger.UndoOpen) {
		words = append(words, d.UndoCall.WhatToDo)
	}
	if d.HistoryIncomplete {
		words = append(words, repairHistory)
	}
	d.WhatToDo = strings.Join(words, " ")
	switch {
	case !needsNobody:
	case sleeps:
		d.Why = WhyNotWoken
	case brokenWait:
		d.Why = WhyUnreadable
	}
}

// past is what was decided and observed of a call.
type past struct {
	decisions, evidence []ledger.Entry
	unreadable          bool // there are older entries than these, which can't be read
}

func (s *Service) history(ctx context.Context, r ledger.Record) (past, error) {
	held := past{decisions: r.Decisions, evidence: r.Evidence}
	if s.cfg.History == nil {
		return held, nil
	}
	all, err := s.cfg.History.History(ctx, r.Key)
	if errors.Is(err, ledger.ErrCorrupt) { // one bad entry must not hide the call
		s.cfg.Log.LogAttrs(ctx, slog.LevelError, "an older entry of a call's history can't be read", slog.String("key_hash", r.Key.Short()), slog.Any("error", err))
		held.unreadable = true
		return held, nil
	}
	var whole past
	for _, entry := range all {
		if slices.Contains(byPeople, entry.Kind) {
			whole.decisions = append(whole.decisions, entry)
		} else {
			whole.evidence = append(whole.evidence, entry)
		}
	}
	return whole, err
}

// byPeople are the events that decisions are kept under.
var byPeople = []ledger.Event{
	ledger.Approve, ledger.Deny, ledger.Withdraw, ledger.ResolveCompleted, ledger.ResolveFailed, ledger.ResolveRetry,
	ledger.AskUndo, ledger.AcknowledgeUndo, ledger.Acknowledge,
}

// result reads the result of a call that took effect.
func (s *Service) result(ctx context.Context, r ledger.Record) (result json.RawMessage, kept bool, err error) {
	if r.Outcome.Ref == (ledger.ResultRef{}) && len(r.Outcome.Result) == 0 {
		return nil, false, nil
	}
	raw, err := s.cfg.Store.Result(ctx, r)
	switch {
	case errors.Is(err, ledger.ErrNotKept), errors.Is(err, ledger.ErrCorrupt):
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "result not shown", slog.String("key_hash", r.Key.Short()), slog.Any("error", err))
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case len(raw) > maxShownResult || !json.Valid(raw):
		return nil, false, nil
	}
	return raw, true, nil
}

// heard returns nil while the model has heard nothing of the call.
func (s *Service) heard(ctx context.Context, r ledger.Record) (*Heard, error) {
	if _, _, isUndo := r.Key.UndoOf(); isUndo {
		return nil, nil //nolint:nilnil // no model asks for an undo
	}
	turn, err := s.turn(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, h := range turn.Heard {
		if h.CallID == r.Key.CallID {
			return &Heard{Status: h.Status, Says: h.Says}, nil
		}
	}
	return nil, nil //nolint:nilnil // "heard nothing" is an answer, not an error
}

// turn returns the turn that the call belongs to, or the zero Turn. A call that
// was closed unseen does not know its turn: the turn knows its calls.
func (s *Service) turn(ctx context.Context, r ledger.Record) (runs.Turn, error) {
	turns, err := s.cfg.Runs.Turns(ctx, runs.ID{Tenant: r.Key.Tenant, Run: r.Key.RunID}, max(r.Turn, 1), r.Turn)
	if err != nil {
		return runs.Turn{}, err
	}
	for _, turn := range turns {
		asks := func(c runs.Call) bool { return c.ID == r.Key.CallID }
		if turn.Number == r.Turn || r.Turn == 0 && slices.ContainsFunc(turn.Calls, asks) {
			return turn, nil
		}
	}
	return runs.Turn{}, nil
}
