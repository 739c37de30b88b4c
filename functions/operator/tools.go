package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
)

var errFunction = errors.New("operator: the tool's function failed")

type invoker interface {
	Invoke(ctx context.Context, in *lambda.InvokeInput, opts ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// toolFunctions is an [operator.Tools] over Lambda.
type toolFunctions struct {
	client invoker
	tools  runs.Tools
}

// Invoke implements [operator.Tools]. What a failed function said is not
// repeated: it may hold anything.
func (t toolFunctions) Invoke(ctx context.Context, tool string, payload []byte) ([]byte, error) {
	if !t.tools.Has(tool) {
		return nil, fmt.Errorf("%w: %s", operator.ErrNoTool, tool)
	}
	out, err := t.client.Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String(t.tools[tool].Function), Payload: payload})
	if err != nil {
		return nil, fmt.Errorf("operator: no answer from the tool's function: %w", err)
	}
	if out.FunctionError != nil {
		return nil, fmt.Errorf("%w: %s", errFunction, aws.ToString(out.FunctionError))
	}
	return out.Payload, nil
}
