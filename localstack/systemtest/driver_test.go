package systemtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/faults"
)

// Proves: R44
func TestRunStartedByManyAtOnceIsOneRunWithOneDriver(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	input := runInput(t, run, run, "pause")
	var mu sync.Mutex
	created, started, drivers := 0, 0, map[string]bool{}
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			status, text, err := tryOperator(t.Context(), "dev::ada", http.MethodPost, "/v1/runs", json.RawMessage(input))
			var d driven
			if err == nil {
				err = json.Unmarshal(text, &d)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil || status != http.StatusCreated && status != http.StatusOK {
				t.Errorf("%d, %v: %s", status, err, text)
			}
			drivers[d.Run.Driver] = true
			if d.Started {
				started++
			}
			if status == http.StatusCreated {
				created++
			}
		})
	}
	group.Wait()
	v := finished(t, run)
	if len(drivers) != 1 || !drivers[v.Driver] || v.Generation != 1 || created < 1 || started < 1 {
		t.Errorf("%d created, %d started, drivers %v; %+v", created, started, drivers, v)
	}
	endsAs(t, v.Driver, "succeed")
	paidOnce(t, run, run)
	if status, d := drive(t, "/v1/runs", json.RawMessage(input)); status != http.StatusOK || d.Started || d.Run.Status != "succeeded" {
		t.Errorf("started once more: %d %+v", status, d)
	}
	if status, d := drive(t, "/v1/runs", json.RawMessage(runInput(t, run, run+"-other", "pause"))); status != http.StatusConflict || d.Code != "run_exists" {
		t.Errorf("with another input: %d %+v", status, d)
	}
	if got := credits(t, run+"-other"); got != 0 {
		t.Errorf("another input paid %d times", got)
	}
}

// Whoever starts a run dies, or is not heard, at each of their requests: the run
// is driven, or listed until it is, or there is none and the same start makes it.
func startLost(t *testing.T) {
	t.Helper()
	t.Parallel()
	function := system.Names.Function(names.Operator)
	calm := ownRun(t)
	n := requestsFor(t, function, calm, func() { begin(t, runInput(t, calm, calm, "pause")) })
	finished(t, calm)
	if n < 2 {
		t.Fatalf("a start sends %d requests", n)
	}
	for _, nth := range each(n) {
		for _, effect := range allWays {
			t.Run(fmt.Sprintf("%s request %d of %d", effect, nth, n), func(t *testing.T) {
				t.Parallel()
				run := ownRun(t)
				input := runInput(t, run, run, "pause")
				atRequest(t, function, run, nth, effect, func() { drive(t, "/v1/runs", json.RawMessage(input)) })
				v, stands := view(t, run)
				switch {
				case !stands:
					if v = begin(t, input); v.Generation != 1 {
						t.Errorf("started again: %+v", v)
					}
				case v.Status == "succeeded" || v.DriverState == "running":
				case v.DriverState == "missing":
					if _, listed := undriven(t, run); !listed && !drives(t, run) {
						t.Error("nobody drives it and it is not listed")
					}
				default:
					t.Errorf("its driver: %+v", v)
				}
				if v = finished(t, run); v.Generation != 1 {
					t.Errorf("it took %d generations", v.Generation)
				}
				paidOnce(t, run, run)
			})
		}
	}
}

// drives reports whether somebody has come to drive the run since it was looked at.
func drives(t *testing.T, run string) bool {
	t.Helper()
	v, _ := view(t, run)
	return v.DriverState == "running" || v.Status == "succeeded"
}

// abandoned starts a run and stops its driver while it is parked on a call that
// took effect, and returns the run.
func abandoned(t *testing.T, run string) runView {
	t.Helper()
	v := begin(t, runInput(t, run, doubtful(run), "pause"))
	parked(t, v.Driver)
	stop(t, v.Driver)
	return v
}

// Sweeps list a run whose driver was stopped and leave it to a person.
func driverStopped(t *testing.T) {
	t.Helper()
	t.Parallel()
	run := ownRun(t)
	first := abandoned(t, run)
	listed, ok := undriven(t, run)
	if !ok || listed.Driver != first.Driver || listed.DriverState != "aborted" || listed.WhatToDo == "" {
		t.Fatalf("listed %t: %+v", ok, listed)
	}
	report := sweep(t, 1)[0]
	found := false
	for _, d := range report.WithoutDriver {
		if d.RunID == run {
			found = true
			if d.Tenant != "" || d.Execution != first.Driver || d.State != "aborted" || d.Since.IsZero() {
				t.Errorf("the sweeper reports %+v", d)
			}
		}
	}
	if !found || report.Runs.WithoutDriver == 0 || report.Calls.NeedSomebody == 0 {
		t.Errorf("the sweeper does not report it: %+v", report)
	}
	if v, _ := view(t, run); v.Generation != 1 || v.DriverState != "aborted" {
		t.Errorf("unasked it is %+v", v)
	}
	status, d := drive(t, "/v1/runs/"+run+"/resume", nil)
	if status != http.StatusOK || !d.Started || d.Run.Generation != 2 || d.Run.Driver == first.Driver {
		t.Fatalf("resumed: %d %+v", status, d)
	}
	if _, ok := undriven(t, run); ok {
		t.Error("it is driven, and listed")
	}
	if status, d := drive(t, "/v1/runs/"+run+"/resume", nil); status != http.StatusConflict || d.Code != "run_driven" {
		t.Errorf("resumed while it is driven: %d %+v", status, d)
	}
	parked(t, d.Run.Driver)
	settle(t, run)
	finished(t, run)
	endsAs(t, d.Run.Driver, "succeed")
	paidOnce(t, run, doubtful(run))
	if status, d := drive(t, "/v1/runs/"+run+"/resume", nil); status != http.StatusConflict || d.Code != "run_ended" {
		t.Errorf("resumed after its end: %d %+v", status, d)
	}
}

// The driver before this one says the name of its successor again, which is there
// already; an older one stands down. Neither calls anything.
// Proves: R40
func TestOldDriverThatIsRedrivenCallsNothing(t *testing.T) {
	t.Parallel()
	for resumed, want := range map[int][]string{1: {"hand_over", "stand_down"}, 2: {"stand_down"}} {
		t.Run(fmt.Sprintf("resumed %d times since", resumed), func(t *testing.T) {
			t.Parallel()
			run := ownRun(t)
			first := abandoned(t, run)
			var now driven
			for n := range resumed {
				if n > 0 {
					stop(t, now.Run.Driver)
				}
				var status int
				if status, now = drive(t, "/v1/runs/"+run+"/resume", nil); status != http.StatusOK {
					t.Fatalf("%d: %+v", status, now)
				}
				parked(t, now.Run.Driver)
			}
			if _, err := machines().RedriveExecution(t.Context(), &sfn.RedriveExecutionInput{ExecutionArn: aws.String(arnOf(first.Driver))}); err != nil {
				t.Fatal(err)
			}
			parked(t, first.Driver) // where it was stopped, on a token of its own
			settle(t, run)
			if v := finished(t, run); v.Generation != resumed+1 {
				t.Errorf("it took %d generations", v.Generation)
			}
			endsAs(t, now.Run.Driver, "succeed")
			endsAs(t, first.Driver, want...)
			paidOnce(t, run, doubtful(run))
		})
	}
}

// Of several who resume at once one moves the run on, and all hear the same.
func TestRunResumedByManyAtOnceHasOneNextDriver(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	first := abandoned(t, run)
	var mu sync.Mutex
	drivers := map[string]int{}
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			status, text, err := tryOperator(t.Context(), "dev::ada", http.MethodPost, "/v1/runs/"+run+"/resume", nil)
			var d driven
			if err == nil {
				err = json.Unmarshal(text, &d)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && status == http.StatusOK:
				drivers[d.Run.Driver]++
			case err == nil && status == http.StatusConflict && d.Code == "run_driven": // it came after the others
			default:
				t.Errorf("%d, %v: %s", status, err, text)
			}
		})
	}
	group.Wait()
	settle(t, run)
	v := finished(t, run)
	if len(drivers) != 1 || drivers[v.Driver] == 0 || v.Generation != 2 || v.Driver == first.Driver {
		t.Errorf("resumed by %v; %+v", drivers, v)
	}
	endsAs(t, v.Driver, "succeed")
	paidOnce(t, run, doubtful(run))
}

// Whoever resumes a run dies, or is not heard, at each of their requests.
func resumeLost(t *testing.T) {
	t.Helper()
	t.Parallel()
	function := system.Names.Function(names.Operator)
	calm := ownRun(t)
	abandoned(t, calm)
	n := requestsFor(t, function, calm, func() {
		if status, d := drive(t, "/v1/runs/"+calm+"/resume", nil); status != http.StatusOK {
			t.Fatalf("%d: %+v", status, d)
		}
	})
	settle(t, calm)
	finished(t, calm)
	if n < 4 {
		t.Fatalf("a resumption sends %d requests", n)
	}
	for _, nth := range each(n) {
		for _, effect := range allWays {
			t.Run(fmt.Sprintf("%s request %d of %d", effect, nth, n), func(t *testing.T) {
				t.Parallel()
				run := ownRun(t)
				first := abandoned(t, run)
				atRequest(t, function, run, nth, effect, func() { drive(t, "/v1/runs/"+run+"/resume", nil) })
				v, _ := view(t, run)
				switch v.DriverState {
				case "running":
				case "missing": // it is the sweeper's
					if _, listed := undriven(t, run); !listed && !drives(t, run) {
						t.Error("nobody drives it and it is not listed")
					}
				case "aborted": // nothing was moved, and it is a person's
					if listed, ok := undriven(t, run); !ok || listed.Driver != first.Driver {
						t.Errorf("nobody drives it; listed %t: %+v", ok, listed)
					}
					if status, d := drive(t, "/v1/runs/"+run+"/resume", nil); status != http.StatusOK || d.Run.Generation != 2 {
						t.Errorf("resumed again: %d %+v", status, d)
					}
				default:
					t.Errorf("its driver: %+v", v)
				}
				settle(t, run)
				if v = finished(t, run); v.Generation != 2 {
					t.Errorf("it took %d generations", v.Generation)
				}
				endsAs(t, v.Driver, "succeed")
				paidOnce(t, run, doubtful(run))
			})
		}
	}
}

// aged makes the parked run's driver believe that its history is long, so that it
// hands over before it calls anything more.
func aged(t *testing.T, run string) {
	t.Helper()
	var step map[string]any
	if err := json.Unmarshal([]byte(text(runItem(t, run)["step"])), &step); err != nil {
		t.Fatal(err)
	}
	step["events"] = 20_000
	_, err := database().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(system.Names.Table),
		Key: map[string]types.AttributeValue{
			names.AttrPartition: &types.AttributeValueMemberS{Value: ".#" + run}, names.AttrSort: &types.AttributeValueMemberS{Value: "RUN"},
		},
		UpdateExpression: aws.String("SET #s = :s"), ExpressionAttributeNames: map[string]string{"#s": "step"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":s": &types.AttributeValueMemberS{Value: encodeString(t, step)}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// twoTurns is a run that parks in its first turn and pays once more in its second.
func twoTurns(t *testing.T, run string) string {
	t.Helper()
	turn := func(call, account string) map[string]any {
		return map[string]any{"calls": []any{map[string]any{"id": call, "tool": "issue_credit", "arguments": map[string]any{"account_id": account, "amount_cents": 2500}}}}
	}
	return encodeString(t, map[string]any{
		"run_id": run, "principal": map[string]any{"subject": "customer-1", "permissions": []string{"credits:write"}},
		"script": map[string]any{"answer": "Done.", "turns": []any{turn("call_1", doubtful(run)), turn("call_2", run+"-second")}},
	})
}

// handsOver starts a run that hands over once its parked call is settled.
func handsOver(t *testing.T, run string) runView {
	t.Helper()
	v := begin(t, twoTurns(t, run))
	parked(t, v.Driver)
	aged(t, run)
	return v
}

func paidTwice(t *testing.T, run string) {
	t.Helper()
	paidOnce(t, run, doubtful(run))
	if got := credits(t, run+"-second"); got != 1 {
		t.Errorf("the second turn paid %d times", got)
	}
}

// The planner dies, or is not heard, at each request of the plan that hands over;
// and its execution goes on, or is stopped there, so that nobody starts the next.
func handOverLost(t *testing.T) {
	t.Helper()
	t.Parallel()
	function := system.Names.Function(names.Planner)
	calm := ownRun(t)
	first := handsOver(t, calm)
	n := requestsFor(t, function, calm, func() {
		settle(t, calm)
		endsAs(t, first.Driver, "hand_over")
	})
	if v := finished(t, calm); v.Generation != 2 {
		t.Errorf("without a fault it took %d generations", v.Generation)
	}
	paidTwice(t, calm)
	if n < 4 {
		t.Fatalf("a hand-over sends %d requests", n)
	}
	for _, nth := range each(n) {
		for _, effect := range allWays {
			for _, stopped := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s request %d of %d, then stopped %t", effect, nth, n, stopped), func(t *testing.T) {
					t.Parallel()
					handOverLostAt(t, function, nth, effect, stopped)
				})
			}
		}
	}
}

func handOverLostAt(t *testing.T, function string, nth int, effect faults.Effect, stopped bool) {
	t.Helper()
	run := ownRun(t)
	first := handsOver(t, run)
	id, err := system.Faults.Arm(faults.Rule{Caller: function, Contains: run, Nth: nth, Effect: effect})
	if err != nil {
		t.Fatal(err)
	}
	struck := func() bool {
		for _, r := range system.Faults.Rules() {
			if r.ID == id {
				return r.Hits == 1
			}
		}
		return false
	}
	settle(t, run)
	eventually(t, "the fault strikes", func() bool { return struck() || drives(t, run) && generation(t, run) > 1 })
	if stopped {
		_, _ = machines().StopExecution(t.Context(), &sfn.StopExecutionInput{ExecutionArn: aws.String(arnOf(first.Driver))}) // it may have ended
	}
	if hits := takeOut(t, id).Hits; hits > 1 {
		t.Errorf("the fault struck %d times", hits)
	}
	if v, ok := undriven(t, run); ok && v.DriverState == "aborted" { // it was stopped before it named the next
		if status, d := drive(t, "/v1/runs/"+run+"/resume", nil); status != http.StatusOK && d.Code != "run_driven" {
			t.Errorf("resumed: %d %+v", status, d)
		}
	}
	v := finished(t, run)
	if v.Generation < 2 {
		t.Errorf("it took %d generations", v.Generation)
	}
	endsAs(t, v.Driver, "succeed")
	paidTwice(t, run)
}

func generation(t *testing.T, run string) int {
	t.Helper()
	v, _ := view(t, run)
	return v.Generation
}

// Several executions are started for one run id, under names of their own.
// Proves: R23, R40, R44
func TestOfSeveralDriversAtOnceOneDrivesAndTheOthersStandDown(t *testing.T) {
	t.Parallel()
	for name, account := range map[string]func(run string) string{
		"of a run that pays":                       func(run string) string { return run },
		"of a run whose answer is lost":            func(run string) string { return run + "-lose-answer" },
		"of a run that is parked":                  doubtful,
		"of a run whose receiver lets people wait": func(run string) string { return run + "-hang" },
	} {
		for _, n := range []int{2, 4} {
			t.Run(fmt.Sprintf("%d %s", n, name), func(t *testing.T) {
				t.Parallel()
				run := ownRun(t)
				input := runInput(t, run, account(run), "pause")
				executions := make([]string, n)
				errs := make([]error, n)
				var group sync.WaitGroup
				for i := range n {
					executions[i] = fmt.Sprintf("%s-%d", run, i)
					group.Go(func() { errs[i] = tryStart(t, executions[i], input) })
				}
				group.Wait()
				for _, err := range errs {
					if err != nil {
						t.Fatal(err)
					}
				}
				if account(run) == doubtful(run) {
					settle(t, run)
				}
				v := finished(t, run)
				for _, e := range executions {
					if e == v.Driver {
						endsAs(t, e, "succeed")
					} else {
						endsAs(t, e, "stand_down")
					}
				}
				paidOnce(t, run, account(run))
			})
		}
	}
}

func tryStart(t *testing.T, name, input string) error {
	t.Helper()
	_, err := machines().StartExecution(t.Context(), &sfn.StartExecutionInput{
		StateMachineArn: aws.String(machineARN()), Name: aws.String(name), Input: aws.String(input),
	})
	return err
}
