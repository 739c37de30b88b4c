package stepfunctions

import (
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func TestWhoeverWantsToKnowHearsOfBadEndsOnly(t *testing.T) {
	t.Parallel()
	heard := make(chan StatusChange, 10)
	options := &Options{Ended: func(change StatusChange) { heard <- change }}
	bubble(t, &scripted{}, options, func(t *testing.T, r *Runner) {
		machine := create(t, r, `{"TimeoutSeconds":5,"StartAt":"C","States":{"C":{"Type":"Choice","Choices":[{"Variable":"$.fail","IsPresent":true,"Next":"F"},{"Variable":"$.wait","IsPresent":true,"Next":"W"}],"Default":"S"},
			"F":{"Type":"Fail","Error":"E","Cause":"c"},"W":{"Type":"Wait","Seconds":60,"Next":"S"},"S":{"Type":"Succeed"}}}`)
		finish(t, r, start(t, r, machine, "succeeds", `{}`))
		failed := finish(t, r, start(t, r, machine, "fails", `{"fail":1}`))
		synctest.Wait()
		aborted := start(t, r, machine, "aborted", `{"wait":1}`)
		if _, err := r.StopExecution(StopExecutionInput{ExecutionARN: aborted}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // each is told in a goroutine of its own
		finish(t, r, start(t, r, machine, "late", `{"wait":1}`))
		synctest.Wait()
		redrive(t, r, failed.ExecutionARN)
		finish(t, r, failed.ExecutionARN)
		synctest.Wait()
		close(heard)
		var got []string
		for change := range heard {
			got = append(got, change.Detail.Name+" "+string(change.Detail.Status))
			if change.Detail.Name == "fails" && change.Detail.RedriveCount == 0 {
				checkStatusChange(t, change)
			}
		}
		want := []string{"fails FAILED", "aborted ABORTED", "late TIMED_OUT", "fails FAILED"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// The members are those of AWS's documented example event.
func checkStatusChange(t *testing.T, change StatusChange) {
	t.Helper()
	if len(change.ID) != 36 {
		t.Errorf("id %q", change.ID)
	}
	change.ID = "<id>"
	const want = `{"version":"0","id":"<id>","detail-type":"Step Functions Execution Status Change","source":"aws.states","account":"000000000000",
		"time":"2000-01-01T00:00:00Z","region":"us-east-1","resources":["arn:aws:states:us-east-1:000000000000:execution:m:fails"],
		"detail":{"executionArn":"arn:aws:states:us-east-1:000000000000:execution:m:fails","stateMachineArn":"arn:aws:states:us-east-1:000000000000:stateMachine:m",
		"stateMachineVersionArn":null,"stateMachineAliasArn":null,"name":"fails","status":"FAILED","startDate":946684800000,"stopDate":946684800000,
		"input":"{\"fail\":1}","inputDetails":{"included":true},"output":null,"outputDetails":null,"error":"E","cause":"c",
		"redriveCount":0,"redriveDate":null,"redriveStatus":"REDRIVABLE","redriveStatusReason":null}}`
	var expected, got any
	if err := json.Unmarshal([]byte(want), &expected); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(toJSON(t, change)), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Error(diff)
	}
}
