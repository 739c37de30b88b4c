package lambda_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/localstack/lambda"
)

func TestIdleSandboxIsReusedAndColdStartIsReported(t *testing.T) {
	t.Parallel()
	s := start(t, lambda.Options{})
	first := invoke(t, s, order{Do: "facts"})
	second := invoke(t, s, order{Do: "facts"})
	a, b := factsOf(t, first), factsOf(t, second)
	if a.PID != b.PID {
		t.Errorf("two processes %s and %s for two calls in turn", a.PID, b.PID)
	}
	if a.RequestID == b.RequestID || a.RequestID != first.RequestID || b.RequestID != second.RequestID {
		t.Errorf("request ids %q %q, told %q %q", a.RequestID, b.RequestID, first.RequestID, second.RequestID)
	}
	if !bytes.Contains(first.LogTail, []byte("Init Duration: ")) || bytes.Contains(second.LogTail, []byte("Init Duration: ")) {
		t.Errorf("reports:\n%s\n%s", first.LogTail, second.LogTail)
	}
}

func TestSixteenCallsAtOnceRunInSixteenSandboxesWithTheirOwnKeys(t *testing.T) {
	t.Parallel()
	s := start(t, lambda.Options{})
	bell := newDoorbell(t)
	results := make([]lambda.Result, 16)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() { results[i] = invoke(t, s, bell.order()) })
	}
	// All sixteen are inside their handlers before the first may go on.
	var conns []io.Writer
	for range results {
		conns = append(conns, bell.wait(t))
	}
	for _, conn := range conns {
		if _, err := io.WriteString(conn, "go\n"); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	pids, keys := map[string]bool{}, map[string]bool{}
	for _, r := range results {
		f := factsOf(t, r)
		pids[f.PID], keys[f.AccessKey] = true, true
		if got := s.Caller(f.AccessKey); got != "f" {
			t.Errorf("key %s belongs to %q", f.AccessKey, got)
		}
	}
	if len(pids) != 16 || len(keys) != 16 {
		t.Errorf("%d processes, %d keys, want 16 each", len(pids), len(keys))
	}
	again := factsOf(t, invoke(t, s, order{Do: "facts"}))
	if !pids[again.PID] {
		t.Error("a seventeenth process though sixteen were idle")
	}
	s.Close()
	if got := s.Caller(again.AccessKey); got != "" {
		t.Errorf("the key of a dead sandbox still belongs to %q", got)
	}
}

func TestCallsBeyondTheLimitAreThrottledUnentered(t *testing.T) {
	t.Parallel()
	s := start(t, lambda.Options{Concurrency: 1})
	bell := newDoorbell(t)
	done := make(chan lambda.Result, 1)
	go func() { done <- invoke(t, s, bell.order()) }()
	conn := bell.wait(t)
	_, err := s.Invoke(t.Context(), lambda.Invocation{Function: "f"})
	refused, ok := errors.AsType[*lambda.APIError](err)
	if !ok || refused.Code != "TooManyRequestsException" || refused.Status != 429 {
		t.Errorf("got %v", err)
	}
	if _, err := io.WriteString(conn, "go\n"); err != nil {
		t.Fatal(err)
	}
	<-done
	if r := invoke(t, s, order{}); r.FunctionError != "" {
		t.Errorf("after room was made: %s", r.Payload)
	}
}

func TestCallsBeyondTheSandboxesWaitAndTheirTimeBeginsLater(t *testing.T) {
	t.Parallel()
	s := start(t, lambda.Options{MaxSandboxes: 2, MaxStarting: 1})
	bell := newDoorbell(t)
	held := make(chan lambda.Result, 2)
	for range 2 {
		go func() { held <- invoke(t, s, bell.order()) }()
	}
	first, second := bell.wait(t), bell.wait(t)
	waiting := make(chan lambda.Result, 8)
	for range cap(waiting) {
		go func() { waiting <- invoke(t, s, order{Do: "facts"}) }()
	}
	for _, conn := range []io.Writer{first, second} {
		if _, err := io.WriteString(conn, "go\n"); err != nil {
			t.Fatal(err)
		}
	}
	pids := map[string]bool{factsOf(t, <-held).PID: true, factsOf(t, <-held).PID: true}
	for range cap(waiting) {
		f := factsOf(t, <-waiting)
		if !pids[f.PID] {
			t.Errorf("process %s is a third one", f.PID)
		}
		if f.Left < 59*time.Second {
			t.Errorf("%v left of a timeout of one minute", f.Left)
		}
	}
}

func TestCallsThatWaitForASandboxEndWithTheSupervisor(t *testing.T) {
	t.Parallel()
	s := start(t, lambda.Options{MaxSandboxes: 1})
	bell := newDoorbell(t)
	held := make(chan lambda.Result, 1)
	go func() { held <- invoke(t, s, bell.order()) }()
	bell.wait(t)
	waiting := make(chan error, 3)
	for range cap(waiting) {
		go func() {
			_, err := s.Invoke(t.Context(), lambda.Invocation{Function: "f"})
			waiting <- err
		}()
	}
	s.Close()
	for range cap(waiting) {
		if err := <-waiting; !errors.Is(err, lambda.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	checkFailure(t, <-held, "Runtime.ExitError", "RequestId: ID Error: Runtime exited with error: signal: killed")
}

func TestSandboxThatNobodyUsesIsKilledAndOneInUseIsNot(t *testing.T) {
	t.Parallel()
	s := start(t, lambda.Options{IdleTimeout: 30 * time.Millisecond})
	bell := newDoorbell(t)
	held := make(chan lambda.Result, 1)
	go func() { held <- invoke(t, s, bell.order()) }()
	busy := bell.wait(t)
	idle := factsOf(t, invoke(t, s, order{Do: "facts"}))
	gone := time.NewTicker(5 * time.Millisecond)
	defer gone.Stop()
	for s.Caller(idle.AccessKey) != "" {
		select {
		case <-gone.C:
		case <-time.After(10 * time.Second):
			t.Fatal("the idle sandbox lives on")
		}
	}
	if _, err := io.WriteString(busy, "go\n"); err != nil {
		t.Fatalf("the busy sandbox was killed: %v", err)
	}
	factsOf(t, <-held)
	if next := factsOf(t, invoke(t, s, order{Do: "facts"})); next.PID == idle.PID {
		t.Error("a killed sandbox answered")
	}
}

func TestSandboxSeesItsOwnSettingsAndNothingOfOurs(t *testing.T) {
	t.Setenv("ONCEWARD_SECRET_OF_THE_HOST", "x")
	f := function(t, "f")
	f.Env["COLOUR"] = "green"
	f.MemoryMB = 256
	f.Aliases = []string{"live"}
	s := start(t, lambda.Options{Endpoint: "http://127.0.0.1:4566"}, f)
	result, err := s.Invoke(t.Context(), lambda.Invocation{
		Function: "f:live", Payload: []byte(`{"do":"facts"}`), TraceID: "Root=1-5759e988-bd862e3fe1be46a994272793",
		ClientContext: `{"custom":{"who":"ann"}}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := factsOf(t, result)
	env := map[string]string{}
	for _, pair := range got.Env {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	for name, want := range map[string]string{
		"AWS_LAMBDA_FUNCTION_NAME": "f", "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
		"AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/f", "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:4566",
		"_HANDLER": "bootstrap", "LAMBDA_TASK_ROOT": filepath.Dir(f.Path), "COLOUR": "green", "PATH": os.Getenv("PATH"),
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	allowed := []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_EXECUTION_ENV", "AWS_LAMBDA_INITIALIZATION_TYPE",
		"AWS_LAMBDA_LOG_STREAM_NAME", "AWS_LAMBDA_RUNTIME_API", "HOME", "TMPDIR", "TZ", programVariable, "_X_AMZN_TRACE_ID",
		"AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_FUNCTION_VERSION", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "AWS_LAMBDA_LOG_GROUP_NAME",
		"AWS_REGION", "AWS_ENDPOINT_URL", "_HANDLER", "LAMBDA_TASK_ROOT", "COLOUR", "PATH",
	}
	for name := range env {
		if !slices.Contains(allowed, name) {
			t.Errorf("the sandbox sees %s", name)
		}
	}
	if got.ARN != "arn:aws:lambda:us-east-1:000000000000:function:f:live" || got.ClientContext["who"] != "ann" ||
		got.Trace != "Root=1-5759e988-bd862e3fe1be46a994272793" {
		t.Errorf("got %q %v %q", got.ARN, got.ClientContext, got.Trace)
	}
	if got.Left > time.Minute || got.Left < 30*time.Second {
		t.Errorf("%v left of a timeout of one minute", got.Left)
	}
}

func TestTimeoutKillsTheSandboxAndTheNextCallGetsAnother(t *testing.T) {
	t.Parallel()
	f := function(t, "f")
	f.Timeout = 1250 * time.Millisecond
	s := start(t, lambda.Options{}, f)
	bell := newDoorbell(t)
	done := make(chan lambda.Result, 1)
	go func() { done <- invoke(t, s, bell.order()) }()
	conn := bell.wait(t)
	r := <-done
	checkFailure(t, r, "Sandbox.Timedout", "RequestId: ID Error: Task timed out after 1.25 seconds")
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the process lives on")
	}
	for _, want := range []string{r.RequestID + " Task timed out after 1.25 seconds\nEND RequestId: " + r.RequestID, "Status: timeout"} {
		if !bytes.Contains(r.LogTail, []byte(want)) {
			t.Errorf("log lacks %q:\n%s", want, r.LogTail)
		}
	}
	if r := invoke(t, s, order{}); r.FunctionError != "" {
		t.Errorf("the next call: %s", r.Payload)
	}
}

func TestKillEndsOnlySandboxesThatRunAnInvocation(t *testing.T) {
	t.Parallel()
	other := function(t, "other")
	s := start(t, lambda.Options{}, function(t, "f"), other)
	bell := newDoorbell(t)
	done := make(chan lambda.Result, 2)
	for range 2 {
		go func() { done <- invoke(t, s, bell.order()) }()
	}
	busy, freed := bell.wait(t), bell.wait(t)
	if _, err := io.WriteString(freed, "go\n"); err != nil {
		t.Fatal(err)
	}
	idle := factsOf(t, <-done)
	if n := s.Kill("other"); n != 0 {
		t.Errorf("killed %d of a function that doesn't run", n)
	}
	if n := s.Kill("f"); n != 1 {
		t.Errorf("killed %d, want the busy one", n)
	}
	checkFailure(t, <-done, "Runtime.ExitError", "RequestId: ID Error: Runtime exited with error: signal: killed")
	if _, err := busy.Read(make([]byte, 1)); err == nil {
		t.Error("the process lives on")
	}
	if again := factsOf(t, invoke(t, s, order{Do: "facts"})); again.PID != idle.PID {
		t.Error("the idle sandbox was killed too")
	}
	if n := s.KillByAccessKey(idle.AccessKey); n != 1 {
		t.Errorf("killed %d by key", n)
	}
	if n := s.KillByAccessKey(idle.AccessKey); n != 0 {
		t.Errorf("killed %d by the key of a dead sandbox", n)
	}
	if again := factsOf(t, invoke(t, s, order{Do: "facts"})); again.AccessKey == idle.AccessKey {
		t.Error("a dead sandbox answered")
	}
}

func TestWhoStopsWaitingDoesNotStopTheSandbox(t *testing.T) {
	t.Parallel()
	ended := make(reports, 1)
	s := start(t, lambda.Options{Logs: ended})
	bell := newDoorbell(t)
	payload, err := json.Marshal(bell.order())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Invoke(ctx, lambda.Invocation{Function: "f", Payload: payload})
		done <- err
	}()
	conn := bell.wait(t)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if n, err := io.WriteString(conn, "go\n"); err != nil || n == 0 {
		t.Fatalf("the sandbox was stopped: %v", err)
	}
	if report := <-ended; strings.Contains(report, "Status") {
		t.Errorf("the invocation did not end well: %s", report)
	}
}

func TestCloseEndsWhatRunsAndRefusesWhatComes(t *testing.T) {
	t.Parallel()
	s := start(t, lambda.Options{})
	bell := newDoorbell(t)
	done := make(chan lambda.Result, 1)
	go func() { done <- invoke(t, s, bell.order()) }()
	bell.wait(t)
	s.Close()
	checkFailure(t, <-done, "Runtime.ExitError", "RequestId: ID Error: Runtime exited with error: signal: killed")
	if _, err := s.Invoke(t.Context(), lambda.Invocation{Function: "f"}); !errors.Is(err, lambda.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := s.Add(function(t, "g")); !errors.Is(err, lambda.ErrClosed) {
		t.Errorf("got %v", err)
	}
	s.Close()
}

func TestFunctionsAreAddedWhileOthersRunAndWrongOnesAreRefusedByField(t *testing.T) {
	t.Parallel()
	s := start(t, lambda.Options{})
	if err := s.Add(function(t, "g")); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Invoke(t.Context(), lambda.Invocation{Function: "g"}); err != nil || r.FunctionError != "" {
		t.Errorf("%v %s", err, r.Payload)
	}
	if err := s.Add(function(t, "g")); !errors.Is(err, lambda.ErrFunctionExists) {
		t.Errorf("got %v", err)
	}
	err := s.Add(lambda.Function{
		Name: "no name", Path: t.TempDir(), Timeout: time.Hour, MemoryMB: 1, Aliases: []string{"$LATEST"},
		Env: map[string]string{"AWS_ACCESS_KEY_ID": "x", "a b": "x", "NUL": "\x00"},
	})
	refused, ok := errors.AsType[*lambda.FunctionError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	var fields []string
	for _, f := range refused.Fields {
		name, _, _ := strings.Cut(f, ":")
		fields = append(fields, name)
	}
	if diff := cmp.Diff([]string{"name", "timeout", "memory", "aliases", "env", "env", "env", "path"}, fields); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestSandboxesDieWithUsEvenByKill(t *testing.T) {
	t.Parallel()
	if !diesWithParent {
		t.Skip("only Linux kills children with their parent")
	}
	bell := newDoorbell(t)
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Env = append(os.Environ(), programVariable+"=host", "MEET="+bell.Addr().String())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	conn := bell.wait(t)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the sandbox outlived its supervisor")
	}
}
