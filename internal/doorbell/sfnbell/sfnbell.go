// Package sfnbell rings parked runs through Step Functions: it answers a task
// token with SendTaskSuccess and tells "nobody waits any more" from "not known".
// What is sent says nothing: whoever is woken asks the ledger.
package sfnbell

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"

	"github.com/onceward/onceward/internal/doorbell"
	"github.com/onceward/onceward/middleware/ledger"
)

// Client is the part of the Step Functions client that is needed.
type Client interface {
	SendTaskSuccess(ctx context.Context, in *sfn.SendTaskSuccessInput, opts ...func(*sfn.Options)) (*sfn.SendTaskSuccessOutput, error)
}

// Bell is an [doorbell.Doorbell]. It is safe for concurrent use if its client is.
type Bell struct{ client Client }

// New returns a bell that rings through client.
func New(client Client) Bell { return Bell{client} }

// Ring implements [doorbell.Doorbell]. A token that was answered before, whose
// wait timed out or that nobody knows is gone: the decision was made before the
// bell, so it is never treated as somebody else's.
func (b Bell) Ring(ctx context.Context, token ledger.Secret) error {
	_, err := b.client.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{TaskToken: aws.String(string(token)), Output: aws.String(`{"rung":true}`)})
	if err == nil {
		return nil
	}
	if _, is := errors.AsType[*types.TaskTimedOut](err); is {
		return &doorbell.GoneError{How: "TaskTimedOut"}
	}
	if _, is := errors.AsType[*types.TaskDoesNotExist](err); is {
		return &doorbell.GoneError{How: "TaskDoesNotExist"}
	}
	if _, is := errors.AsType[*types.InvalidToken](err); is {
		return &doorbell.GoneError{How: "InvalidToken"}
	}
	return fmt.Errorf("sfnbell: not known whether the run was woken: %s", word(err))
}

// word keeps what an SDK's error says of its request, the token with it, out of
// ours.
func word(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return "no time left"
	}
	return "no answer"
}
