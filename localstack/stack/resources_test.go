package stack

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/onceward/onceward/localstack/stepfunctions"
)

type noFunctions struct{}

func (noFunctions) Invoke(context.Context, stepfunctions.Invocation) (stepfunctions.Invoked, error) {
	return stepfunctions.Invoked{}, context.Canceled
}

func TestMachineThatIsThereIsKeptOrUpdatedAndItsARNStays(t *testing.T) {
	t.Parallel()
	runner, err := stepfunctions.New(noFunctions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(runner.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := runner.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	s := &Stack{URL: server.URL}
	client := sfn.NewFromConfig(s.Config())
	var revision string
	for i, c := range []struct {
		definition string
		updated    bool
	}{
		{`{"StartAt":"A","States":{"A":{"Type":"Succeed"}}}`, false},
		{`{"StartAt":"A","States":{"A":{"Type":"Succeed"}}}`, false},
		{`{"StartAt":"B","States":{"B":{"Type":"Succeed"}}}`, true},
		{`{"StartAt":"B","States":{"B":{"Type":"Succeed"}}}`, false},
	} {
		if err := s.makeMachine(t.Context(), "m", c.definition); err != nil {
			t.Fatal(err)
		}
		found, err := client.DescribeStateMachine(t.Context(), &sfn.DescribeStateMachineInput{StateMachineArn: aws.String(MachineARN("m"))})
		if err != nil {
			t.Fatal(err)
		}
		if *found.Definition != c.definition || (aws.ToString(found.RevisionId) != revision) != c.updated {
			t.Errorf("start %d: %s, revision %q after %q", i+1, *found.Definition, aws.ToString(found.RevisionId), revision)
		}
		revision = aws.ToString(found.RevisionId)
	}
	if err := s.makeMachine(t.Context(), "m", `{"StartAt":"nowhere","States":{}}`); err == nil || !strings.Contains(err.Error(), "InvalidDefinition") {
		t.Errorf("a definition that nobody can run: %v", err)
	}
}
