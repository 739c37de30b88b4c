package statemachines

// What agent-run writes into an execution's history, in events. Step Functions
// counts 5 for a Task (6 with a task token), 2 for a Choice, Pass or Wait, 4 for
// a Map and 2 for each of its iterations; a test derives these numbers from the
// definition. A planner adds them up to know when to hand over.
const (
	// HistoryPerTurn is what one Map costs besides its calls: Plan, NextStep
	// and the Map itself.
	HistoryPerTurn = 11
	// HistoryPerCall is what a call costs that is done at once: the iteration,
	// Ask, Answer and CallDone.
	HistoryPerCall = 11
	// HistoryPerRound is what each further round of a call costs.
	HistoryPerRound = 11
	// HistoryPerPark is what a further round costs that waited for a decision.
	HistoryPerPark = 17
)

// Bounds of one execution. Those that the planner keeps are named so; the
// others are in the definition, and tests compare them.
const (
	// HandOverAt is the estimate, in history events, past which the planner
	// starts the next execution. HandOverAt and the worst single Map, with every
	// round parked and every retry used, stay below MaxHistory.
	HandOverAt = 8_000
	// MaxHistory is where Step Functions fails an execution, uncatchably.
	MaxHistory = 25_000
	// MaxTurns is how many Maps one execution may run before it fails as
	// Onceward.HandOverOverdue.
	MaxTurns = 500
	// MaxBrokenTurns is how many Maps may end in an error before no further
	// call is made.
	MaxBrokenTurns = 3
	// MaxRounds is how often a call is asked again before it is unresolved.
	MaxRounds = 25
	// MaxCalls is the most calls in one Map.
	MaxCalls = 6
	// MaxConcurrency is the most calls of a Map at once that are let through;
	// Step Functions runs at most this many iterations of an inline Map.
	MaxConcurrency = 40
)

// Sizes in bytes that the planner keeps, as encoded in its answer; Step
// Functions refuses more than 256 KiB in one state.
const (
	// MaxInputBytes bounds the execution's input, which travels in each request
	// to the planner.
	MaxInputBytes = 200 << 10
	// MaxAnswerBytes bounds the planner's whole answer.
	MaxAnswerBytes = 220 << 10
	// MaxArgumentsBytes bounds the arguments of one call.
	MaxArgumentsBytes = 48 << 10
	// MaxTurnArgumentsBytes bounds the arguments of one turn.
	MaxTurnArgumentsBytes = 200 << 10
)
