package statemachines

import (
	"cmp"
	"fmt"
	"slices"
)

// Finding is one place where a definition breaks a rule.
type Finding struct {
	// Rule is the ID of the broken rule.
	Rule string `json:"rule"`
	// Path is a JSONPath into the definition.
	Path string `json:"path"`
	// Message says in plain words what is wrong and what could happen to an
	// effect because of it.
	Message string `json:"message"`
}

// String returns the finding as one line.
func (f Finding) String() string { return f.Rule + " at " + f.Path + ": " + f.Message }

// Rule is one safety rule over a definition.
type Rule struct {
	// ID is short and stable; fixtures and findings name it.
	ID string
	// Says is the rule in one sentence.
	Says string
	// Danger is what could happen to an effect without it.
	Danger string

	find func(*search)
}

// Unreadable is the rule of a definition that is not a state machine at all; it
// is found alone, as no other rule can be asked.
const Unreadable = "readable"

// Rules returns every rule that Check asks, in the order of the reference page.
// The caller owns the slice; the rules are safe for concurrent use.
func Rules() []Rule { return slices.Clone(ruleTable) }

// Check asks every rule about def, which may still have its placeholders or not,
// and returns the findings in the order of the rules; none means that the
// definition keeps them all. A definition that can't be read is one finding.
func Check(def []byte) []Finding { return check(def, ruleTable) }

// CheckDeployed is Check for a machine as it will be deployed: machineType must
// be STANDARD too, because an Express machine may run a state twice.
func CheckDeployed(machineType string, def []byte) []Finding {
	found := Check(def)
	if machineType == "STANDARD" {
		return found
	}
	return append(found, Finding{
		Rule: ruleInlineStandard, Path: "$",
		Message: fmt.Sprintf("the machine's type is %q, not STANDARD: other types may run a state twice, and a write with it", machineType),
	})
}

func check(def []byte, rules []Rule) []Finding {
	d, err := parse(def)
	if err != nil {
		return []Finding{{Rule: Unreadable, Path: "$", Message: err.Error() + ": nothing can be said about its effects"}}
	}
	var found []Finding
	for _, r := range rules {
		s := &search{definition: d, rule: r}
		r.find(s)
		slices.SortStableFunc(s.found, func(a, b Finding) int { return cmp.Compare(a.Path, b.Path) })
		found = append(found, s.found...)
	}
	return found
}

// search is one rule's walk over one definition.
type search struct {
	*definition
	rule  Rule
	found []Finding
}

// add records a finding; what is wrong, then the rule's danger.
func (s *search) add(path, wrong string, args ...any) {
	s.found = append(s.found, Finding{Rule: s.rule.ID, Path: path, Message: fmt.Sprintf(wrong, args...) + ": " + s.rule.Danger})
}

const ruleInlineStandard = "inline-standard"

var ruleTable = []Rule{
	{
		ID: ruleInlineStandard, find: inlineStandard,
		Says:   "A Map is INLINE and the machine STANDARD; a Map has an ItemSelector and a MaxConcurrency of 1-40, or a MaxConcurrencyPath that is checked before: present, a number, 1-40.",
		Danger: "an Express or distributed child may run a write twice, and unlimited iterations run writes side by side",
	},
	{
		ID: "small-maps", find: smallMaps,
		Says:   "A Choice in front of a Map lets at most six items through.",
		Danger: "a turn of many calls, each with all its rounds, outgrows the history, and Step Functions ends the execution in the middle of its effects",
	},
	{
		ID: "jsonpath-subset", find: jsonpathSubset,
		Says:   "One language, JSONPath; no Assign, Arguments, Output, Items, Condition; of the intrinsics only States.MathAdd and States.ArrayGetItem.",
		Danger: "what no test runs here would be met for the first time between an effect and its record",
	},
	{
		ID: "known-resources", find: knownResources,
		Says:   "A Task is lambda:invoke, lambda:invoke.waitForTaskToken or states:startExecution.",
		Danger: "another integration answers in another shape, so that an outcome would be read as none",
	},
	{
		ID: "task-timeout", find: taskTimeout,
		Says:   "A Task has a literal TimeoutSeconds, above 900 where a Lambda is asked; the machine has one below a year.",
		Danger: "a timer shorter than the function gives a call up while it is still changing something, and no timer at all parks a run for ever",
	},
	{
		ID: "narrow-retry", find: narrowRetry,
		Says:   "Where a tool may run, Retry names only errors which mean that the handler was not entered.",
		Danger: "Step Functions would send the request again although the first may have taken effect or be still running",
	},
	{
		ID: "bounded-retry", find: boundedRetry,
		Says:   "A retrier spells out MaxAttempts (0-8) and, above 0, IntervalSeconds, BackoffRate, MaxDelaySeconds and JitterStrategy FULL.",
		Danger: "retries by default or without end use the history up, or fall on a struggling receiver all at once",
	},
	{
		ID: "known-errors", find: knownErrors,
		Says:   "Every ErrorEquals is an AWS name on the list or a name of ours.",
		Danger: "a misspelt name matches nothing, and the error takes another way than the one that was meant for it",
	},
	{
		ID: "catch-everything", find: catchEverything,
		Says:   "A Task and a Map catch States.DataLimitExceeded by name and then States.ALL; States.ALL stands alone and last, in Retry too.",
		Danger: "an error that nobody catches ends the run, and its sibling calls are cut off in the middle of their effects",
	},
	{
		ID: "result-keeps-state", find: resultKeepsState,
		Says:   "A catcher, Task, Map or Pass writes its result to null or a field; only a Pass that ends, or writes every field that is read later, may replace the state.",
		Danger: "the call's envelope would be overwritten, and the next state fails on a path that is gone while the effect stays unrecorded",
	},
	{
		ID: "error-is-an-answer", find: errorIsAnAnswer,
		Says:   "In an iteration an error of the asked leads to the Choice that bounds the loop, never round it and never to an end.",
		Danger: "an error would be asked about for ever, or a call whose effect nobody looked up would end as if it were known",
	},
	{
		ID: "iterations-end-well", find: iterationsEndWell,
		Says:   "No Fail inside a Map; every end is a Pass that copies single fields, those of an answer checked to be texts.",
		Danger: "one failed or oversized iteration breaks the Map after the effects of all of them",
	},
	{
		ID: "choice-default", find: choiceDefault,
		Says:   "Every Choice has a Default, and it leads to no good end.",
		Danger: "an answer that nobody understood would end the execution, or pass for a success",
	},
	{
		ID: "guarded-paths", find: guardedPaths,
		Says:   "A path is compared or copied only where it was written on every way there; one into a Lambda's answer, where IsPresent was checked.",
		Danger: "a malformed answer fails the execution uncatchably, right after the effect",
	},
	{
		ID: "next-decides", find: nextDecides,
		Says:   "A Choice goes on by the text of the answer's next, by a bound, or because something is missing; a call ends well only by done.",
		Danger: "an answer that asks for another round, or for nothing, would be taken for the end of the call while its effect is unknown",
	},
	{
		ID: "no-status", find: noStatus,
		Says:   "No rule compares a status or an effect: what to do next is the answer's next.",
		Danger: "a second opinion about statuses drifts away from the ledger's table and may run what is settled",
	},
	{
		ID: "counted-loops", find: countedLoops,
		Says:   "Every way round a loop adds 1 to a counter, and passes a Choice that bounds it.",
		Danger: "a loop that isn't counted asks a tool for ever, until the history ends the run uncatchably",
	},
	{
		ID: "bound-before-loops", find: boundBeforeLoops,
		Says:   "In a loop's Choice the bound, at most 25 in an iteration and 500 in the run, stands before every rule that leads back, and leads to an end.",
		Danger: "the rules before the bound loop unbounded, until the history ends the run in the middle of its effects",
	},
	{
		ID: "safe-wait", find: safeWait,
		Says:   "A Wait reads one field; every Pass before it makes that field by States.MathAdd(x, 1), where x is a counter or checked as a number 0-86,400.",
		Danger: "a fraction, or a wait of years, stops the iteration uncatchably and its siblings with it",
	},
	{
		ID: "doorbell", find: doorbell,
		Says:   "A wait for a token sends it as payload.token and nowhere else, throws its result away, waits at most 14 days, doesn't retry States.Timeout and States.HeartbeatTimeout, and leads back to asking.",
		Danger: "whoever holds the token would decide about the effect in the ledger's place, or a lost bell would park the run for ever",
	},
	{
		ID: "literal-asks", find: literalAsks,
		Says:   "Who is asked for what stands in the definition: (tool, invoke), (tool, reconcile), (desk, inspect), (desk, park), (planner, plan).",
		Danger: "an answer could make the machine run a tool, or an undo, that nobody asked for",
	},
	{
		ID: "exact-envelope", find: exactEnvelope,
		Says:   "The payload to tool and desk has exactly the envelope's fields, version 1, and asks for a brief reply; park adds the token.",
		Danger: "the guard refuses an unknown field, and a full reply can outgrow the state after the effect",
	},
	{
		ID: "exact-plan", find: exactPlan,
		Says:   "The planner is sent the input, the outcomes, the broken turns and the execution's id, name, start and machine, and nothing else.",
		Danger: "a planner that can't see which execution asks would let two executions drive one run",
	},
	{
		ID: "exact-outcome", find: exactOutcome,
		Says:   "Every end of an iteration tells the planner the call's id, status, code, message, rounds and turn, and nothing else.",
		Danger: "a planner that can't tell which call came back, or how, would tell the model about the wrong effect",
	},
	{
		ID: "hand-over", find: handOver,
		Says:   "StartExecution takes its name and machine from the planner, and an execution that exists is caught as done, before the other errors.",
		Danger: "a hand-over that is repeated would start a second driver of the run, or fail a run that goes on elsewhere",
	},
	{
		ID: "named-ends", find: namedEnds,
		Says:   "A Fail has ErrorPath and CausePath, or an Error of ours and a Cause.",
		Danger: "a run that ends without a name can't be told from one that may go on, so that nobody looks for its open effects",
	},
	{
		ID: "dollar-keys", find: dollarKeys,
		Says:   "A value that is a path or an intrinsic has a key that ends in .$, and the other way round.",
		Danger: "the text of the path would travel instead of the value: a call under a wrong key is another call",
	},
	{
		ID: "whole-graph", find: wholeGraph,
		Says:   "State names are unique across scopes and at most 80 characters; every target exists in its scope, every state is reachable and goes on or ends, every rule of a Choice compares something and leads somewhere.",
		Danger: "the run stops at a state that isn't there, with an effect behind it and no record of the way on",
	},
	{
		ID: "short-path", find: shortPath,
		Says:   "The shortest way through an iteration, and once round the run, is at most three states.",
		Danger: "each further state is paid for and written to the history with every call, so that runs hand over more often",
	},
}
