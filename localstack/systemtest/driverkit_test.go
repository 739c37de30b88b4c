package systemtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/faults"
	"github.com/onceward/onceward/localstack/stack"
)

// The tests of drivers and sweeps share the stack with all others. What a sweep
// does to everybody's calls is none of the others' business, so whoever sweeps
// is not parallel; its subtests are.

// sweepReport is the sweeper's answer, by its wire names.
type sweepReport struct {
	Complete bool `json:"complete"`
	Calls    struct {
		Left         int   `json:"left"`
		Orphaned     int   `json:"orphaned"`
		LookedUp     int   `json:"looked_up"`
		UndoInvoked  int   `json:"undo_invoked"`
		UndoClosed   int   `json:"undo_closed"`
		Rung         int   `json:"rung"`
		NeedSomebody int   `json:"need_somebody"`
		Oldest       int64 `json:"oldest_seconds"`
	} `json:"calls"`
	Runs struct {
		Driven        int `json:"driven"`
		Started       int `json:"started"`
		WithoutDriver int `json:"without_driver"`
	} `json:"runs"`
	Unreadable []struct {
		RunID  string `json:"run_id"`
		CallID string `json:"call_id"`
	} `json:"unreadable"`
	WithoutDriver []struct {
		Tenant    string    `json:"tenant"`
		RunID     string    `json:"run_id"`
		Execution string    `json:"execution"`
		State     string    `json:"state"`
		Since     time.Time `json:"since"`
	} `json:"without_driver"`
}

// scheduled is what EventBridge sends on a schedule.
const scheduled = `{"version":"0","id":"1","detail-type":"Scheduled Event","source":"aws.events","account":"000000000000","time":"2026-11-29T12:00:00Z","region":"us-east-1","resources":[],"detail":{}}`

// sweepOnce makes one sweep and returns what it reports.
func sweepOnce(ctx context.Context) (sweepReport, error) { return sweepFor(ctx, []byte(scheduled)) }

// sweepFor makes one sweep because of an event.
func sweepFor(ctx context.Context, event []byte) (report sweepReport, err error) {
	out, err := lambdaClient().Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String(system.Names.Function(names.Sweeper)), Payload: event})
	if err != nil {
		return report, err
	}
	if out.FunctionError != nil {
		return report, fmt.Errorf("%s: %s", *out.FunctionError, out.Payload)
	}
	return report, json.Unmarshal(out.Payload, &report)
}

// sweep makes that many sweeps at once and returns what they report.
func sweep(t *testing.T, n int) []sweepReport {
	t.Helper()
	reports, errs := make([]sweepReport, n), make([]error, n)
	var group sync.WaitGroup
	for i := range reports {
		group.Go(func() { reports[i], errs[i] = sweepOnce(t.Context()) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return reports
}

// sweeping sweeps until the test and its subtests are over, always two at once.
func sweeping(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			pause := time.NewTicker(3 * time.Second)
			defer pause.Stop()
			for ctx.Err() == nil {
				if _, err := sweepOnce(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("sweep: %v", err)
				}
				select {
				case <-pause.C:
				case <-ctx.Done():
				}
			}
		})
	}
	t.Cleanup(func() { cancel(); group.Wait() })
}

// runView is what the operator's API says of a run and of its driver.
type runView struct {
	ID          string `json:"id"`
	Status      string `json:"status"`
	Generation  int    `json:"generation"`
	Driver      string `json:"driver"`
	DriverState string `json:"driver_state"`
	WhatToDo    string `json:"what_to_do"`
	WaitingOn   []struct {
		Key string `json:"key"`
	} `json:"waiting_on"`
}

// view returns the run as the API shows it; ok is false if there is none.
func view(t *testing.T, run string) (v runView, ok bool) {
	t.Helper()
	status, text := operator(t, "dev::ada", http.MethodGet, "/v1/runs/"+run, nil)
	if status == http.StatusNotFound {
		return v, false
	}
	if err := json.Unmarshal(text, &v); err != nil || status != http.StatusOK {
		t.Fatalf("%d, %v: %s", status, err, text)
	}
	return v, true
}

// unlooked keeps apart the lists, which look at the drivers of all runs, and the
// requests that a fault waits for, which are counted by the run that they name.
var unlooked sync.RWMutex

// undriven returns the run as it stands in the list of runs without a driver; ok
// is false if it does not.
func undriven(t *testing.T, run string) (v runView, ok bool) {
	t.Helper()
	unlooked.Lock()
	defer unlooked.Unlock()
	for cursor := ""; ; {
		status, text := operator(t, "dev::ada", http.MethodGet, "/v1/runs?driver=missing&limit=50&cursor="+url.QueryEscape(cursor), nil)
		var page struct {
			Items      []runView `json:"items"`
			NextCursor string    `json:"next_cursor"`
		}
		if err := json.Unmarshal(text, &page); err != nil || status != http.StatusOK {
			t.Fatalf("%d, %v: %s", status, err, text)
		}
		if i := slices.IndexFunc(page.Items, func(v runView) bool { return v.ID == run }); i >= 0 {
			return page.Items[i], true
		}
		if cursor = page.NextCursor; cursor == "" {
			return v, false
		}
	}
}

// stillListed reports whether the run's call is in the list of what needs somebody.
func stillListed(t *testing.T, run string) bool {
	t.Helper()
	unlooked.Lock()
	defer unlooked.Unlock()
	return listed(t, run, "")
}

// driven is what a start or a resumption is answered with.
type driven struct {
	Run     runView `json:"run"`
	Started bool    `json:"started"`
	Code    string  `json:"code"`
}

// drive sends a request about a driver and returns its answer, whatever it is.
func drive(t *testing.T, path string, body any) (status int, d driven) {
	t.Helper()
	status, text := operator(t, "dev::ada", http.MethodPost, path, body)
	if err := json.Unmarshal(text, &d); err != nil && status < http.StatusInternalServerError {
		t.Fatalf("%d, %v: %s", status, err, text)
	}
	return status, d
}

// begin starts a run over HTTP and returns it.
func begin(t *testing.T, input string) runView {
	t.Helper()
	status, d := drive(t, "/v1/runs", json.RawMessage(input))
	if status != http.StatusCreated || !d.Started {
		t.Fatalf("%d: %+v", status, d)
	}
	return d.Run
}

// arnOf returns the ARN of the machine's execution of that name.
func arnOf(name string) string {
	return strings.Replace(machineARN(), ":stateMachine:", ":execution:", 1) + ":" + name
}

// parked waits until the execution's last event is that it waits for a person.
func parked(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the run is parked", func() bool { return lastEvent(t, arnOf(name)) == types.HistoryEventTypeTaskSubmitted })
}

func stop(t *testing.T, name string) {
	t.Helper()
	if _, err := machines().StopExecution(t.Context(), &sfn.StopExecutionInput{ExecutionArn: aws.String(arnOf(name))}); err != nil {
		t.Fatal(err)
	}
}

// doubtful is an account whose credit arrives, and of which nobody can tell so
// but a person.
func doubtful(run string) string { return run + "-lose-answer-lookup-down" }

// settle has a person say that the run's doubtful call took effect, until the
// answer says so.
func settle(t *testing.T, run string) {
	t.Helper()
	eventually(t, "the call is unknown", func() bool {
		status, _ := operator(t, "dev::ada", http.MethodGet, callPath(run), nil)
		return status == http.StatusOK && show(t, run).Status != "started"
	})
	for range 10 {
		s := show(t, run)
		if s.Status == "completed" {
			return
		}
		status, text := operator(t, "dev::ada", http.MethodPost, callPath(run, "resolve"),
			map[string]any{"outcome": "completed", "reason": "seen in billing", "expected_version": s.Version}, "Idempotency-Key", run)
		if status == http.StatusOK {
			return
		}
		if status < http.StatusInternalServerError {
			t.Fatalf("%d: %s", status, text)
		}
	}
	t.Fatal("the decision is not heard of")
}

// finished waits until the run has succeeded; it takes as long as a driver that
// is missing may be missing, and some more.
func finished(t *testing.T, run string) runView {
	t.Helper()
	var v runView
	poll(t, 100*time.Second, 100*time.Millisecond, "the run "+run+" ends", func() bool {
		v, _ = view(t, run)
		return v.Status == "succeeded" || v.Status == "failed"
	})
	if v.Status != "succeeded" {
		t.Errorf("run %s has %s", run, v.Status)
	}
	return v
}

// paidOnce requires that the account was credited once, whoever drove the run.
func paidOnce(t *testing.T, run, account string) {
	t.Helper()
	if got := credits(t, account); got != 1 {
		t.Errorf("effects %d, want 1", got)
	}
	if e := keyEffects(t, run+":call_1"); e.Credits != 1 || e.Voids != 0 {
		t.Errorf("under the call's key: %+v", e)
	}
}

// endsAs requires that the execution has succeeded with one of these words of the
// planner's.
func endsAs(t *testing.T, name string, next ...string) {
	t.Helper()
	status, output := endOf(t, arnOf(name))
	var end struct {
		Next string `json:"next"`
	}
	if err := json.Unmarshal([]byte(output), &end); err != nil || status != "SUCCEEDED" || !slices.Contains(next, end.Next) {
		t.Errorf("execution %s: %s %s, want one of %v", name, status, output, next)
	}
}

// allWays are the ways in which a request can go wrong on its way, and its
// sender with it.
var allWays = []faults.Effect{faults.DropRequest, faults.DropAnswer, faults.KillCallerBefore, faults.KillCallerAfter}

// requestsFor counts the requests of any service that a function sends about the
// run while do runs.
func requestsFor(t *testing.T, caller, run string, do func()) int {
	t.Helper()
	unlooked.RLock()
	defer unlooked.RUnlock()
	id, err := system.Faults.Arm(faults.Rule{Caller: caller, Contains: run, Nth: 1_000_000, Effect: faults.DropAnswer})
	if err != nil {
		t.Fatal(err)
	}
	do()
	return takeOut(t, id).Matches
}

// takeOut disarms the rule and returns what it saw.
func takeOut(t *testing.T, id string) faults.ArmedRule {
	t.Helper()
	rules := system.Faults.Rules()
	i := slices.IndexFunc(rules, func(r faults.ArmedRule) bool { return r.ID == id })
	if i < 0 {
		t.Fatal("the rule is gone")
	}
	if err := system.Faults.Disarm(id); err != nil {
		t.Fatal(err)
	}
	return rules[i]
}

// atRequest makes do meet the effect at the n-th request that the function sends
// about the run, and requires that it did.
func atRequest(t *testing.T, caller, run string, nth int, effect faults.Effect, do func()) {
	t.Helper()
	unlooked.RLock()
	defer unlooked.RUnlock()
	id, err := system.Faults.Arm(faults.Rule{Caller: caller, Contains: run, Nth: nth, Effect: effect})
	if err != nil {
		t.Fatal(err)
	}
	do()
	if hits := takeOut(t, id).Hits; hits != 1 {
		t.Errorf("the fault struck %d times", hits)
	}
}

func machineARN() string { return stack.MachineARN(system.Names.Machine) }
