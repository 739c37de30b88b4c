package once

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/onceward/onceward/middleware/ledger"
)

// notAnUndo refuses to undo under the key of an ordinary call.
const notAnUndo = "call.id: is no undo's; want <call id>~undo<n>"

// undoing is what only an invocation under an undo's key has.
type undoing struct {
	of  ledger.Key // the call to undo
	n   int
	run func(context.Context, ledger.Record) error // nil: the tool can't undo
}

func isUndo(key ledger.Key) bool {
	_, _, ok := key.UndoOf()
	return ok
}

// ofUndo returns what holds for the tool's undos: a person has approved each by
// asking for it, and the look-up looks for something else.
func (s *spec) ofUndo() *spec {
	undo := *s
	undo.approveWithin, undo.approvalPolicy, undo.looks, undo.looksByKey = 0, 0, false, false
	return &undo
}

// compensate runs the undo, or answers from its own record. The record of the
// call to undo is read first: a person's ask stands there, or nothing runs.
// Whoever ends an undo that has no record closes its key before, so that nothing
// is reserved on what was read too early.
func (c *invocation) compensate(ctx context.Context, refused *Error) ending {
	return c.watched(ctx, func(ctx context.Context) ending {
		if e := c.firstFault(ctx, refused, ModeCompensate); e != nil {
			return c.refuse(ctx, e)
		}
		owner, err := c.load(ctx, c.undo.of)
		if err != nil {
			return c.storeFault(ledger.Record{}, err, err)
		}
		switch code := c.ownerFault(owner); {
		case code == codeOtherOwner:
			return c.refuse(ctx, refusal(c.key, code, ""))
		case code != "":
			return c.undoOver(ctx, code, "")
		case !c.unargued && owner.Fingerprint != c.fingerprint:
			return c.undoOver(ctx, codeOtherOwner, "the arguments come to something else by now than what ran: roll the tool back")
		case c.g.opts.Clock().After(owner.Undo.AskedAt.Add(c.g.opts.Retention.Total())):
			return c.pastReservation(ctx)
		case !c.enoughTime(ctx, c.t.timeout):
			return c.withoutTime(ctx)
		}
		if owner.Outcome.Result, err = c.result(ctx, owner); err != nil && !errors.Is(err, ledger.ErrNotKept) {
			return c.storeFault(ledger.Record{}, err, err)
		}
		c.undoes(owner)
		return c.start(ctx, ledger.Record{})
	})
}

// ownerFault returns why owner has no such undo to run, as a code; "" if it has.
func (c *invocation) ownerFault(owner ledger.Record) (code string) {
	switch {
	case owner.Undo.N < c.undo.n:
		return codeNotAsked
	case c.conflicts(owner):
		return codeOtherOwner
	case owner.Undo.N > c.undo.n || !owner.Flags.Has(ledger.UndoOpen):
		return codeNotOpen
	}
	return ""
}

// undoOver answers for an undo that may not start: from its record if it ran.
func (c *invocation) undoOver(ctx context.Context, code, message string) ending {
	rec, err := c.load(ctx, c.key)
	switch {
	case err != nil:
		return c.storeFault(rec, err, err)
	case rec.Exists():
		return c.standing(ctx, rec, false)
	}
	e := refusal(c.key, code, "%s", cmp.Or(message, sentences[code]))
	return ending{report: e.seen(rec, nil)}
}

// undoes makes the invocation one that undoes owner.
func (c *invocation) undoes(owner ledger.Record) {
	c.fingerprint, c.received = owner.Fingerprint, owner.Received
	c.permission = ledger.Shorten("asked for by "+askedBy(owner), ledger.MaxMessage)
	c.summarise = func() string { return "undo of " + cmp.Or(owner.Summary, owner.Key.CallID) }
	c.run = func(ctx context.Context) (yield, error) {
		return yield{what: ledger.Settlement{Effect: ledger.Happened}}, c.undo.run(ctx, owner)
	}
}

// askedBy returns who asked for the undo that is open. Later decisions may have
// moved the ask out of the record.
func askedBy(owner ledger.Record) string {
	for _, d := range slices.Backward(owner.Decisions) {
		if d.Kind == ledger.AskUndo {
			return d.By
		}
	}
	return "a person"
}
