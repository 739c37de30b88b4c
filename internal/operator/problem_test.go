package operator_test

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
)

func TestEveryProblemSaysWhatItMeansForTheCall(t *testing.T) {
	t.Parallel()
	for _, info := range operator.Codes() {
		for _, occurrence := range []string{"", "this happened", "Über this."} {
			p := operator.NewProblem(info.Code, occurrence, nil)
			if !strings.HasSuffix(p.Detail, info.Means) || occurrence == "this happened" && !strings.HasPrefix(p.Detail, "This happened. ") {
				t.Errorf("%s: %q", info.Code, p.Detail)
			}
		}
	}
}

func TestAStaleVersionSaysWhichToLookAtAndBlamesNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	in := failed(r, "")
	in.ExpectedVersion = 7
	_, err := b.service.Resolve(t.Context(), ops, in)
	p := theProblem(t, err, operator.StaleVersion)
	for _, words := range []string{"You looked at version 7, and the record is at version 2", "nobody knows whether it took effect", "Nothing was changed"} {
		if !strings.Contains(p.Detail, words) {
			t.Errorf("%q lacks %q", p.Detail, words)
		}
	}
	if p.DecidedBy != nil {
		t.Errorf("decided by %+v", p.DecidedBy)
	}
	_, err = b.service.Reconcile(t.Context(), ops, operator.Inquiry{Key: "run-1:c1", ExpectedVersion: 7})
	if p := theProblem(t, err, operator.StaleVersion); p.DecidedBy != nil || !strings.Contains(p.Detail, "version 7") {
		t.Errorf("told %+v", p)
	}
	_, err = b.service.Approve(t.Context(), ops, operator.Command{Key: "run-1:c1", ExpectedVersion: r.Version})
	if p := theProblem(t, err, operator.NotAllowed); p.DecidedBy != nil || p.Record == nil {
		t.Errorf("told %+v", p.DecidedBy)
	}
	running := b.start(t, "c2")
	_, err = b.service.Resolve(t.Context(), ops, failed(running, ""))
	if p := theProblem(t, err, operator.NotAllowed); p.DecidedBy != nil {
		t.Errorf("told %+v", p.DecidedBy)
	}
}

func TestALoserReadsWhoDecidedWhenAndWhatBecameOfTheCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	you := operator.Identity{Tenant: "acme", Actor: "you", Scopes: ops.Scopes}
	if _, err := b.service.Resolve(t.Context(), you, failed(r, "")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []operator.Identity{you, other} {
		_, err := b.service.Resolve(t.Context(), id, failed(r, ""))
		p := theProblem(t, err, operator.AlreadyDecided)
		const want = `The actor "you" made the decision resolve_failed at 2026-11-29T12:00:00Z; the call is failed, final, and it did not take effect. A person's decision stands`
		if p.Title != "It has been decided already" || !strings.HasPrefix(p.Detail, want) {
			t.Errorf("%s: %s", p.Title, p.Detail)
		}
	}
	settled := b.start(t, "c2")
	move, err := settled.Settle(b.stamp("done"), settled.Attempt.Token, ledger.Settlement{Effect: ledger.Happened})
	b.apply(t, move, err)
	_, err = b.service.Resolve(t.Context(), ops, failed(settled, ""))
	if p := theProblem(t, err, operator.AlreadySettled); !strings.HasPrefix(p.Detail, "The call is completed, and it took effect, settled by the executor at 2026-11-29T12:00:00Z.") {
		t.Errorf("told %s", p.Detail)
	}
}
