package runs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// adversarial draws the ids that providers have been seen to give, and worse.
var adversarial = rapid.SampledFrom([]string{
	"", "toolu_01", "toolu_02", "call_0", "0", "1", "null", "bash:0", "~t1-0", "~t2-1", "call_0~undo1", "a b", "a/b", "é", "\x00", "call#1",
	strings.Repeat("x", ledger.MaxCallID), strings.Repeat("x", ledger.MaxCallID+1),
})

func drawProposal(t *rapid.T) runs.Proposal {
	ids := rapid.SliceOfN(rapid.OneOf(adversarial, rapid.String()), 1, 6).Draw(t, "ids")
	var p runs.Proposal
	for _, id := range ids {
		p.Calls = append(p.Calls, runs.ProposedCall{ID: id, Tool: "issue_credit", Arguments: "{}"})
	}
	return p
}

// numbered is the turn with its final ids in a run that has used some before.
func numbered(number int, p runs.Proposal, used map[string]string) runs.Turn {
	turn := runs.NextTurn(number, p, time.Time{})
	return turn.Renamed(func(i int) bool { return used[turn.Calls[i].ID] != "" })
}

// Proves: R3, R6, R14
func TestEveryCallOfARunHasItsOwnWellFormedIDThatReplanningGivesAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seen := map[string]string{}
		for n := range rapid.IntRange(1, 5).Draw(t, "turns") {
			p := drawProposal(t)
			turn := numbered(n+1, p, seen)
			if diff := cmp.Diff(turn, numbered(n+1, p, seen)); diff != "" {
				t.Fatalf("planned twice, the turn differs:\n%s", diff)
			}
			for i, call := range turn.Calls {
				where := fmt.Sprintf("turn %d, call %d", turn.Number, i)
				if before, ok := seen[call.ID]; ok {
					t.Fatalf("%s has the id %q of %s", where, call.ID, before)
				}
				seen[call.ID] = where
				if err := (runs.ID{Run: "run-1"}).Call(call.ID).Check(); err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				given := p.Calls[i].ID
				if call.ID != given && call.ID != ledger.PlannedCallID(turn.Number, i) {
					t.Fatalf("%s: id %q is neither the provider's %q nor ours", where, call.ID, given)
				}
				if len(call.ProviderID) > ledger.MaxCallID {
					t.Fatalf("%s: keeps %d bytes of the provider's id", where, len(call.ProviderID))
				}
			}
		}
	})
}

// Proves: R14
func TestProvidersIDIsKeptIfItIsWellFormedAndNewInTheRun(t *testing.T) {
	t.Parallel()
	first := numbered(1, proposal("call_0", "call_0", "", "bash:0", "~t1-0"), nil)
	second := numbered(2, proposal("call_0", "call_1"), map[string]string{"call_0": "turn 1", "~t1-1": "turn 1"})
	for _, c := range []struct {
		turn runs.Turn
		want []string
	}{
		{first, []string{"call_0", "~t1-1", "~t1-2", "~t1-3", "~t1-4"}},
		{second, []string{"~t2-0", "call_1"}},
	} {
		var got []string
		for _, call := range c.turn.Calls {
			got = append(got, call.ID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("turn %d (-want +got):\n%s", c.turn.Number, diff)
		}
	}
}

func proposal(ids ...string) runs.Proposal {
	var p runs.Proposal
	for _, id := range ids {
		p.Calls = append(p.Calls, runs.ProposedCall{ID: id, Tool: "find_order", Arguments: "{}"})
	}
	return p
}

func TestTurnWithoutCallsIsFinal(t *testing.T) {
	t.Parallel()
	if turn := runs.NextTurn(1, runs.Proposal{Says: "done"}, time.Time{}); !turn.Final || !turn.Closed() || turn.Says != "done" {
		t.Errorf("turn = %+v, want it final, with nothing to close", turn)
	}
}
