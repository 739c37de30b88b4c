package systemtest

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
)

// fullRun is a run of two turns, each with a read and a credit. The answer to
// the first credit is lost and its look-up is down, so that a person has to look.
type fullRun struct {
	id        string
	execution string

	// looked is called once, after a person has looked at the first call and
	// before anything is done about it.
	looked func(t *testing.T, key string)

	// decided is called once, when the person has been heard.
	decided func(t *testing.T)
}

// The calls of a full run that can have an effect.
var credited = []string{"call_1", "call_3"}

func (r *fullRun) input(t *testing.T) string {
	t.Helper()
	order := map[string]any{"order_id": "o-" + r.id}
	credit := func(account string) map[string]any {
		return map[string]any{"account_id": account, "amount_cents": 2500}
	}
	call := func(id, tool string, arguments map[string]any) map[string]any {
		return map[string]any{"id": id, "tool": tool, "arguments": arguments}
	}
	return encodeString(t, map[string]any{
		"run_id": r.id, "agent": "test", "principal": map[string]any{"subject": "customer-1", "permissions": []string{"credits:write"}},
		"script": map[string]any{"answer": "Done.", "turns": []any{
			map[string]any{"calls": []any{call("call_0", "find_order", order), call("call_1", "issue_credit", credit(r.id+"-lose-answer-lookup-down"))}},
			map[string]any{"calls": []any{call("call_2", "find_order", order), call("call_3", "issue_credit", credit(r.id))}},
		}},
	})
}

func (r *fullRun) key(call string) string { return r.id + ":" + call }

func (r *fullRun) play(t *testing.T) { t.Helper(); r.follow(t, r.input(t)) }

// follow starts a run and follows it to its end. Whenever it waits for somebody,
// a person looks into the billing service and says what there is.
func (r *fullRun) follow(t *testing.T, input string) {
	t.Helper()
	r.execution = startRun(t, r.id, input)
	var since time.Time // when the run was to go on
	poll(t, time.Minute, 50*time.Millisecond, "the run "+r.id+" ends", func() bool {
		switch last := lastEvent(t, r.execution); {
		case ends(last):
			return true
		case last != types.HistoryEventTypeTaskSubmitted:
		case time.Since(since) > 5*time.Second:
			r.person(t)
			since = time.Now()
		}
		return false
	})
}

func ends(event types.HistoryEventType) bool {
	switch event { //nolint:exhaustive // these end an execution, all the others don't
	case types.HistoryEventTypeExecutionSucceeded, types.HistoryEventTypeExecutionFailed, types.HistoryEventTypeExecutionTimedOut, types.HistoryEventTypeExecutionAborted:
		return true
	}
	return false
}

func lastEvent(t *testing.T, execution string) types.HistoryEventType {
	t.Helper()
	out, err := machines().GetExecutionHistory(t.Context(), &sfn.GetExecutionHistoryInput{ExecutionArn: &execution, ReverseOrder: true, MaxResults: 1})
	if err != nil || len(out.Events) == 0 {
		t.Fatalf("history of %s: %v", execution, err)
	}
	return out.Events[0].Type
}

// person settles what the run waits on.
func (r *fullRun) person(t *testing.T) {
	t.Helper()
	for _, call := range r.page(t).WaitingOn {
		seen := showKey(t, call.Key)
		if r.looked != nil {
			r.looked(t, call.Key)
			r.looked = nil
		}
		r.lookUp(t, call.Key)
		body := map[string]any{"outcome": "failed", "reason": r.id + ": billing has nothing", "expected_version": seen.Version}
		if keyEffects(t, call.Key).Credits > 0 {
			body["outcome"], body["reason"] = "completed", r.id+": seen in billing"
		}
		var decided struct {
			Record     shown  `json:"record"`
			RunWaiting string `json:"run_waiting"`
		}
		untilHeard(t, call.Key, "resolve", body, &decided)
		if decided.Record.Status != body["outcome"] {
			t.Errorf("%s was resolved %s and the answer says %s", call.Key, body["outcome"], decided.Record.Status)
		}
		if decided.RunWaiting == "not woken yet" {
			t.Logf("%s is settled and its run not woken yet: any further request on it does that", call.Key)
			r.lookUp(t, call.Key)
		}
		if r.decided != nil {
			r.decided(t)
			r.decided = nil
		}
	}
}

// lookUp asks the call's look-up, once. It may fail; it may not tell what isn't so.
func (r *fullRun) lookUp(t *testing.T, key string) {
	t.Helper()
	_, text, err := tryOperator(t.Context(), "dev::ada", http.MethodPost, keyPath(key, "reconcile"), map[string]any{"reason": r.id})
	if err != nil {
		return
	}
	var said struct {
		Record *shown `json:"record"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		t.Errorf("reconcile %s: %v: %s", key, err, text)
	}
	if said.Record == nil {
		return
	}
	effects := keyEffects(t, key)
	if said.Record.open() {
		effects.Voids = 0 // the call stands as it is until its undo has ended
	}
	agrees(t, "reconcile's answer on "+key, said.Record.Status, said.Record.Effect, effects)
}

// runPage is what the operator's API says of a run.
type runPage struct {
	Status    string `json:"status"`
	WaitingOn []struct {
		Key string `json:"key"`
	} `json:"waiting_on"`
	Turns []struct {
		Closed bool `json:"closed"`
		Calls  []struct {
			ID     string `json:"id"`
			Status string `json:"status"`
			Effect string `json:"effect"`
			Heard  string `json:"heard"`
		} `json:"calls"`
	} `json:"turns"`
}

func (r *fullRun) page(t *testing.T) runPage {
	t.Helper()
	status, text := operator(t, "dev::ada", http.MethodGet, "/v1/runs/"+r.id, nil)
	var page runPage
	if err := json.Unmarshal(text, &page); err != nil || status != http.StatusOK {
		t.Fatalf("run %s: %d, %v: %s", r.id, status, err, text)
	}
	return page
}

func keyPath(key string, verb ...string) string {
	return strings.Join(append([]string{"/v1/tool-executions", url.PathEscape(key)}, verb...), "/")
}

func showKey(t *testing.T, key string) shown {
	t.Helper()
	status, text := operator(t, "dev::ada", http.MethodGet, keyPath(key), nil)
	var s shown
	if err := json.Unmarshal(text, &s); err != nil || status != http.StatusOK {
		t.Fatalf("show %s: %d, %v: %s", key, status, err, text)
	}
	return s
}

// untilHeard decides as people do: the same request again until it is answered.
func untilHeard(t *testing.T, key, verb string, body map[string]any, answer any) {
	t.Helper()
	var errs []error
	for range 10 {
		status, text, err := tryOperator(t.Context(), "dev::ada", http.MethodPost, keyPath(key, verb), body, "Idempotency-Key", verb+"-"+key)
		if err == nil && status == http.StatusOK {
			if err := json.Unmarshal(text, answer); err != nil {
				t.Fatalf("%s %s: %v: %s", verb, key, err, text)
			}
			return
		}
		errs = append(errs, err, errors.New(string(text)))
		if err == nil && status < http.StatusInternalServerError {
			break
		}
	}
	t.Fatalf("%s %s: %v", verb, key, errors.Join(errs...))
}
