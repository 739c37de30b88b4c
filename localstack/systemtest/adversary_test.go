package systemtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/faults"
)

// The answer that told the run of the conflict is lost, and the record that is
// read instead is somebody else's.
func TestRunNeverHearsOfAnotherCallsEffectUnderItsKey(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("answer lost %v", lost), func(t *testing.T) {
			run := newRun(t)
			mustInvoke(t, envelope("invoke", run, run+"-other"))
			if lost {
				arm(t, faults.Rule{Service: faults.Lambda, Function: system.Names.Function(names.BillingTools), Contains: run, Effect: faults.DropAnswer})
			}
			ended, output := endOf(t, startRun(t, run, runInput(t, run, run+"-mine", "pause")))
			if n := credits(t, run+"-mine"); n != 0 || ended != "SUCCEEDED" || strings.Contains(output, "took effect.") {
				t.Errorf("%s, %d credits of this run: %s", ended, n, output)
			}
		})
	}
}

// As while a newer version is being deployed.
func TestOneItemThatCannotBeReadHidesNoOther(t *testing.T) {
	run, broken := newRun(t), newRun(t)
	for _, r := range []string{run, broken} {
		mustInvoke(t, envelope("invoke", r, r+"-lose-answer-lookup-down"))
	}
	set := func(version string) {
		t.Helper()
		_, err := dynamodb.NewFromConfig(system.Config()).UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName:        aws.String(system.Names.Table),
			Key:              map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: ".#" + broken}, "sk": &types.AttributeValueMemberS{Value: "CALL#call_1"}},
			UpdateExpression: aws.String("SET #s = :v"), ExpressionAttributeNames: map[string]string{"#s": "schema"},
			ExpressionAttributeValues: map[string]types.AttributeValue{":v": &types.AttributeValueMemberN{Value: version}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	set("2")
	defer set("1")
	status, text := operator(t, "dev::ada", http.MethodGet, "/v1/tool-executions?limit=200", nil)
	if status != http.StatusOK || !contains(text, `"key":"`+run+`:call_1"`) || !contains(text, `"key":"`+broken+`:call_1"`) || !contains(text, `"why":"unreadable"`) {
		t.Errorf("%d: %.300s", status, text)
	}
}

// The bell's answer is lost, and the next one finds that nobody waits any more.
func TestWhoseBellWokeTheRunHearsSo(t *testing.T) {
	run := newRun(t)
	execution := startRun(t, run, runInput(t, run, run+"-lose-answer-lookup-down", "pause"))
	eventually(t, "the run is parked", func() bool {
		status, text := operator(t, "dev::ada", http.MethodGet, callPath(run), nil)
		return status == http.StatusOK && contains(text, "parked_at")
	})
	arm(t, faults.Rule{Service: faults.StepFunctions, Operation: "SendTaskSuccess", Caller: system.Names.Function(names.Operator), Effect: faults.DropAnswer})
	status, text := operator(t, "dev::ada", http.MethodPost, callPath(run, "resolve"), map[string]any{"outcome": "completed", "reason": "seen", "expected_version": show(t, run).Version})
	if status != http.StatusOK || !contains(text, `"run_waiting":"woken"`) {
		t.Errorf("%d: %.200s", status, text[max(0, len(text)-200):])
	}
	endOf(t, execution)
}
