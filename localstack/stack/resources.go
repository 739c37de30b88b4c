package stack

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/table"
	"github.com/onceward/onceward/localstack/lambda"
	"github.com/onceward/onceward/localstack/plain/machine"
	"github.com/onceward/onceward/statemachines"
)

// roleARN is what the API asks for and nothing here reads.
const roleARN = "arn:aws:iam::" + lambda.Account + ":role/onceward-local"

// Config returns an AWS configuration for this stack. Its credentials say
// nothing but that the caller is not one of the functions.
func (s *Stack) Config() aws.Config {
	return aws.Config{
		Region:       lambda.Region,
		BaseEndpoint: aws.String(s.URL),
		Credentials:  credentials.NewStaticCredentialsProvider("local", "local", ""),
	}
}

func (s *Stack) makeTable(ctx context.Context) error {
	return table.Create(ctx, dynamodb.NewFromConfig(s.Config()), s.Names.Table)
}

func (s *Stack) makeMachines(ctx context.Context) error {
	definition, err := statemachines.Substitute(statemachines.AgentRun(), map[string]string{
		names.PlannerFunction:  s.Names.Function(names.Planner),
		names.CallDeskFunction: s.Names.Function(names.CallDesk),
	})
	if err != nil {
		return err
	}
	for name, definition := range map[string]string{s.Names.Machine: string(definition), machine.Name: machine.Definition()} {
		if err := s.makeMachine(ctx, name, definition); err != nil {
			return fmt.Errorf("stack: make state machine %s: %w", name, err)
		}
	}
	return nil
}

// makeMachine makes the machine or, if it was kept with another definition,
// updates it: executions that go on keep the definition they were started with.
func (s *Stack) makeMachine(ctx context.Context, name, definition string) error {
	client := sfn.NewFromConfig(s.Config())
	_, err := client.CreateStateMachine(ctx, &sfn.CreateStateMachineInput{Name: aws.String(name), Definition: aws.String(definition), RoleArn: aws.String(roleARN)})
	if _, other := errors.AsType[*types.StateMachineAlreadyExists](err); !other {
		return err
	}
	_, err = client.UpdateStateMachine(ctx, &sfn.UpdateStateMachineInput{StateMachineArn: aws.String(MachineARN(name)), Definition: aws.String(definition), RoleArn: aws.String(roleARN)})
	return err
}

// MachineARN returns the ARN of the state machine of that name.
func MachineARN(name string) string {
	return "arn:aws:states:" + lambda.Region + ":" + lambda.Account + ":stateMachine:" + name
}
