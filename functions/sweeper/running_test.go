package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
)

// lister lists pages of two executions, and fails on the page named fails.
type lister struct {
	t     *testing.T
	fails int
}

var errThrottled = errors.New("throttled")

func (l lister) ListExecutions(_ context.Context, in *sfn.ListExecutionsInput, _ ...func(*sfn.Options)) (*sfn.ListExecutionsOutput, error) {
	if aws.ToString(in.StateMachineArn) != "m" || in.StatusFilter != types.ExecutionStatusRunning || in.MaxResults != 1000 {
		l.t.Errorf("asked for %+v", in)
	}
	page, _ := strconv.Atoi(aws.ToString(in.NextToken))
	if page == l.fails {
		return nil, errThrottled
	}
	out := &sfn.ListExecutionsOutput{}
	for n := range 2 {
		out.Executions = append(out.Executions, types.ExecutionListItem{Name: aws.String(fmt.Sprintf("run-%d-g%d", page, n))})
	}
	if page < 2 {
		out.NextToken = aws.String(strconv.Itoa(page + 1))
	}
	return out, nil
}

func TestRunningExecutionsAreListedPageByPageOrNotAtAll(t *testing.T) {
	t.Parallel()
	names, err := running{lister{t, -1}}.Running(t.Context(), "m")
	if err != nil || len(names) != 6 || !names["run-2-g1"] {
		t.Errorf("%v, %v", names, err)
	}
	if names, err := (running{lister{t, 2}}).Running(t.Context(), "m"); !errors.Is(err, errThrottled) || names != nil {
		t.Errorf("%v, %v", names, err)
	}
}
