package operator

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/onceward/onceward/middleware/ledger"
)

// Withdraw takes back the right of a failed call to run again. Under the key of an
// undo that was asked for and has not begun, ExpectedVersion is that of the call,
// since the undo has no record yet; it never begins then, and can be asked for
// again. Problems as [Service.Resolve].
func (s *Service) Withdraw(ctx context.Context, id Identity, c Command) (Decided, error) {
	if err := id.May(DecideCalls); err != nil {
		return Decided{}, err
	}
	if err := c.checked(true); err != nil {
		return Decided{}, err
	}
	key, err := keyOf(id, c.Key)
	if err != nil {
		return Decided{}, err
	}
	if owner, n, isUndo := key.UndoOf(); isUndo {
		w := withdrawal{s: s, id: id, c: c, key: key, n: n}
		if decided, err := w.withdraw(ctx, owner); decided != nil || err != nil {
			return *cmp.Or(decided, &Decided{}), err
		}
	}
	return s.rule(ctx, id, verb{name: "withdraw", move: ledger.Record.Withdraw}, c, true)
}

// withdrawal takes back an undo that has no record. It is used by one goroutine.
type withdrawal struct {
	s   *Service
	id  Identity
	c   Command
	key ledger.Key // the undo's
	n   int
}

// withdraw closes the undo's key, so that nothing can begin under it, before the
// call hears that the undo did nothing. It returns neither an answer nor an error
// if the undo has a record, which is another matter.
func (w withdrawal) withdraw(ctx context.Context, of ledger.Key) (*Decided, error) {
	ctx, cancel := w.s.bounded(ctx)
	defer cancel()
	name, err := w.s.decisionName(w.id, w.key, w.c.IdempotencyKey, "withdraw", []any{w.c.Reason, w.c.ExpectedVersion})
	if err != nil {
		return nil, err
	}
	undo, err := w.s.cfg.Store.Load(ctx, w.key)
	switch {
	case err == nil && undo.Exists() && undo.LastWrite == name.id():
		return w.answer(ctx, undo, true), nil
	case err != nil || undo.Exists():
		return nil, nil //nolint:nilnil // see above
	}
	owner, err := w.s.load(ctx, of)
	switch {
	case err != nil:
		return nil, err
	case !owner.Flags.Has(ledger.UndoOpen) || owner.Undo.N != w.n:
		return nil, problem(NotFound, "this undo has not been asked for, or is over")
	case owner.Version != w.c.ExpectedVersion:
		return nil, w.s.conflict(owner, w.c.ExpectedVersion, true)
	}
	// The closed record has no room for the reason, so it stands on the call.
	w.s.note(ctx, owner, w.id.Actor, "withdrew the undo: "+strings.TrimSpace(w.c.Reason))
	stamp := ledger.Stamp{At: w.s.cfg.Now(), WriteID: name.id()}
	move, err := undo.Close(stamp, w.key, ledger.Settler{Kind: ledger.ByPerson, ID: w.id.Actor})
	if err != nil {
		return nil, problem(Internal, "").because(err)
	}
	// Stored now: the undo can't begin any more. If we stop here, any further
	// request on the call, or the sweeper, ends it for the call.
	undo, err = w.s.apply(ctx, move)
	switch {
	case errors.Is(err, ledger.ErrStale):
		return nil, w.s.rung(ctx, undo, w.s.conflict(undo, w.c.ExpectedVersion, false))
	case err != nil:
		return nil, problem(OutcomeUnknown, "the ledger did not answer").because(err)
	}
	return w.answer(ctx, undo, false), nil
}

func (w withdrawal) answer(ctx context.Context, undo ledger.Record, replayed bool) *Decided {
	ctx, cancel := outliving(ctx)
	defer cancel()
	went := w.s.goOn(ctx, undo, 0, undo.Outcome.At)
	return &Decided{
		Record: *viewOf(went.record, w.s.cfg.Now()), Undo: went.undo, RunWaiting: went.run, Replayed: replayed,
		Decision: Entry{ID: undo.LastWrite, Kind: string(ledger.Withdraw), By: w.id.Actor, Reason: w.c.Reason, At: stamp(undo.Outcome.At), Before: ledger.None.String(), After: undo.State().String()},
	}
}
