package systemtest

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/faults"
)

// Somebody dies in each of these, and nobody asks again: the sweeper is always
// there, twice at once.
// Proves: R29, R36, R40, R41, R42, R96, R113, R114, R115, R116, R119
func TestWhatNobodyIsLeftToDoIsDoneOnASchedule(t *testing.T) {
	sweeping(t)
	for name, test := range map[string]func(*testing.T){
		"start lost at any request: driven or listed":        startLost,
		"resume lost at any request: driven or listed":       resumeLost,
		"hand-over lost at any request: driven or listed":    handOverLost,
		"driver stopped: listed until resumed":               driverStopped,
		"decider dead at any request: the run is woken":      deciderDead,
		"bell lost: rung again":                              bellLost,
		"executor and driver dead: orphaned and looked up":   executorDead,
		"asker of an undo dead at any request: carried on":   askerDead,
		"nobody asks for the undo of a run that was resumed": neverUndone,
	} {
		t.Run(name, test)
	}
}

// deciderDead kills the operator at each request of a decision. Once the decision
// is stored the run goes on without another word.
func deciderDead(t *testing.T) {
	t.Helper()
	t.Parallel()
	function := system.Names.Function(names.Operator)
	calm := ownRun(t)
	execution := waiting(t, calm)
	version := show(t, calm).Version
	n := requestsFor(t, function, calm, func() { decideUntilHeard(t, calm, version) })
	heardFailed(t, calm, execution)
	if n < 4 {
		t.Fatalf("a decision sends %d requests", n)
	}
	for _, nth := range each(n) {
		for _, effect := range []faults.Effect{faults.KillCallerBefore, faults.KillCallerAfter} {
			t.Run(fmt.Sprintf("%s request %d of %d", effect, nth, n), func(t *testing.T) {
				t.Parallel()
				run := ownRun(t)
				execution := waiting(t, run)
				version := show(t, run).Version
				atRequest(t, function, run, nth, effect, func() { decideOnce(t, run, version) })
				if s := show(t, run); s.Status == "indeterminate" && len(s.Decisions) == 0 {
					decideUntilHeard(t, run, version) // nothing of it was stored
				}
				heardFailed(t, run, execution)
			})
		}
	}
}

// decideOnce says that the run's call failed, and does not listen.
func decideOnce(t *testing.T, run string, version int64) {
	t.Helper()
	operator(t, "dev::ada", http.MethodPost, callPath(run, "resolve"), map[string]any{"outcome": "failed", "reason": "billing has nothing", "expected_version": version}, "Idempotency-Key", run)
}

// unrung decides a parked run's call so that the bell is lost with its ringer,
// and returns the run's execution and its token.
func unrung(t *testing.T, run string, effect faults.Effect) (execution, token string) {
	t.Helper()
	execution = waiting(t, run)
	token = bellOf(t, run)
	rule := faults.Rule{Service: faults.StepFunctions, Caller: system.Names.Function(names.Operator), Contains: token, Effect: effect, Times: 100}
	id, err := system.Faults.Arm(rule)
	if err != nil {
		t.Fatal(err)
	}
	decideOnce(t, run, show(t, run).Version)
	if hits := takeOut(t, id).Hits; hits == 0 {
		t.Error("no bell was lost")
	}
	return execution, token
}

func bellLost(t *testing.T) {
	t.Helper()
	t.Parallel()
	for _, effect := range []faults.Effect{faults.DropRequest, faults.DropAnswer, faults.Throttle, faults.KillCallerBefore, faults.KillCallerAfter} {
		t.Run(string(effect), func(t *testing.T) {
			t.Parallel()
			run := ownRun(t)
			execution, token := unrung(t, run, effect)
			heardFailed(t, run, execution)
			if n := woken(t, execution); n != 1 {
				t.Errorf("its wait was ended %d times", n)
			}
			eventually(t, "its bell is confirmed", func() bool { return !stillListed(t, run) })
			if logs.contains(token) {
				t.Error("the token is in a log")
			}
		})
	}
}

// woken counts how often waits of the execution were answered.
func woken(t *testing.T, execution string) (n int) {
	t.Helper()
	submitted := map[int64]bool{}
	pages := sfn.NewGetExecutionHistoryPaginator(machines(), &sfn.GetExecutionHistoryInput{ExecutionArn: &execution})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			switch e.Type { //nolint:exhaustive // the others are of no wait
			case types.HistoryEventTypeTaskSubmitted:
				submitted[e.Id] = true
			case types.HistoryEventTypeTaskSucceeded:
				if submitted[e.PreviousEventId] {
					n++
				}
			}
		}
	}
	return n
}

// executorDead stops a run's driver while its tool waits for the receiver, and
// kills the tool before it can say what became of the call. Nobody is left who
// would ask.
func executorDead(t *testing.T) {
	t.Helper()
	t.Parallel()
	run := ownRun(t)
	account := run + "-hang"
	driver := begin(t, runInput(t, run, account, "pause")).Driver
	eventually(t, "the credit is there", func() bool { return credits(t, account) == 1 })
	id, err := system.Faults.Arm(faults.Rule{Service: faults.DynamoDB, Caller: system.Names.Function(names.BillingTools), Contains: run, Effect: faults.KillCallerBefore})
	if err != nil {
		t.Fatal(err)
	}
	stop(t, driver)
	eventually(t, "the tool is killed", func() bool { return struck(run) == 1 })
	takeOut(t, id)
	if s := show(t, run); s.Attempt != 1 || s.Effect != "unknown" {
		t.Fatalf("%+v", s)
	}
	eventually(t, "the call is orphaned and looked up", func() bool { return show(t, run).Status == "completed" })
	if s := show(t, run); s.Status != "completed" || s.Effect != "happened" || s.SettledBy.Kind != "hook" || s.Attempt != 1 || len(s.Decisions) != 0 {
		t.Errorf("%+v", s)
	}
	status, d := drive(t, "/v1/runs/"+run+"/resume", nil)
	if status != http.StatusOK {
		t.Fatalf("%d: %+v", status, d)
	}
	finished(t, run)
	endsAs(t, d.Run.Driver, "succeed")
	paidOnce(t, run, account)
}

// askerDead kills the operator at each request of an undo's ask. Once the ask is
// stored the undo takes effect without another word.
func askerDead(t *testing.T) {
	t.Helper()
	t.Parallel()
	function := system.Names.Function(names.Operator)
	paid := func(t *testing.T, run string) {
		t.Helper()
		begin(t, runInput(t, run, run, "pause"))
		finished(t, run)
	}
	ask := func(t *testing.T, run string) {
		t.Helper()
		operator(t, "dev::ada", http.MethodPost, callPath(run, "compensate"), map[string]any{"reason": "the wrong customer", "expected_version": 2}, "Idempotency-Key", run)
	}
	undone := func(t *testing.T, run string) {
		t.Helper()
		eventually(t, "the call is compensated", func() bool { return show(t, run).Status == "compensated" })
		effects, err := system.Billing.AccountEffects(t.Context(), run)
		if err != nil || effects.Credits != 1 || effects.Voids != 1 {
			t.Errorf("%+v, %v", effects, err)
		}
		if s := show(t, run); len(s.Decisions) != 1 || s.Decisions[0].By != "ada" {
			t.Errorf("%+v", s)
		}
	}
	calm := ownRun(t)
	paid(t, calm)
	n := requestsFor(t, function, calm, func() { ask(t, calm) })
	undone(t, calm)
	if n < 5 {
		t.Fatalf("an ask sends %d requests", n)
	}
	for _, nth := range each(n) {
		for _, effect := range []faults.Effect{faults.KillCallerBefore, faults.KillCallerAfter} {
			t.Run(fmt.Sprintf("%s request %d of %d", effect, nth, n), func(t *testing.T) {
				t.Parallel()
				run := ownRun(t)
				paid(t, run)
				id, err := system.Faults.Arm(faults.Rule{Caller: function, Contains: run, Nth: nth, Effect: effect})
				if err != nil {
					t.Fatal(err)
				}
				ask(t, run)
				takeOut(t, id) // the sweeper may have been faster with what was left to do
				if s := show(t, run); s.Status == "completed" && len(s.Decisions) == 0 {
					ask(t, run) // nothing of it was stored
				}
				undone(t, run)
			})
		}
	}
}

// neverUndone sees a run stopped, swept, resumed and ended, and a call that a
// person settled, and nothing is undone.
func neverUndone(t *testing.T) {
	t.Helper()
	t.Parallel()
	run := ownRun(t)
	abandoned(t, run)
	sweep(t, 2)
	if status, d := drive(t, "/v1/runs/"+run+"/resume", nil); status != http.StatusOK {
		t.Fatalf("%d: %+v", status, d)
	}
	settle(t, run)
	finished(t, run)
	sweep(t, 2)
	if s := show(t, run); s.Status != "completed" || len(s.Decisions) != 1 {
		t.Errorf("%+v", s)
	}
	paidOnce(t, run, doubtful(run))
}

// A run that fails after a credit that stands keeps it: nothing takes it back, not
// the failure and not whoever looks after all calls.
// Proves: R113, R116
func TestRunThatFailsAfterACreditKeepsIt(t *testing.T) { //nolint:paralleltest // a sweep touches every test's calls
	run := ownRun(t)
	call := func(id, account string) map[string]any {
		return map[string]any{"calls": []any{map[string]any{"id": id, "tool": "issue_credit", "arguments": map[string]any{"account_id": account, "amount_cents": 2500}}}}
	}
	execution := startRun(t, run, encodeString(t, map[string]any{
		"run_id": run, "principal": map[string]any{"subject": "customer-1", "permissions": []string{"credits:write"}},
		"tool_policy": map[string]any{"on_indeterminate": "fail"},
		"script":      map[string]any{"answer": "Done.", "turns": []any{call("call_1", run+"-plain"), call("call_2", doubtful(run))}},
	}))
	if status, output := endOf(t, execution); status != "FAILED" {
		t.Fatalf("%s: %s", status, output)
	}
	sweep(t, 2)
	if s := show(t, run); s.Status != "completed" || s.Undo != nil || len(s.Decisions) != 0 {
		t.Errorf("%+v", s)
	}
	for key, credits := range map[string]int{run + ":call_1": 1, run + ":call_2": 1} {
		if e := keyEffects(t, key); e.Credits != credits || e.Voids != 0 {
			t.Errorf("%s: %+v", key, e)
		}
	}
}

// The sweeper itself dies at each of its requests about a run; the next sweep
// does the rest, and several at once do no more than one.
// Proves: R119
func TestKillOfTheSweeperAtAnyOfItsRequestsLosesNothing(t *testing.T) {
	function := system.Names.Function(names.Sweeper)
	calm := ownRun(t)
	execution, _ := unrung(t, calm, faults.KillCallerBefore)
	n := requestsFor(t, function, calm, func() {
		if r := sweep(t, 1)[0]; !r.Complete || r.Calls.Rung < 1 {
			t.Errorf("%+v", r)
		}
	})
	heardFailed(t, calm, execution)
	if n < 3 {
		t.Fatalf("a sweep sends %d requests about a run", n)
	}
	for _, nth := range each(n) {
		for _, effect := range []faults.Effect{faults.KillCallerBefore, faults.KillCallerAfter} {
			// One after the other: another one's sweeper would ring before this one is struck.
			t.Run(fmt.Sprintf("%s request %d of %d", effect, nth, n), func(t *testing.T) {
				run := ownRun(t)
				execution, _ := unrung(t, run, faults.KillCallerBefore)
				id, err := system.Faults.Arm(faults.Rule{Caller: function, Contains: run, Nth: nth, Effect: effect})
				if err != nil {
					t.Fatal(err)
				}
				eventually(t, "the run is woken", func() bool {
					for range 2 {
						_, _ = sweepOnce(t.Context()) // dead, for all that its caller hears
					}
					return !stillListed(t, run)
				})
				hits := takeOut(t, id).Hits
				heardFailed(t, run, execution)
				if got := woken(t, execution); got != 1 || hits != 1 {
					t.Errorf("its wait was ended %d times, the sweeper killed %d times", got, hits)
				}
			})
		}
	}
}

// An item that can't be read stops no sweep and is named by it.
func TestSweepNamesWhatItCannotReadAndDoesTheRest(t *testing.T) {
	broken, run := ownRun(t), ownRun(t)
	waiting(t, broken)
	driven := begin(t, runInput(t, broken+"-2", doubtful(broken), "pause"))
	parked(t, driven.Driver)
	execution, _ := unrung(t, run, faults.KillCallerBefore)
	schema := func(version string) {
		t.Helper()
		_, err := database().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: aws.String(system.Names.Table),
			Key: map[string]dbtypes.AttributeValue{
				names.AttrPartition: &dbtypes.AttributeValueMemberS{Value: ".#" + broken}, names.AttrSort: &dbtypes.AttributeValueMemberS{Value: "CALL#call_1"},
			},
			UpdateExpression: aws.String("SET #s = :v"), ExpressionAttributeNames: map[string]string{"#s": "schema"},
			ExpressionAttributeValues: map[string]dbtypes.AttributeValue{":v": &dbtypes.AttributeValueMemberN{Value: version}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	schema("99")
	report := sweep(t, 1)[0]
	schema("1")
	named := 0
	for _, item := range report.Unreadable {
		if item.RunID == broken && item.CallID == "call_1" {
			named++
		}
	}
	if named != 1 || !report.Complete || report.Calls.Rung < 1 || report.Runs.Driven < 1 {
		t.Errorf("%+v", report)
	}
	heardFailed(t, run, execution)
}

// A sweep that is made because an execution failed is like any other.
func TestEndOfAnExecutionBringsASweep(t *testing.T) {
	run := ownRun(t)
	execution, _ := unrung(t, run, faults.KillCallerBefore)
	event := encode(t, map[string]any{
		"version": "0", "detail-type": "Step Functions Execution Status Change", "source": "aws.states",
		"detail": map[string]any{"executionArn": execution, "name": run, "status": "FAILED", "input": "{}"},
	})
	report, err := sweepFor(t.Context(), event)
	if err != nil || !report.Complete || report.Calls.Rung < 1 {
		t.Errorf("%+v, %v", report, err)
	}
	heardFailed(t, run, execution)
	if _, err := sweepFor(t.Context(), []byte(`[]`)); err == nil {
		t.Error("a sweep for what is no event")
	}
}
