package systemtest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/faults"
)

// The id that the model gave is taken by another call: before the turn is
// planned, and then the run's call gets an id of its own; or after it, and then
// it conflicts, also where the answer that said so is lost and the record that is
// read instead is somebody else's.
func TestRunNeverHearsOfAnotherCallsEffectUnderItsKey(t *testing.T) {
	t.Parallel()
	tools, planner := system.Names.Function(names.BillingTools), system.Names.Function(names.Planner)
	for _, c := range []struct {
		name          string
		planned, lost bool
		paid          int
	}{
		{"taken before the plan", false, false, 1},
		{"taken after the plan", true, false, 0},
		{"taken after the plan, and the answer lost", true, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run, hold := ownRun(t), ""
			var execution string
			if c.planned {
				var err error
				hold, err = system.Faults.Arm(faults.Rule{Service: faults.Lambda, Function: planner, Contains: run, Effect: faults.Delay, Of: faults.TheAnswer, Milliseconds: 60_000})
				if err != nil {
					t.Fatal(err)
				}
				execution = startRun(t, run, runInput(t, run, run+"-mine", "pause"))
				eventually(t, "the turn is planned", func() bool { return len(itemsOf(t, run)["TURN"]) == 1 })
			}
			mustInvoke(t, envelope("invoke", run, run+"-other"))
			if c.lost {
				arm(t, faults.Rule{Service: faults.Lambda, Function: tools, Contains: run, Effect: faults.DropAnswer})
			}
			if c.planned {
				if err := system.Faults.Disarm(hold); err != nil {
					t.Fatal(err)
				}
			} else {
				execution = startRun(t, run, runInput(t, run, run+"-mine", "pause"))
			}
			ended, output := endOf(t, execution)
			if n := credits(t, run+"-mine"); n != c.paid || ended != "SUCCEEDED" || strings.Count(output, "took effect.") != c.paid || strings.Contains(output, run+"-other") {
				t.Errorf("%s, %d credits of this run: %s", ended, n, output)
			}
		})
	}
}

// As while a newer version is being deployed.
func TestOneItemThatCannotBeReadHidesNoOther(t *testing.T) {
	t.Parallel()
	run, broken := ownRun(t), ownRun(t)
	for _, r := range []string{run, broken} {
		mustInvoke(t, envelope("invoke", r, r+"-lose-answer-lookup-down"))
	}
	set := func(version string) {
		t.Helper()
		_, err := database().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
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
	for _, r := range []string{run, broken} {
		if !listed(t, r, "") {
			t.Errorf("%s is not listed", r)
		}
	}
	if !inList(t, `"why":"unreadable"`, "") {
		t.Error("nobody is told that an item can't be read")
	}
}

// The bell's answer is lost, and the next one finds that nobody waits any more.
func TestWhoseBellWokeTheRunHearsSo(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	execution := startRun(t, run, runInput(t, run, run+"-lose-answer-lookup-down", "pause"))
	eventually(t, "the run is parked", func() bool {
		status, text := operator(t, "dev::ada", http.MethodGet, callPath(run), nil)
		return status == http.StatusOK && contains(text, "parked_at")
	})
	arm(t, faults.Rule{Service: faults.StepFunctions, Contains: bellOf(t, run), Caller: system.Names.Function(names.Operator), Effect: faults.DropAnswer})
	status, text := operator(t, "dev::ada", http.MethodPost, callPath(run, "resolve"), map[string]any{"outcome": "completed", "reason": "seen", "expected_version": show(t, run).Version})
	if status != http.StatusOK || !contains(text, `"run_waiting":"woken"`) {
		t.Errorf("%d: %.200s", status, text[max(0, len(text)-200):])
	}
	endOf(t, execution)
}
