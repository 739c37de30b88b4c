// Package sfnexecutions starts and looks at executions through Step Functions.
// Each request is made once and takes at most 3 s: whoever asks repeats by the
// same name, which is always safe. Start with [New].
package sfnexecutions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/sfnrequest"
)

// Client is the part of the Step Functions client that is needed.
type Client interface {
	StartExecution(ctx context.Context, in *sfn.StartExecutionInput, opts ...func(*sfn.Options)) (*sfn.StartExecutionOutput, error)
	DescribeExecution(ctx context.Context, in *sfn.DescribeExecutionInput, opts ...func(*sfn.Options)) (*sfn.DescribeExecutionOutput, error)
}

type machine struct{ client Client }

// New returns an [executions.Machine] that asks client, whatever the client's
// own retries are.
func New(client Client) executions.Machine { return machine{client} }

// Start implements [executions.Machine] with StartExecution, and with
// DescribeExecution if the name has been used.
func (m machine) Start(ctx context.Context, arn, name string, input json.RawMessage) (executions.State, error) {
	err := m.start(ctx, arn, name, input)
	if err == nil {
		return executions.Running, nil // now, or with this very input before
	}
	if _, exists := errors.AsType[*types.ExecutionAlreadyExists](err); exists {
		return m.taken(ctx, arn, name)
	}
	if refused(err) {
		return "", fmt.Errorf("sfnexecutions: start %s: %w: %s", name, executions.ErrRefused, sfnrequest.Word(err))
	}
	return "", fmt.Errorf("sfnexecutions: start %s: not known whether it runs: %s", name, sfnrequest.Word(err))
}

func (m machine) start(ctx context.Context, arn, name string, input json.RawMessage) error {
	ctx, cancel := sfnrequest.Bounded(ctx)
	defer cancel()
	_, err := m.client.StartExecution(ctx, &sfn.StartExecutionInput{
		StateMachineArn: aws.String(arn), Name: aws.String(name), Input: aws.String(string(input)),
	}, sfnrequest.Once)
	return err
}

// taken returns the state of the execution that has the name.
func (m machine) taken(ctx context.Context, arn, name string) (executions.State, error) {
	state, err := m.State(ctx, arn, name)
	switch {
	case err != nil:
		return "", fmt.Errorf("sfnexecutions: start %s: it has been started; now: %w", name, err)
	case state == executions.Missing:
		return "", fmt.Errorf("sfnexecutions: start %s: it has been started, and is not to be found", name)
	}
	return state, nil
}

// State implements [executions.Machine] with DescribeExecution.
func (m machine) State(ctx context.Context, arn, name string) (executions.State, error) {
	ctx, cancel := sfnrequest.Bounded(ctx)
	defer cancel()
	out, err := m.client.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: aws.String(executionARN(arn, name))}, sfnrequest.Once)
	if _, missing := errors.AsType[*types.ExecutionDoesNotExist](err); missing {
		return executions.Missing, nil
	}
	if err != nil {
		return "", fmt.Errorf("sfnexecutions: look at %s: %s", name, sfnrequest.Word(err))
	}
	switch out.Status {
	case types.ExecutionStatusRunning, types.ExecutionStatusPendingRedrive:
		return executions.Running, nil
	case types.ExecutionStatusSucceeded:
		return executions.Succeeded, nil
	case types.ExecutionStatusFailed:
		return executions.Failed, nil
	case types.ExecutionStatusTimedOut:
		return executions.TimedOut, nil
	case types.ExecutionStatusAborted:
		return executions.Aborted, nil
	}
	return "", fmt.Errorf("sfnexecutions: look at %s: its status is not a known one", name)
}

// executionARN returns the ARN of the machine's execution of that name. A version
// or an alias starts executions of the machine itself.
func executionARN(arn, name string) string {
	return strings.Replace(executions.Unversioned(arn), ":stateMachine:", ":execution:", 1) + ":" + name
}

// refused reports whether the service answered that it did nothing. A request
// that timed out on its side may have been taken.
func refused(err error) bool {
	response, is := errors.AsType[*smithyhttp.ResponseError](err)
	return is && response.HTTPStatusCode()/100 == 4 && response.HTTPStatusCode() != http.StatusRequestTimeout
}
