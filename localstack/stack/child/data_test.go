package child_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/onceward/onceward/localstack/dynamodb"
	"github.com/onceward/onceward/localstack/process"
	"github.com/onceward/onceward/localstack/stack/child"
)

// Proves: R36, R92, R93, R119
func TestEverythingKilledComesBackWithItsDataAndGoesOn(t *testing.T) {
	t.Parallel()
	for _, kind := range dynamodb.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			if _, err := dynamodb.FindKind(root, kind); err != nil && os.Getenv("CI") == "" {
				t.Skipf("skipped for want of an engine: %v", err)
			}
			survive(t, startStack(t, filepath.Join(t.TempDir(), "data"), "--engine", string(kind)))
		})
	}
}

// survive kills s with one run ended, one parked and one in the middle of a
// tool's call whose effect is made, and lets them go on.
func survive(t *testing.T, s *child.Stack) {
	t.Helper()
	ended := startRun(t, s, "ended", "A-plain")
	if status, output := endOf(t, s, ended); status != types.ExecutionStatusSucceeded {
		t.Fatalf("%s: %s", status, output)
	}
	waiting := startRun(t, s, "waiting", "A-lose-answer-lookup-down")
	eventually(t, "the run is parked", func() bool { return parked(t, s, waiting) })
	calling := startRun(t, s, "calling", "A-hang")
	eventually(t, "the effect is made", func() bool { return effects(t, s, "A-hang").Credits == 1 })
	var before call
	operator(t, s, http.MethodGet, "waiting", "", nil, &before)

	killAndCheck(t, s)
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}

	if status, output := describe(t, s, ended); status != types.ExecutionStatusSucceeded || !strings.Contains(output, "took effect") {
		t.Errorf("the run that had ended: %s: %s", status, output)
	}
	if status, output := endOf(t, s, calling); status != types.ExecutionStatusSucceeded || !strings.Contains(output, "took effect") {
		t.Errorf("the run in the middle of a call: %s: %s", status, output)
	}
	if !parked(t, s, waiting) {
		t.Error("the parked run waits no more, and nobody has decided")
	}
	var now call
	operator(t, s, http.MethodGet, "waiting", "", nil, &now)
	if now != before || now.Status != "indeterminate" {
		t.Errorf("the call is %+v, was %+v", now, before)
	}
	operator(t, s, http.MethodPost, "waiting", "/resolve", map[string]any{"outcome": "completed", "reason": "seen in billing", "expected_version": now.Version}, &struct{}{})
	if status, output := endOf(t, s, waiting); status != types.ExecutionStatusSucceeded || !strings.Contains(output, "took effect") {
		t.Errorf("the parked run: %s: %s", status, output)
	}
	for account, want := range map[string]int{"A-plain": 1, "A-hang": 1, "A-lose-answer-lookup-down": 1} {
		if got := effects(t, s, account).Credits; got != want {
			t.Errorf("%s: %d effects, want %d", account, got, want)
		}
	}

	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("stopped: %v", err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, execution := range []string{ended, waiting, calling} {
		if status, _ := describe(t, s, execution); status != types.ExecutionStatusSucceeded {
			t.Errorf("after a stop in good order %s is %s", execution, status)
		}
	}
}

// killAndCheck kills s and demands that nothing of it is left.
func killAndCheck(t *testing.T, s *child.Stack) {
	t.Helper()
	family, err := process.Family(s.PID())
	if err != nil {
		t.Fatal(err)
	}
	if len(family) < 5 {
		t.Errorf("only %d processes: want the stack, engine, billing service, and sandboxes of planner and tools at least", len(family))
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	alive, err := process.Alive(family)
	if err != nil || len(alive) > 0 {
		t.Errorf("alive after the kill: %v, %v", alive, err)
	}
}

func TestSecondStackOnTheSameDataIsRefused(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := startStack(t, data)
	if got := about(t, s).Data; got != data {
		t.Errorf("it says that its data is in %s", got)
	}
	var said bytes.Buffer
	second := exec.CommandContext(t.Context(), program, "up", "--port", "0", "--data", data)
	second.Stderr = &said
	if err := second.Run(); err == nil || !strings.Contains(said.String(), "another stack is using this data directory") {
		t.Errorf("a second stack: %v: %s", err, said.String())
	}
	if err := s.Restart(t.Context()); !errors.Is(err, child.ErrRunning) {
		t.Errorf("starting what runs: %v", err)
	}
	if got := about(t, s).Data; got != data {
		t.Error("the first stack was disturbed")
	}
}
