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
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/onceward/onceward/internal/doorbell"
	"github.com/onceward/onceward/internal/sfnrequest"
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

// Ring implements [doorbell.Doorbell], with one request of at most 3 s whatever
// the client's own retries are: a retry that finds the token gone could not tell
// its own first try from somebody else's. A token that was answered before, whose
// wait timed out or that nobody knows is gone: the decision was made before the
// bell, so it is never treated as somebody else's.
func (b Bell) Ring(ctx context.Context, token ledger.Secret) error {
	ctx, cancel := sfnrequest.Bounded(ctx)
	defer cancel()
	_, err := b.client.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{TaskToken: aws.String(string(token)), Output: aws.String(`{"rung":true}`)}, sfnrequest.Once)
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
	if response, is := errors.AsType[*smithyhttp.ResponseError](err); is && response.HTTPStatusCode()/100 == 4 {
		return fmt.Errorf("sfnbell: %w: %s", doorbell.ErrRefused, sfnrequest.Word(err))
	}
	return fmt.Errorf("sfnbell: not known whether the run was woken: %s", sfnrequest.Word(err))
}
