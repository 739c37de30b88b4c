package runs

import (
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

// NextTurn numbers the proposal as the turn after history and gives each call
// its final id: the provider's if it is well formed and new in this run, else
// one made of turn and position. The same proposal after the same history is
// always the same turn.
func NextTurn(history []Turn, p Proposal, at time.Time) Turn {
	turn := Turn{Number: len(history) + 1, Says: p.Says, Final: len(p.Calls) == 0, At: at}
	used := map[string]bool{}
	for _, earlier := range history {
		for _, call := range earlier.Calls {
			used[call.ID] = true
		}
	}
	for position, proposed := range p.Calls {
		id := proposed.ID
		if !ledger.ProviderCallID(id) || used[id] {
			// Can't collide: no provider's id may contain a tilde.
			id = ledger.PlannedCallID(turn.Number, position)
		}
		used[id] = true
		turn.Calls = append(turn.Calls, Call{
			ID: id, ProviderID: ledger.Shorten(proposed.ID, ledger.MaxCallID), Tool: proposed.Tool, Arguments: proposed.Arguments,
		})
	}
	return turn
}
