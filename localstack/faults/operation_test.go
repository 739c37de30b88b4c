package faults_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/localstack/faults"
	"github.com/onceward/onceward/localstack/stepfunctions"
)

// operationsOf lists what an SDK's client can ask.
func operationsOf(client reflect.Type) []string {
	var names []string
	for m := range client.Methods() {
		if m.Type.NumIn() == 4 && m.Type.NumOut() == 2 { // receiver, context, input, options
			names = append(names, m.Name)
		}
	}
	return names
}

func TestEveryOperationOfDynamoDBMayBeNamed(t *testing.T) {
	t.Parallel()
	want := operationsOf(reflect.TypeFor[*dynamodb.Client]())
	if diff := cmp.Diff(want, faults.Operations(faults.DynamoDB)); diff != "" {
		t.Errorf("operations (-the SDK's +known):\n%s", diff)
	}
}

func TestOperationsOfStepFunctionsAreThoseTheRunnerAnswers(t *testing.T) {
	t.Parallel()
	runner, err := stepfunctions.New(&stepfunctions.LambdaInvoker{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runner.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	var want []string
	for _, name := range operationsOf(reflect.TypeFor[*sfn.Client]()) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
		r.Header.Set("X-Amz-Target", "AWSStepFunctions."+name)
		w := httptest.NewRecorder()
		runner.Handler().ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), "UnknownOperation") {
			want = append(want, name)
		}
	}
	if diff := cmp.Diff(want, faults.Operations(faults.StepFunctions)); diff != "" {
		t.Errorf("operations (-the runner's +known):\n%s", diff)
	}
}

func TestMisspeltOperationIsRefusedWithTheKnownOnes(t *testing.T) {
	t.Parallel()
	for _, service := range append(faults.Services(), "") {
		plan := faults.NewPlan(faults.Options{})
		_, err := plan.Arm(faults.Rule{Service: service, Operation: "UpdateIt", Effect: faults.DropAnswer})
		bad, ok := errors.AsType[*faults.RuleError](err)
		if !ok || len(bad.Fields) != 1 || bad.Fields[0].Field != "operation" {
			t.Fatalf("%q: %v, want the operation refused", service, err)
		}
		known := faults.Operations(service)
		if service == "" {
			known = slices.Concat(faults.Operations(faults.DynamoDB), faults.Operations(faults.Operator))
		}
		for _, name := range known {
			if !strings.Contains(bad.Fields[0].Detail, name) {
				t.Errorf("%q: %s doesn't offer %s", service, bad.Fields[0].Detail, name)
			}
			if _, err := plan.Arm(faults.Rule{Service: service, Operation: name, Effect: faults.DropAnswer}); err != nil {
				t.Errorf("%q: %v", service, err)
			}
		}
	}
}
