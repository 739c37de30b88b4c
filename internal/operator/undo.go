package operator

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// UndoCall is an undo of a call. It is a call of its own, with its own record.
type UndoCall struct {
	Key        string  `json:"key" doc:"Its own: that of the call with ~undo and its number behind"`
	N          int     `json:"n" doc:"Counts the undos that were asked for of the call"`
	Status     string  `json:"status" doc:"Of its own record; none while it has not begun, unreadable if the record can't be read"`
	Effect     string  `json:"effect" doc:"What is known of it: none, happened, unknown or undone"`
	Open       bool    `json:"open" doc:"Whether the call still waits for it to end"`
	ExternalID string  `json:"external_id,omitempty" doc:"The receiver's name for what it made"`
	Error      *Reason `json:"error,omitempty" doc:"Why it failed, is unknown, or did not begin"`
	WhatToDo   string  `json:"what_to_do,omitempty" doc:"Present while it is open, and if its record can't be read"`
}

// What to do about an open undo.
const (
	carryItOn = "An undo was asked for and has not begun. POST reconcile, like any other request on the call, carries it on; so does the sweeper. " +
		"Until it has begun, POST withdraw under its own key, with the version of the call, takes it back."
	waitForUndo   = "The undo is under way. If nothing is heard of it before its executor's deadline it becomes unknown, and somebody has to look."
	lookForUndo   = "Nobody knows whether the undo took effect. Look at the receiver, then POST resolve under the undo's own key; that ends it for the call too."
	acknowledgeIt = "The undo was called failed, and took effect after all. POST acknowledge under the undo's own key, once you have looked."
	undoIsOpen    = "An undo was asked for and has not ended; its own record says how far it is. POST reconcile, like any other request on the call, carries it on. If its outcome is unknown, POST resolve under its own key, "
)

// wentOn is what came of a call that a request met.
type wentOn struct {
	record ledger.Record // as it stands
	undo   *UndoCall     // nil where there is none to speak of
	run    RunWaiting
}

// goOn does what whoever decided may have left undone on the call: an open undo
// is carried on, then its waits are rung. The key of an undo stands for the call
// that it undoes, too. n is the undo to tell of, 0 for one that is met open
// or was the latest decision.
func (s *Service) goOn(ctx context.Context, r ledger.Record, n int, since time.Time) wentOn {
	owner, its, isUndo := s.ownerOf(ctx, r)
	u := undoing{s: s, owner: owner}
	if isUndo {
		n = its
	} else if last := len(owner.Decisions) - 1; owner.Flags.Has(ledger.UndoOpen) || last >= 0 && undoDecision(owner.Decisions[last].Kind) {
		n = cmp.Or(n, owner.Undo.N)
	}
	if err := u.carry(ctx); err != nil {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "an undo is not carried on; any further request on the call does", slog.String("key_hash", owner.Key.Short()), slog.Any("error", err))
	}
	went := wentOn{record: u.owner, run: s.wake(ctx, u.owner, since)}
	if n > 0 {
		went.undo = s.undoCall(ctx, &u, n)
	}
	if isUndo {
		went.record = r
		if u.undo.Key == r.Key && u.undo.Exists() {
			went.record = u.undo
		}
	}
	return went
}

// ownerOf returns the call that r's undoes, if r is an undo whose call can be
// read; otherwise r itself.
func (s *Service) ownerOf(ctx context.Context, r ledger.Record) (owner ledger.Record, n int, isUndo bool) {
	key, n, isUndo := r.Key.UndoOf()
	if !isUndo {
		return r, 0, false
	}
	owner, err := s.cfg.Store.Load(ctx, key)
	if err != nil || !owner.Exists() {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "the call of an undo is not read", slog.String("key_hash", r.Key.Short()), slog.Any("error", err))
		return r, 0, false
	}
	return owner, n, true
}

// undoCall shows undo n of the call as it stands.
func (s *Service) undoCall(ctx context.Context, u *undoing, n int) *UndoCall {
	key := u.owner.Key.Undo(n)
	v := &UndoCall{Key: key.String(), N: n, Status: unreadableStatus, Effect: ledger.Unknown.String(), Open: u.owner.Flags.Has(ledger.UndoOpen) && u.owner.Undo.N == n}
	r, err := s.cfg.Store.Load(ctx, key)
	if err != nil {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "an undo's record is not read", slog.String("key_hash", key.Short()), slog.Any("error", err))
		if errors.Is(err, ledger.ErrCorrupt) {
			v.WhatToDo = repairRecord
		}
		return v
	}
	if u.owner.Undo.N == n {
		u.undo = r
	}
	v.Status, v.Effect, v.ExternalID = r.Status.String(), r.Effect().String(), r.Outcome.ExternalID
	switch {
	case u.refused != nil && u.n == n:
		v.Error = u.refused
	case r.Outcome.Code != "":
		v.Error = &Reason{Code: r.Outcome.Code, Message: r.Outcome.Message}
	}
	if v.Open {
		v.WhatToDo = undoToDo(r)
	}
	return v
}

func undoToDo(undo ledger.Record) string {
	switch {
	case undo.Flags.Has(ledger.Contradicted):
		return acknowledgeIt
	case undo.Status == ledger.Indeterminate:
		return lookForUndo
	case undo.Status == ledger.Started:
		return waitForUndo
	}
	return carryItOn
}

// undoAsked returns the number of the undo that the decision asked for, 0 if it
// asked for none. Undos are counted, so that the later ones among the decisions
// tell which one it is.
func undoAsked(r ledger.Record, entry ledger.Entry, decisions []ledger.Entry) int {
	if !undoDecision(entry.Kind) {
		return 0
	}
	n := r.Undo.N
	for i := len(decisions) - 1; i >= 0 && decisions[i].ID != entry.ID; i-- {
		if decisions[i].Kind == ledger.AskUndo {
			n--
		}
	}
	return n
}
