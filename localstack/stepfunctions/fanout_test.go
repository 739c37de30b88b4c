package stepfunctions

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// mapOver is a machine that calls f for each item of its input.
func mapOver(fields, task string) string {
	return `{"StartAt":"M","States":{"M":{"Type":"Map",` + fields + `"ItemProcessor":{"ProcessorConfig":{"Mode":"INLINE"},"StartAt":"T","States":{
		"T":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName":"f","Payload":{"i.$":"$$.Map.Item.Index","v.$":"$$.Map.Item.Value"}},` + task + `"ResultSelector":{"p.$":"$.Payload"},"End":true}}},"End":true}}}`
}

// gauge counts how many calls run at once.
type gauge struct {
	mu           sync.Mutex
	active, most int
	do           func(ctx context.Context, index int) (Invoked, error)
}

func (g *gauge) Invoke(ctx context.Context, call Invocation) (Invoked, error) {
	g.mu.Lock()
	g.active++
	g.most = max(g.most, g.active)
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.active--
		g.mu.Unlock()
	}()
	var index int
	if _, err := fmt.Sscanf(string(call.Payload), `{"i":%d`, &index); err != nil {
		return Invoked{}, err
	}
	return g.do(ctx, index)
}

func numbers(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = strconv.Itoa(i * 10)
	}
	return "[" + strings.Join(items, ",") + "]"
}

func TestMapRunsAtMostMaxConcurrencyAtOnceAndKeepsTheOrder(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fields string
		input  string
		items  int
		most   int
	}{
		"one":       {fields: `"MaxConcurrency":1,`, input: numbers(5), items: 5, most: 1},
		"three":     {fields: `"MaxConcurrency":3,`, input: numbers(10), items: 10, most: 3},
		"unlimited": {input: numbers(60), items: 60, most: 40},
		"zero":      {fields: `"MaxConcurrency":0,`, input: numbers(41), items: 41, most: 40},
		"a path":    {fields: `"MaxConcurrencyPath":"$.n","ItemsPath":"$.l",`, input: `{"n":2,"l":` + numbers(6) + `}`, items: 6, most: 2},
		"nothing":   {input: `[]`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &gauge{do: func(_ context.Context, index int) (Invoked, error) {
				time.Sleep(time.Duration(100-index) * time.Second) // in the bubble: later ones are faster
				return answerJSON(strconv.Itoa(index))
			}}
			bubble(t, g, nil, func(t *testing.T, r *Runner) {
				out := run(t, r, mapOver(test.fields, ""), test.input)
				want := make([]string, test.items)
				for i := range want {
					want[i] = fmt.Sprintf(`{"p":%d}`, i)
				}
				if out.Output != "["+strings.Join(want, ",")+"]" || g.most != test.most {
					t.Errorf("%s %s, %d at once, want %d", out.Output, out.Cause, g.most, test.most)
				}
			})
		})
	}
}

func TestFailedIterationAbortsItsSiblings(t *testing.T) {
	t.Parallel()
	var ranOn atomic.Int64
	g := &gauge{do: func(ctx context.Context, index int) (Invoked, error) {
		if index == 1 {
			time.Sleep(time.Second)
			return lambdaError("Boom", "x")
		}
		select {
		case <-time.After(time.Minute):
			ranOn.Add(1)
		case <-ctx.Done():
		}
		return answerJSON(`{}`)
	}}
	bubble(t, g, nil, func(t *testing.T, r *Runner) {
		began := time.Now()
		out := run(t, r, mapOver("", ""), `[0,1,2]`)
		if out.Error != "Boom" || time.Since(began) != time.Second {
			t.Errorf("%s after %s", out.Error, time.Since(began))
		}
		all := strings.Split(strings.TrimSpace(events(t, r, out.ExecutionARN)), "\n")
		failed := strings.Fields(all[16])[0]
		want := []string{
			"MapIterationFailed", "TaskStateAborted", "MapIterationAborted", "TaskStateAborted", "MapIterationAborted", "TaskStateAborted", "MapStateFailed",
		}
		var got []string
		for _, line := range all[16:23] {
			got = append(got, strings.Fields(line)[2])
			if strings.Fields(line)[1] != strconv.Itoa(16) {
				t.Errorf("event %q does not follow the failure", line)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", failed, diff)
		}
		if all[23] != "24 23 ExecutionFailed" || len(all) != 24 {
			t.Errorf("last event %s", all[len(all)-1])
		}
		time.Sleep(time.Hour)
		if ranOn.Load() != 2 {
			t.Errorf("%d of the siblings' functions ran on", ranOn.Load())
		}
	})
}

func TestMapThatIsAbortedKillsTheTokensOfItsSiblings(t *testing.T) {
	t.Parallel()
	d := &doorbell{}
	definition := `{"StartAt":"M","States":{"M":{"Type":"Map","ItemProcessor":{"StartAt":"C","States":{
		"C":{"Type":"Choice","Choices":[{"Variable":"$","NumericEquals":0,"Next":"T"}],"Default":"W"},
		"W":{"Type":"Wait","Seconds":5,"Next":"F"},"F":{"Type":"Fail","Error":"E"},
		"T":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken","Parameters":{"FunctionName":"f","Payload":{"t.$":"$$.Task.Token"}},"End":true}}},
		"Catch":[{"ErrorEquals":["E"],"Next":"Wait"}],"End":true},"Wait":{"Type":"Wait","Seconds":60,"End":true}}}`
	bubble(t, d, nil, func(t *testing.T, r *Runner) {
		arn := start(t, r, create(t, r, definition), "e", `[0,1]`)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if out := describe(t, r, arn); out.Status != Running {
			t.Fatalf("%s", out.Status)
		}
		_, err := r.SendTaskSuccess(success(d.token(0), `{}`))
		wantAPIError(t, err, "TaskTimedOut")
		finish(t, r, arn)
	})
}

// The expected events are those that AWS was recorded to give.
func TestMapHistoryHasTheIdsOfAWS(t *testing.T) {
	t.Parallel()
	breaking := `{"StartAt":"M","States":{"M":{"Type":"Map","MaxConcurrency":1,"ItemProcessor":{"StartAt":"C","States":{
		"C":{"Type":"Choice","Choices":[{"Variable":"$","NumericEquals":3,"Next":"Break"}],"Default":"P"},
		"P":{"Type":"Pass","End":true},"Break":{"Type":"Fail","Error":"SomeFailure"}}},%s"End":true}%s}}`
	tests := map[string]struct{ definition, input, want string }{
		"break": {fmt.Sprintf(breaking, "", ""), `[1,3,5]`, `1 0 ExecutionStarted
2 0 MapStateEntered
3 2 MapStateStarted
4 3 MapIterationStarted
5 4 ChoiceStateEntered
6 5 ChoiceStateExited
7 6 PassStateEntered
8 7 PassStateExited
9 8 MapIterationSucceeded
10 8 MapIterationStarted
11 10 ChoiceStateEntered
12 11 ChoiceStateExited
13 12 FailStateEntered
14 13 MapIterationFailed
15 13 MapStateFailed
16 15 ExecutionFailed
`},
		"caught": {fmt.Sprintf(breaking, `"Catch":[{"ErrorEquals":["States.ALL"],"Next":"Z"}],`, `,"Z":{"Type":"Pass","End":true}`), `[3]`, `1 0 ExecutionStarted
2 0 MapStateEntered
3 2 MapStateStarted
4 3 MapIterationStarted
5 4 ChoiceStateEntered
6 5 ChoiceStateExited
7 6 FailStateEntered
8 7 MapIterationFailed
9 7 MapStateFailed
10 9 MapStateExited
11 10 PassStateEntered
12 11 PassStateExited
13 12 ExecutionSucceeded
`},
		"retried": {fmt.Sprintf(breaking, `"Retry":[{"ErrorEquals":["States.ALL"],"MaxAttempts":1}],`, ""), `[3]`, `1 0 ExecutionStarted
2 0 MapStateEntered
3 2 MapStateStarted
4 3 MapIterationStarted
5 4 ChoiceStateEntered
6 5 ChoiceStateExited
7 6 FailStateEntered
8 7 MapIterationFailed
9 7 MapStateStarted
10 9 MapIterationStarted
11 10 ChoiceStateEntered
12 11 ChoiceStateExited
13 12 FailStateEntered
14 13 MapIterationFailed
15 13 MapStateFailed
16 15 ExecutionFailed
`},
		"success": {fmt.Sprintf(breaking, "", ""), `[1]`, `1 0 ExecutionStarted
2 0 MapStateEntered
3 2 MapStateStarted
4 3 MapIterationStarted
5 4 ChoiceStateEntered
6 5 ChoiceStateExited
7 6 PassStateEntered
8 7 PassStateExited
9 8 MapIterationSucceeded
10 9 MapStateSucceeded
11 9 MapStateExited
12 11 ExecutionSucceeded
`},
		"empty": {fmt.Sprintf(breaking, "", ""), `[]`, `1 0 ExecutionStarted
2 0 MapStateEntered
3 2 MapStateStarted
4 3 MapStateSucceeded
5 3 MapStateExited
6 5 ExecutionSucceeded
`},
		"no list": {fmt.Sprintf(breaking, "", ""), `{}`, "1 0 ExecutionStarted\n2 0 MapStateEntered\n3 2 ExecutionFailed\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, &scripted{}, nil, func(t *testing.T, r *Runner) {
				out := run(t, r, test.definition, test.input)
				if diff := cmp.Diff(test.want, events(t, r, out.ExecutionARN)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestMapWhoseResultsAreTooLargeIsCaughtByNameOnly(t *testing.T) {
	t.Parallel()
	large := `"` + strings.Repeat("x", 100_000) + `"`
	g := &gauge{do: func(context.Context, int) (Invoked, error) { return answerJSON(large) }}
	for catch, want := range map[string]Status{"States.DataLimitExceeded": Succeeded, "States.ALL": Failed, "States.TaskFailed": Failed} {
		t.Run(catch, func(t *testing.T) {
			t.Parallel()
			definition := mapWithCatch(catch)
			bubble(t, g, nil, func(t *testing.T, r *Runner) {
				if out := run(t, r, definition, `[1,2,3]`); out.Status != want {
					t.Errorf("%s %s", out.Status, out.Error)
				}
			})
		})
	}
}

func mapWithCatch(name string) string {
	return strings.TrimSuffix(mapOver(`"Catch":[{"ErrorEquals":["`+name+`"],"ResultPath":null,"Next":"Z"}],`, ""), "}}") + `,"Z":{"Type":"Succeed"}}}`
}

func TestNestedMapSeesItsOwnItem(t *testing.T) {
	t.Parallel()
	definition := `{"StartAt":"O","States":{"O":{"Type":"Map","ItemProcessor":{"StartAt":"I","States":{"I":{"Type":"Map","ItemSelector":{"outer.$":"$","inner.$":"$$.Map.Item.Value","at.$":"$$.Map.Item.Index"},
		"ItemProcessor":{"StartAt":"P","States":{"P":{"Type":"Pass","Parameters":{"in.$":"$.inner","again.$":"$$.Map.Item.Value"},"End":true}}},"End":true}}},"End":true}}}`
	bubble(t, &scripted{}, nil, func(t *testing.T, r *Runner) {
		out := run(t, r, definition, `[[1],[2,3]]`)
		if out.Output != `[[{"again":1,"in":1}],[{"again":2,"in":2},{"again":3,"in":3}]]` {
			t.Errorf("%s %s", out.Output, out.Cause)
		}
	})
}
