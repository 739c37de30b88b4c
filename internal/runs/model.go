package runs

import (
	"slices"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// Proposal is what a model answers before anybody has numbered or checked it. A
// proposal without calls ends the run, and Says is its answer.
type Proposal struct {
	Says  string
	Calls []ProposedCall
}

// ProposedCall is one call as the model asked for it. ID may be missing,
// malformed or used before.
type ProposedCall struct {
	ID        string
	Tool      string
	Arguments string // JSON object
}

// NextTurn makes the proposal the run's turn of that number and gives each call
// an id: the provider's if it is well formed and new in this turn, else one made
// of turn and position. A provider's id that an earlier turn has used must still
// be replaced, see [Turn.Renamed].
func NextTurn(number int, p Proposal, at time.Time) Turn {
	turn := Turn{Number: number, Says: p.Says, Final: len(p.Calls) == 0, At: at}
	used := map[string]bool{}
	for position, proposed := range p.Calls {
		id := proposed.ID
		if !ledger.ProviderCallID(id) || used[id] {
			id = ledger.PlannedCallID(turn.Number, position)
		}
		used[id] = true
		turn.Calls = append(turn.Calls, Call{
			ID: id, ProviderID: ledger.Shorten(proposed.ID, ledger.MaxCallID), Tool: proposed.Tool, Arguments: proposed.Arguments,
		})
	}
	return turn
}

// Renamed returns the turn with an id of ours for each of its calls whose
// provider's id used reports as used before in the run. Every call of a turn that
// has been told has a record, so the ledger knows them all. An id of ours is new
// by its turn and position: no provider's may contain a tilde.
func (t Turn) Renamed(used func(position int) bool) Turn {
	t.Calls = slices.Clone(t.Calls)
	for i := range t.Calls {
		if ledger.ProviderCallID(t.Calls[i].ID) && used(i) {
			t.Calls[i].ID = ledger.PlannedCallID(t.Number, i)
		}
	}
	return t
}
