package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
)

// perPage is the most executions that one request lists.
const perPage = 1000

// running is a [sweeper.Running] through Step Functions' list of executions.
type running struct {
	client sfn.ListExecutionsAPIClient
}

// Running implements [sweeper.Running] with a ListExecutions request for each
// thousand. An error leaves out all of them.
func (r running) Running(ctx context.Context, machine string) (map[string]bool, error) {
	names := make(map[string]bool)
	pages := sfn.NewListExecutionsPaginator(r.client, &sfn.ListExecutionsInput{
		StateMachineArn: aws.String(machine), StatusFilter: types.ExecutionStatusRunning, MaxResults: perPage,
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("sweeper: list running executions: %w", err)
		}
		for _, execution := range page.Executions {
			names[aws.ToString(execution.Name)] = true
		}
	}
	return names, nil
}
