package operator_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

// decider is one operator's request, which is sent again under its own key.
type decider struct {
	id       operator.Identity
	in       operator.Resolution
	decision string // once told
}

// Whatever is lost and whoever comes between: a decision that somebody was told
// of stays on the record, at most one decision moves a version, a refusal moved
// nothing, and a repeat under the same key is told the same.
//
// Proves: R106, R107
func TestDecisionsAreToldOnceAndStand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
			n++
			b := newBench(t)
			r := b.unknown(t, fmt.Sprint("c", n))
			b.park(t, r, "w1")
			deciders := []*decider{}
			for i := range rapid.IntRange(2, 4).Draw(rt, "operators") {
				d := &decider{id: operator.Identity{Tenant: "acme", Actor: fmt.Sprint("op-", i), Scopes: ops.Scopes}, in: failed(r, fmt.Sprint("key-", i))}
				d.in.AllowRetry = rapid.Bool().Draw(rt, "retry")
				d.in.ExpectedVersion += int64(rapid.IntRange(-1, 1).Draw(rt, "stale"))
				deciders = append(deciders, d)
			}
			for range rapid.IntRange(3, 12).Draw(rt, "steps") {
				if rapid.Bool().Draw(rt, "fault") {
					b.store.Arm(memledger.Fault{
						Op:  rapid.SampledFrom([]memledger.Op{memledger.Apply, memledger.Load, memledger.ListWaits, memledger.ConfirmWait, memledger.History}).Draw(rt, "op"),
						Nth: rapid.IntRange(1, 3).Draw(rt, "nth"), Persist: rapid.Bool().Draw(rt, "persist"), Answer: rapid.Bool().Draw(rt, "answer"),
					})
				}
				if rapid.IntRange(0, 5).Draw(rt, "who") == 0 {
					b.executorReturns(t, r)
					continue
				}
				rapid.SampledFrom(deciders).Draw(rt, "decider").send(t, rt, b)
			}
			told(t, rt, b, r, deciders)
		})
	})
}

// executorReturns settles late, if the table lets it and no fault is in the way.
func (b *bench) executorReturns(t *testing.T, r ledger.Record) {
	t.Helper()
	stored, err := b.store.Load(t.Context(), r.Key)
	if err != nil {
		return
	}
	move, err := stored.Settle(b.stamp(fmt.Sprint("late", stored.Version)), r.Attempt.Token, ledger.Settlement{Effect: ledger.Happened, ExternalID: "cr_9"})
	if err == nil {
		_, _ = b.store.Apply(t.Context(), move)
	}
}

func (d *decider) send(t *testing.T, rt *rapid.T, b *bench) {
	t.Helper()
	got, err := b.service.Resolve(t.Context(), d.id, d.in)
	p, isProblem := errors.AsType[*operator.Problem](err)
	switch {
	case err == nil && d.decision != "" && (got.Decision.ID != d.decision || !got.Replayed):
		rt.Fatalf("%s was told %s, then %s, replayed %t", d.id.Actor, d.decision, got.Decision.ID, got.Replayed)
	case err == nil && got.Decision.By != d.id.Actor:
		rt.Fatalf("%s was told the decision of %s", d.id.Actor, got.Decision.By)
	case err == nil:
		d.decision = got.Decision.ID
	case !isProblem:
		rt.Fatalf("%v is no problem", err)
	case p.Status == 409 && d.decision != "":
		rt.Fatalf("%s decided, and then lost: %v", d.id.Actor, p)
	case p.Status == 409 && p.Record == nil:
		rt.Fatalf("a loser was told nothing: %v", p)
	}
}

func told(t *testing.T, rt *rapid.T, b *bench, r ledger.Record, deciders []*decider) {
	t.Helper()
	for range 12 { // the rest of the faults meet nobody; each was armed for one of the next three
		_, _ = b.store.Load(t.Context(), r.Key)
		_, _ = b.store.Waits(t.Context(), r.Key)
		_, _ = b.store.History(t.Context(), r.Key)
		_ = b.store.ConfirmWait(t.Context(), ledger.Wait{Key: ledger.Key{RunID: "x", CallID: "y"}, ID: "z"}, "", b.now)
		move, _ := r.Note(b.stamp("drain"), ledger.Entry{Kind: ledger.Note})
		_, _ = b.store.Apply(t.Context(), move)
	}
	stored, err := b.store.Load(t.Context(), r.Key)
	if err != nil {
		rt.Fatal(err)
	}
	if len(stored.Decisions) > 1 {
		rt.Fatalf("%d decisions on one unknown call: %+v", len(stored.Decisions), stored.Decisions)
	}
	for _, d := range deciders {
		if d.decision != "" && !stored.HasDecision(d.decision) {
			rt.Fatalf("%s was told of a decision that is not there", d.id.Actor)
		}
	}
	if len(stored.Decisions) == 0 {
		return
	}
	for _, d := range deciders { // the winner asks again, and the run is awake
		if d.id.Actor == stored.Decisions[0].By {
			got, err := b.service.Resolve(t.Context(), d.id, d.in)
			if err != nil || !got.Replayed || !b.waits(t, r)[0].Rung() {
				rt.Fatalf("asked again: %+v, %v", got, err)
			}
		}
	}
}
