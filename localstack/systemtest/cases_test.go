package systemtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/faults"
)

// partition returns what is stored of the run.
func partition(t *testing.T, run string) []map[string]types.AttributeValue {
	t.Helper()
	out, err := database().Query(t.Context(), &dynamodb.QueryInput{
		TableName: aws.String(system.Names.Table), ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String("#p = :p"),
		ExpressionAttributeNames:  map[string]string{"#p": names.AttrPartition},
		ExpressionAttributeValues: map[string]types.AttributeValue{":p": &types.AttributeValueMemberS{Value: ".#" + run}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Items
}

// itemsOf returns the sort keys of the run's items, by kind.
func itemsOf(t *testing.T, run string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, item := range partition(t, run) {
		sort := item[names.AttrSort].(*types.AttributeValueMemberS).Value
		kind, _, _ := strings.Cut(sort, "#")
		found[kind] = append(found[kind], sort)
	}
	return found
}

// listed reports whether the operator's list has the run's call.
func listed(t *testing.T, run, query string) bool {
	t.Helper()
	return inList(t, `"`+run+`:call_1"`, query)
}

// inList reports whether any page of the operator's list has the text.
func inList(t *testing.T, text, query string) bool {
	t.Helper()
	struck := 0
	for cursor := ""; ; {
		status, body := operator(t, "dev::ada", http.MethodGet, "/v1/tool-executions?limit=200"+query+"&cursor="+url.QueryEscape(cursor), nil)
		// A list looks at the calls of other tests too, whose faults may strike it.
		if status >= http.StatusInternalServerError && struck < 3 {
			struck++
			continue
		}
		var page struct {
			NextCursor string `json:"next_cursor"`
		}
		if err := json.Unmarshal(body, &page); err != nil || status != http.StatusOK {
			t.Fatalf("list: %d, %v: %s", status, err, body)
		}
		if contains(body, text) {
			return true
		}
		if cursor = page.NextCursor; cursor == "" {
			return false
		}
	}
}

// Proves: R39
func TestLedgerLiesBesideTheRunsCheckpoints(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	if status, output := endOf(t, startRun(t, run, runInput(t, run, run, "pause"))); status != "SUCCEEDED" {
		t.Fatalf("%s: %s", status, output)
	}
	items := itemsOf(t, run)
	if len(items["RUN"]) != 1 || len(items["CALL"]) != 1 || len(items["TURN"]) != 2 {
		t.Errorf("the run's partition holds %v", items)
	}
}

// Proves: R144, R145, R146
func TestKillAtAnyRequestOfACallPaysAtMostOnceAndLeavesOneRecord(t *testing.T) {
	t.Parallel()
	tools := system.Names.Function(names.BillingTools)
	for _, c := range []struct {
		effect  faults.Effect
		nth     int // 1 reserves, 2 settles
		times   int
		effects int
		by      string
	}{
		{faults.KillCallerBefore, 1, 1, 1, "executor"}, // nothing was stored: the call runs
		{faults.KillCallerBefore, 1, 3, 1, "executor"},
		{faults.KillCallerAfter, 1, 1, 0, "person"}, // it never ran, and only a person can know that
		{faults.KillCallerBefore, 2, 1, 1, "hook"},
		{faults.KillCallerBefore, 2, 4, 1, "hook"},
		{faults.KillCallerAfter, 2, 1, 1, "executor"},
		{faults.KillCallerAfter, 2, 4, 1, "executor"},
	} {
		t.Run(fmt.Sprintf("%s request %d, %d times", c.effect, c.nth, c.times), func(t *testing.T) {
			t.Parallel()
			run := ownRun(t)
			arm(t, faults.Rule{Service: faults.DynamoDB, Caller: tools, Contains: run, Nth: c.nth, Times: c.times, Effect: c.effect})
			execution := startRun(t, run, runInput(t, run, run, "pause"))
			if c.by == "person" {
				eventually(t, "the call is unknown", func() bool {
					status, _ := operator(t, "dev::ada", http.MethodGet, callPath(run), nil)
					return status == http.StatusOK && show(t, run).Status == "indeterminate"
				})
				status, text := operator(t, "dev::ada", http.MethodPost, callPath(run, "resolve"), map[string]any{"outcome": "failed", "reason": "billing has nothing", "expected_version": show(t, run).Version})
				if status != http.StatusOK {
					t.Fatalf("%d: %s", status, text)
				}
			}
			status, output := endOf(t, execution)
			if status != "SUCCEEDED" || struck(run) < 1 {
				t.Errorf("%s, struck %d times: %s", status, struck(run), output)
			}
			if s := show(t, run); s.SettledBy.Kind != c.by || s.Attempt != 1 {
				t.Errorf("settled by %s, attempt %d", s.SettledBy.Kind, s.Attempt)
			}
			if got := credits(t, run); got != c.effects {
				t.Errorf("effects %d, want %d", got, c.effects)
			}
			if items := itemsOf(t, run); len(items["CALL"]) != 1 {
				t.Errorf("the run's partition holds %v", items)
			}
		})
	}
}

// Proves: R139
func TestCallThatStartedAndDidNotEndIsSeenAsSuch(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	arm(t, faults.Rule{Service: faults.DynamoDB, Caller: system.Names.Function(names.BillingTools), Contains: run, Nth: 1, Effect: faults.KillCallerAfter})
	if a, err := invoke(t.Context(), encode(t, envelope("invoke", run, run))); err == nil {
		t.Fatalf("the process was killed and answered %+v", a)
	}
	began := func() (started, settled bool) {
		_, text := operator(t, "dev::ada", http.MethodGet, callPath(run), nil)
		return contains(text, `"started_at":"20`), contains(text, `"settled_at":"20`)
	}
	if started, settled := began(); !started || settled || show(t, run).Status != "started" || !listed(t, run, "&status=started") {
		t.Errorf("started %t, settled %t, %+v", started, settled, show(t, run))
	}
	eventually(t, "it comes to the list of what needs somebody, by itself", func() bool { return listed(t, run, "") })
	eventually(t, "it is unknown", func() bool { return mustInvoke(t, envelope("invoke", run, run)).Status == "indeterminate" })
	status, text := operator(t, "dev::ada", http.MethodPost, callPath(run, "resolve"), map[string]any{"outcome": "failed", "reason": "billing has nothing", "expected_version": show(t, run).Version})
	if status != http.StatusOK {
		t.Fatalf("%d: %s", status, text)
	}
	if started, settled := began(); !started || !settled || credits(t, run) != 0 {
		t.Errorf("started %t, settled %t, effects %d", started, settled, credits(t, run))
	}
}

func TestCallsOfOneTurnPayOnceEachAlsoIfTheyAreEqual(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	call := func(id, account string, cents int) map[string]any {
		return map[string]any{"id": id, "tool": "issue_credit", "arguments": map[string]any{"account_id": account, "amount_cents": cents}}
	}
	input := string(encode(t, map[string]any{
		"run_id": run, "principal": map[string]any{"subject": "customer-1", "permissions": []string{"credits:write"}},
		"script": map[string]any{"answer": "Done.", "turns": []any{
			map[string]any{"calls": []any{call("call_1", run+"-equal", 2500), call("call_2", run+"-equal", 2500), call("call_3", run+"-other", 2500)}},
			map[string]any{"calls": []any{call("call_1", run+"-equal", 2500), call("call_3", run+"-other", 100)}},
		}},
	}))
	status, output := endOf(t, startRun(t, run, input))
	if status != "SUCCEEDED" || strings.Count(output, "This call took effect.") != 5 {
		t.Fatalf("%s: %s", status, output)
	}
	if equal, other := credits(t, run+"-equal"), credits(t, run+"-other"); equal != 3 || other != 2 {
		t.Errorf("effects %d and %d, want 3 and 2", equal, other)
	}
	if items := itemsOf(t, run); len(items["CALL"]) != 5 {
		t.Errorf("the run's partition holds %v", items)
	}
}

// The run is stopped while its credit is under way. What became of the credit
// is recorded all the same, and stays in the list until it is known.
func TestCallOfAStoppedRunIsStillListedAndSettled(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	account := run + "-hang"
	execution := startRun(t, run, runInput(t, run, account, "pause"))
	eventually(t, "the credit is booked", func() bool { return credits(t, account) == 1 })
	if _, err := machines().StopExecution(t.Context(), &sfn.StopExecutionInput{ExecutionArn: &execution}); err != nil {
		t.Fatal(err)
	}
	if status, _ := endOf(t, execution); status != "ABORTED" {
		t.Fatalf("the run is %s", status)
	}
	eventually(t, "the outcome is recorded although the run is over", func() bool { return show(t, run).Status == "indeterminate" })
	if !listed(t, run, "") {
		t.Error("nobody sees it")
	}
	status, text := operator(t, "dev::ada", http.MethodPost, callPath(run, "reconcile"), map[string]any{"reason": "the run was stopped", "expected_version": show(t, run).Version})
	if s := show(t, run); status != http.StatusOK || s.Status != "completed" || s.SettledBy.Kind != "hook" {
		t.Errorf("%d: %s: %+v", status, text, s)
	}
	if listed(t, run, "") || credits(t, account) != 1 {
		t.Errorf("listed %t, effects %d", listed(t, run, ""), credits(t, account))
	}
}

// A run that is started, or redriven, a second time asks again and pays once.
func TestSecondExecutionOfARunPaysNothing(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	input := runInput(t, run, run, "pause")
	first := startRun(t, run, input)
	second := startRun(t, run+"-again", input)
	for _, execution := range []string{first, second, startRun(t, run+"-after", input)} {
		if status, output := endOf(t, execution); status != "SUCCEEDED" {
			t.Errorf("%s: %s", status, output)
		}
	}
	if got := credits(t, run); got != 1 {
		t.Errorf("effects %d, want 1", got)
	}
	if items := itemsOf(t, run); len(items["RUN"]) != 1 || len(items["CALL"]) != 1 {
		t.Errorf("the run's partition holds %v", items)
	}
}

// DynamoDB refuses the tool's writes for good: before the effect nothing runs;
// after it the answer is unknown, and the look-up finds it later.
func TestTableThatTakesNoWritesNeverMakesASecondCredit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		operation, status, code string
		effects                 int
	}{
		"it can't be reserved": {"PutItem", "refused", "store_unavailable", 0},
		"it can't be settled":  {"UpdateItem", "indeterminate", "not_recorded", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := ownRun(t)
			id, err := system.Faults.Arm(faults.Rule{
				Service: faults.DynamoDB, Operation: c.operation, Caller: system.Names.Function(names.BillingTools), Contains: run, Times: 1000,
				Effect: faults.AnswerError, Code: "ProvisionedThroughputExceededException",
			})
			if err != nil {
				t.Fatal(err)
			}
			a := mustInvoke(t, envelope("invoke", run, run))
			if a.Status != c.status || a.Error.Code != c.code || credits(t, run) != c.effects {
				t.Errorf("%+v, effects %d", a, credits(t, run))
			}
			if err := system.Faults.Disarm(id); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it is completed", func() bool { return mustInvoke(t, envelope("invoke", run, run)).Status == "completed" })
			if got := credits(t, run); got != 1 {
				t.Errorf("effects %d, want 1", got)
			}
		})
	}
}

func TestToolAskedDirectlyKnowsTheCallByTheKeyThatTheOperatorSees(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	e := envelope("invoke", run, run)
	e["tenant"] = "acme"
	a := mustInvoke(t, e)
	status, text := operator(t, "dev:acme:ada", http.MethodGet, "/v1/tool-executions/"+url.PathEscape(a.Key), nil)
	if status != http.StatusOK || !contains(text, `"status":"completed"`) {
		t.Errorf("%d: %s", status, text)
	}
	effects, err := system.Billing.AccountEffects(t.Context(), run)
	if err != nil || effects.Credits != 1 {
		t.Errorf("%+v, %v", effects, err)
	}
}

// One call is delivered sixteen times at once, to as many processes.
func TestManyDeliveriesOfOneCallAtOncePayOnce(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", "-lose-answer", "-error-500", "-unavailable"} {
		t.Run("account"+word, func(t *testing.T) {
			t.Parallel()
			run := ownRun(t)
			payload := encode(t, envelope("invoke", run, run+word))
			answers := make([]answer, 16)
			errs := make([]error, len(answers))
			var all sync.WaitGroup
			for i := range answers {
				all.Go(func() { answers[i], errs[i] = invoke(t.Context(), payload) })
			}
			all.Wait()
			ran, results := 0, map[string]int{}
			for i, a := range answers {
				if errs[i] != nil {
					t.Fatal(errs[i])
				}
				if !a.Replayed && a.Attempt == 1 && a.Status != "in_progress" {
					ran++
				}
				if a.Status == "completed" {
					results[string(a.Result)]++
				}
				if a.Status == "failed" || a.Effect == "none" {
					t.Errorf("told %+v", a)
				}
			}
			want := 1
			if word == "-unavailable" {
				want = 0
			}
			if ran != 1 || len(results) > 1 || credits(t, run+word) != want {
				t.Errorf("%d ran, results %v, effects %d: %+v", ran, results, credits(t, run+word), answers)
			}
		})
	}
}

// A person and the tool's look-up settle the same call at once. One of them
// wins, and nobody is told anything else.
func TestPersonAndLookUpAtOnceSettleACallOnce(t *testing.T) {
	t.Parallel()
	for n := range 6 {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			run := ownRun(t)
			account := run + "-lose-answer"
			if a := mustInvoke(t, envelope("invoke", run, account)); a.Status != "indeterminate" {
				t.Fatalf("%+v", a)
			}
			body := map[string]any{"outcome": "completed", "reason": "seen", "expected_version": show(t, run).Version, "external_id": "by_hand"}
			var status int
			var text []byte
			var looked answer
			var personErr, lookErr error
			var both sync.WaitGroup
			both.Go(func() {
				status, text, personErr = tryOperator(t.Context(), "dev::ada", http.MethodPost, callPath(run, "resolve"), body)
			})
			payload := encode(t, envelope("reconcile", run, account))
			both.Go(func() { looked, lookErr = invoke(t.Context(), payload) })
			both.Wait()
			if personErr != nil || lookErr != nil || looked.Status != "completed" {
				t.Fatalf("%v, %v, %+v", personErr, lookErr, looked)
			}
			s := show(t, run)
			if person := s.SettledBy.Kind == "person"; person != (status == http.StatusOK) || !person && status != http.StatusConflict || person != (len(s.Decisions) == 1) {
				t.Errorf("settled by %s, the person hears %d: %s", s.SettledBy.Kind, status, text)
			}
			if s.Status != "completed" || credits(t, account) != 1 {
				t.Errorf("%s, effects %d", s.Status, credits(t, account))
			}
		})
	}
}
