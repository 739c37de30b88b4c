package faults

import "slices"

// Effect says what happens to a request that a rule applies to.
type Effect string

const (
	// DropRequest closes the connection before anything is done: the request
	// never arrived, its effect is certainly absent.
	DropRequest Effect = "drop_request"
	// DropAnswer lets the request be handled wholly, then closes the connection
	// without an answer: the effect may have happened, the sender can't know.
	DropAnswer Effect = "drop_answer"
	// KillCallerBefore kills the sandbox that sent the request, which is then
	// never handled.
	KillCallerBefore Effect = "kill_caller_before"
	// KillCallerAfter lets the request be handled wholly, then kills the
	// sandbox that sent it before it hears the answer.
	KillCallerAfter Effect = "kill_caller_after"
	// AnswerError answers the rule's status and error code instead of handling
	// the request: it was refused, its effect is certainly absent.
	AnswerError Effect = "error"
	// Throttle answers the service's own throttling error instead of handling
	// the request: it was refused, its effect is certainly absent.
	Throttle Effect = "throttle"
	// Delay holds the request before it is handled, or its answer afterwards.
	// The request takes its effect even if the sender has hung up by then.
	Delay Effect = "delay"
	// Duplicate hands the request to the service twice, one after the other, as
	// a network or a client that sends again would. The second answer is
	// answered, the first is thrown away.
	Duplicate Effect = "duplicate"
	// Outage closes the connection of every matching request before anything is
	// done, until it is over: their effects are certainly absent.
	Outage Effect = "outage"
)

// Effects lists every effect a rule may name.
func Effects() []Effect {
	return []Effect{
		DropRequest, DropAnswer, KillCallerBefore, KillCallerAfter, AnswerError, Throttle, Delay, Duplicate, Outage,
	}
}

func (e Effect) known() bool { return slices.Contains(Effects(), e) }

// needsCaller reports whether the effect can only apply to a request whose
// sender is a sandbox that can be killed.
func (e Effect) needsCaller() bool { return e == KillCallerBefore || e == KillCallerAfter }

// Part is what of an exchange [Delay] holds.
type Part string

const (
	// TheRequest is held before it is handled.
	TheRequest Part = "request"
	// TheAnswer is held after the request has been handled.
	TheAnswer Part = "answer"
)

// Parts lists every part a rule may name.
func Parts() []Part { return []Part{TheRequest, TheAnswer} }
