package lambdatools_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/toolcall"
	"github.com/onceward/onceward/internal/toolcall/lambdatools"
)

const canary = "CANARY"

type oneFunction struct {
	in  *lambda.InvokeInput
	out *lambda.InvokeOutput
	err error
}

func (f *oneFunction) Invoke(_ context.Context, in *lambda.InvokeInput, _ ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	f.in = in
	return f.out, f.err
}

func TestToolsAreFoundByNameAndTheirFailuresTellNothing(t *testing.T) {
	t.Parallel()
	tools, err := runs.ParseTools(`{"issue_credit":{"function":"onceward-dev-billing-tools","class":"external"}}`)
	if err != nil {
		t.Fatal(err)
	}
	f := &oneFunction{out: &lambda.InvokeOutput{Payload: []byte(`{"onceward":1}`)}}
	functions := lambdatools.New(f, tools)
	invoke := func(tool string) ([]byte, error) { return functions.Invoke(t.Context(), tool, []byte(`{}`)) }
	if _, err := invoke("unknown_tool"); !errors.Is(err, toolcall.ErrNoTool) || f.in != nil {
		t.Errorf("got %v", err)
	}
	if got, err := invoke("issue_credit"); err != nil || string(got) != `{"onceward":1}` || aws.ToString(f.in.FunctionName) != "onceward-dev-billing-tools" {
		t.Errorf("got %s, %v", got, err)
	}
	f.out = &lambda.InvokeOutput{FunctionError: aws.String("Unhandled"), Payload: []byte(canary)}
	if _, err := invoke("issue_credit"); err == nil || errors.Is(err, toolcall.ErrNoTool) || strings.Contains(err.Error(), canary) {
		t.Errorf("got %v", err)
	}
	f.err = errors.New("timeout")
	if _, err := invoke("issue_credit"); !errors.Is(err, f.err) || errors.Is(err, toolcall.ErrNoTool) {
		t.Errorf("got %v", err)
	}
	f.err = &types.ResourceNotFoundException{Message: aws.String("Function not found")}
	if _, err := invoke("issue_credit"); !errors.Is(err, toolcall.ErrNoTool) {
		t.Errorf("a function that is gone: %v", err)
	}
}

func TestTheClientMakesOneAttemptAndWaitsLongerThanAnyTool(t *testing.T) {
	t.Parallel()
	options := lambdatools.Client(aws.Config{Region: "eu-central-1", RetryMaxAttempts: 5}).Options()
	if n := options.Retryer.MaxAttempts(); n != 1 {
		t.Errorf("%d attempts", n)
	}
	client, ok := options.HTTPClient.(interface{ GetTimeout() time.Duration })
	if !ok || client.GetTimeout() <= 20*time.Second || client.GetTimeout() >= 29*time.Second {
		t.Errorf("its HTTP client is %T", options.HTTPClient)
	}
}
