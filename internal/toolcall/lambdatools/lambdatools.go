// Package lambdatools is toolcall.Functions over Lambda: the directory of tools
// says which function is behind a tool, and each request is sent once, since what
// may still be running is asked again by a person or by the sweeper, not by a
// client. Start with [New], over a client of [Client].
package lambdatools

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/toolcall"
)

// Timeout is longer than any tool's function runs (20 s), so that its answer is
// not given up on while it may still come, and shorter than the operator's
// function (29 s), which API Gateway waits for no longer than 30 s.
const Timeout = 25 * time.Second

var errFunction = errors.New("lambdatools: the tool's function failed")

// Invoker is the part of a Lambda client that is needed.
type Invoker interface {
	Invoke(ctx context.Context, in *lambda.InvokeInput, opts ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// Client returns a Lambda client that sends each request once and waits for its
// answer for [Timeout].
func Client(cfg aws.Config) *lambda.Client {
	return lambda.NewFromConfig(cfg, func(o *lambda.Options) {
		o.Retryer, o.RetryMaxAttempts = aws.NopRetryer{}, 1 // both: the environment may ask for more
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(Timeout)
	})
}

// New returns the functions of the directory, invoked through client.
func New(client Invoker, tools runs.Tools) toolcall.Functions {
	return functions{client: client, tools: tools}
}

type functions struct {
	client Invoker
	tools  runs.Tools
}

// Invoke implements [toolcall.Functions]. A tool that the directory lacks, and
// one whose function does not exist, is a [toolcall.ErrNoTool]. What a failed
// function said is not repeated: it may hold anything.
func (f functions) Invoke(ctx context.Context, tool string, payload []byte) ([]byte, error) {
	if !f.tools.Has(tool) {
		return nil, fmt.Errorf("%w: %s", toolcall.ErrNoTool, tool)
	}
	out, err := f.client.Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String(f.tools[tool].Function), Payload: payload})
	if _, gone := errors.AsType[*types.ResourceNotFoundException](err); gone {
		return nil, fmt.Errorf("%w: %s: its function does not exist", toolcall.ErrNoTool, tool)
	} else if err != nil {
		return nil, fmt.Errorf("lambdatools: no answer from the tool's function: %w", err)
	}
	if out.FunctionError != nil {
		return nil, fmt.Errorf("%w: %s", errFunction, aws.ToString(out.FunctionError))
	}
	return out.Payload, nil
}
