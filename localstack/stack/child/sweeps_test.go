package child_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/onceward/onceward/localstack/faults"
	"github.com/onceward/onceward/localstack/stack/child"
)

// The operator's bells are all lost, and nobody asks about the call again: the
// schedule's sweep wakes the run.
func TestScheduledSweepWakesARunWhoseBellWasLost(t *testing.T) {
	t.Parallel()
	s := startStack(t, filepath.Join(t.TempDir(), "data"))
	execution := startRun(t, s, "unheard", "A-lose-answer-lookup-down")
	eventually(t, "the run is parked", func() bool { return parked(t, s, execution) })
	arm(t, s, faults.Rule{Service: faults.StepFunctions, Operation: "SendTaskSuccess", Caller: about(t, s).Functions["operator"], Nth: 1, Times: 100, Effect: faults.DropRequest})
	var shown call
	operator(t, s, http.MethodGet, "unheard", "", nil, &shown)
	var decided struct {
		RunWaiting string `json:"run_waiting"`
	}
	operator(t, s, http.MethodPost, "unheard", "/resolve", map[string]any{"outcome": "completed", "reason": "seen in billing", "expected_version": shown.Version}, &decided)
	if decided.RunWaiting != "not woken yet" {
		t.Errorf("its run is %s", decided.RunWaiting)
	}
	if status, output := endOf(t, s, execution); status != types.ExecutionStatusSucceeded || !strings.Contains(output, "took effect") {
		t.Errorf("%s: %s", status, output)
	}
	if n := effects(t, s, "A-lose-answer-lookup-down").Credits; n != 1 {
		t.Errorf("%d effects", n)
	}
	hangUp(t, s)
}

// The planner is away from the beginning, so that the run ends before anything of
// it is stored: the news of its end has it listed, and a person resumes it.
func TestRunThatWasAcceptedAndNeverPlannedIsListedAndCanBeResumed(t *testing.T) {
	t.Parallel()
	s := startStack(t, filepath.Join(t.TempDir(), "data"))
	arm(t, s, faults.Rule{Service: faults.Lambda, Operation: "Invoke", Function: about(t, s).Functions["planner"], Nth: 1, Times: 100, Effect: faults.DropRequest})
	if status, output := endOf(t, s, startRun(t, s, "unplanned", "A-plain")); status != types.ExecutionStatusFailed {
		t.Fatalf("%s: %s", status, output)
	}
	var listed struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	}
	eventually(t, "the run is listed without a driver", func() bool {
		plane(t, s, http.MethodGet, "/v1/runs?driver=missing", nil, &listed)
		return len(listed.Items) == 1 && listed.Items[0].ID == "unplanned"
	})
	local(t, s, http.MethodDelete, nil)
	var resumed struct {
		Run struct {
			Driver string `json:"driver"`
		} `json:"run"`
	}
	plane(t, s, http.MethodPost, "/v1/runs/unplanned/resume", struct{}{}, &resumed)
	machine := about(t, s).Machines[about(t, s).StateMachine]
	execution := strings.Replace(machine, ":stateMachine:", ":execution:", 1) + ":" + resumed.Run.Driver
	if status, output := endOf(t, s, execution); status != types.ExecutionStatusSucceeded || effects(t, s, "A-plain").Credits != 1 {
		t.Errorf("%s: %s, %d effects", status, output, effects(t, s, "A-plain").Credits)
	}
}

func arm(t *testing.T, s *child.Stack, rule faults.Rule) {
	t.Helper()
	text, err := json.Marshal(rule)
	if err != nil {
		t.Fatal(err)
	}
	local(t, s, http.MethodPost, text)
}

// local sends a request to the stack's faults.
func local(t *testing.T, s *child.Stack, method string, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+"/_local/faults", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if said, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("%s faults: %s: %s, %v", method, resp.Status, said, err)
	}
}

// hangUp has many clients reset their connections before they are answered, as
// clients that are killed do, and the stack go on.
func hangUp(t *testing.T, s *child.Stack) {
	t.Helper()
	address := strings.TrimPrefix(s.URL(), "http://")
	for range 100 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatalf("nobody listens any more: %v", err)
		}
		if tcp, is := conn.(*net.TCPConn); is {
			_ = tcp.SetLinger(0)
		}
		fmt.Fprintf(conn, "GET /v1/tool-executions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer dev::ada\r\n\r\n", address)
		_ = conn.Close()
	}
	var shown call
	operator(t, s, http.MethodGet, "unheard", "", nil, &shown)
}
