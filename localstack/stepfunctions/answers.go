package stepfunctions

import (
	"github.com/onceward/onceward/localstack/stepfunctions/interpreter"
)

// SendTaskSuccessInput answers a token with a result.
type SendTaskSuccessInput struct {
	TaskToken string `json:"taskToken"`
	Output    string `json:"output"` // JSON
}

// SendTaskFailureInput answers a token with an error.
type SendTaskFailureInput struct {
	TaskToken string `json:"taskToken"`
	Error     string `json:"error,omitempty"`
	Cause     string `json:"cause,omitempty"`
}

// SendTaskHeartbeatInput says that the task is alive.
type SendTaskHeartbeatInput struct {
	TaskToken string `json:"taskToken"`
}

const maxTokenLength = 2_048

// SendTaskSuccess gives a waiting task its result. Only the first answer to a
// token counts: others, and those after the task's or the execution's end, are
// refused with TaskTimedOut, unknown tokens with InvalidToken.
func (r *Runner) SendTaskSuccess(in SendTaskSuccessInput) (Empty, error) {
	if err := checkLength("taskToken", in.TaskToken, 1, maxTokenLength); err != nil {
		return Empty{}, err
	}
	if err := checkTaskOutput(in.Output); err != nil {
		return Empty{}, err
	}
	return Empty{}, r.tokens.answer(in.TaskToken, answer{Output: in.Output})
}

// SendTaskFailure fails a waiting task; the rules for its token are those of SendTaskSuccess.
func (r *Runner) SendTaskFailure(in SendTaskFailureInput) (Empty, error) {
	if err := checkLength("taskToken", in.TaskToken, 1, maxTokenLength); err != nil {
		return Empty{}, err
	}
	if err := checkProblem(in.Error, in.Cause); err != nil {
		return Empty{}, err
	}
	failure := interpreter.NewFailure(in.Error, in.Cause)
	failure.FromTask = true
	return Empty{}, r.tokens.answer(in.TaskToken, answer{Failure: failure})
}

// SendTaskHeartbeat starts the task's HeartbeatSeconds anew.
func (r *Runner) SendTaskHeartbeat(in SendTaskHeartbeatInput) (Empty, error) {
	if err := checkLength("taskToken", in.TaskToken, 1, maxTokenLength); err != nil {
		return Empty{}, err
	}
	return Empty{}, r.tokens.heartbeat(in.TaskToken)
}
