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
)

// Effects lists every effect a rule may name.
func Effects() []Effect {
	return []Effect{DropRequest, DropAnswer, KillCallerBefore, KillCallerAfter, AnswerError}
}

func (e Effect) known() bool { return slices.Contains(Effects(), e) }

// needsCaller reports whether the effect can only apply to a request whose
// sender is a sandbox that can be killed.
func (e Effect) needsCaller() bool { return e == KillCallerBefore || e == KillCallerAfter }
