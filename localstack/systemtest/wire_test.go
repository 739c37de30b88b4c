package systemtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/stack"
)

// findAWS returns the aws command if it is there and starts, which takes a second.
var findAWS = sync.OnceValues(func() (path string, err error) {
	if path, err = exec.LookPath("aws"); err != nil {
		return "", err
	}
	return path, exec.Command(path, "--version").Run()
})

// awsCommand runs the real aws command against the stack.
func awsCommand(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	if testing.Short() {
		t.Skip("with -short: the aws command sends what the SDK's tests send; make test runs it")
	}
	path, err := findAWS()
	if err != nil {
		const missing = "the aws command is not installed: pip install awscli"
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+system.URL, "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local", "AWS_DEFAULT_REGION=us-east-1",
		"AWS_DEFAULT_OUTPUT=json", "AWS_PAGER=", "AWS_MAX_ATTEMPTS=1", "AWS_EC2_METADATA_DISABLED=true", "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func awsJSON(t *testing.T, into any, args ...string) {
	t.Helper()
	out, err := awsCommand(t, args...)
	if err != nil {
		t.Fatalf("aws %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("aws %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestTheAWSCommandInvokesAFunctionAsOnAWS(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	dir := t.TempDir()
	in, file := filepath.Join(dir, "in.json"), filepath.Join(dir, "out.json")
	if err := os.WriteFile(in, encode(t, envelope("invoke", run, run)), 0o600); err != nil {
		t.Fatal(err)
	}
	var meta struct {
		StatusCode      int
		ExecutedVersion string
		LogResult       string
	}
	awsJSON(t, &meta, "lambda", "invoke", "--function-name", system.Names.Function(names.BillingTools), "--log-type", "Tail",
		"--payload", "fileb://"+in, file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}
	if meta.StatusCode != 200 || meta.ExecutedVersion != "$LATEST" || meta.LogResult == "" || a.Status != "completed" {
		t.Errorf("%+v\n%s", meta, text)
	}
	out, err := awsCommand(t, "lambda", "invoke", "--function-name", "nobody", "--payload", "fileb://"+in, file)
	if err == nil || !strings.Contains(out, "ResourceNotFoundException") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestTheAWSCommandRunsAndReadsAnExecutionAsOnAWS(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	var known struct {
		StateMachines []struct{ StateMachineArn, Name, Type string }
	}
	awsJSON(t, &known, "stepfunctions", "list-state-machines")
	if !strings.Contains(encodeString(t, known), stack.MachineARN(system.Names.Machine)) {
		t.Errorf("%+v", known)
	}
	var started struct {
		ExecutionArn string
		StartDate    json.RawMessage // a number or a text, by the command's version
	}
	input := runInput(t, run, run, "pause")
	arn := stack.MachineARN(system.Names.Machine)
	awsJSON(t, &started, "stepfunctions", "start-execution", "--state-machine-arn", arn, "--name", run, "--input", input)
	if status, output := endOf(t, started.ExecutionArn); status != "SUCCEEDED" {
		t.Fatalf("%s: %s", status, output)
	}
	var described struct{ Status, Input, Output, Name string }
	awsJSON(t, &described, "stepfunctions", "describe-execution", "--execution-arn", started.ExecutionArn)
	if described.Status != "SUCCEEDED" || described.Input != input || described.Name != run {
		t.Errorf("%+v", described)
	}
	var history struct {
		Events []struct {
			ID   int `json:"id"`
			Type string
		} `json:"events"`
	}
	awsJSON(t, &history, "stepfunctions", "get-execution-history", "--execution-arn", started.ExecutionArn)
	if n := len(history.Events); n < 10 || history.Events[0].Type != "ExecutionStarted" || history.Events[n-1].Type != "ExecutionSucceeded" {
		t.Errorf("%d events", n)
	}
	for args, want := range map[[2]string]string{
		{"start-execution", run}:           "ExecutionAlreadyExists",
		{"start-execution", "no spaces ?"}: "InvalidName",
	} {
		out, err := awsCommand(t, "stepfunctions", args[0], "--state-machine-arn", arn, "--name", args[1], "--input", `{"other": 1}`)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	out, err := awsCommand(t, "stepfunctions", "send-task-success", "--task-token", "made-up", "--task-output", "{}")
	if err == nil || !strings.Contains(out, "InvalidToken") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestTheAWSCommandReadsTheTableAsOnAWS(t *testing.T) {
	t.Parallel()
	run := ownRun(t)
	mustInvoke(t, envelope("invoke", run, run))
	key := string(encode(t, map[string]any{names.AttrPartition: map[string]string{"S": ".#" + run}, names.AttrSort: map[string]string{"S": "CALL#call_1"}}))
	var got struct {
		Item map[string]map[string]any
	}
	awsJSON(t, &got, "dynamodb", "get-item", "--table-name", system.Names.Table, "--key", key, "--consistent-read")
	if len(got.Item) < 10 {
		t.Errorf("%+v", got)
	}
	out, err := awsCommand(t, "dynamodb", "put-item", "--table-name", system.Names.Table, "--item", key, "--condition-expression", "attribute_not_exists("+names.AttrPartition+")")
	if err == nil || !strings.Contains(out, "ConditionalCheckFailedException") {
		t.Errorf("%v: %s", err, out)
	}
	var described struct {
		Table struct {
			GlobalSecondaryIndexes []struct{ IndexName string }
		}
	}
	awsJSON(t, &described, "dynamodb", "describe-table", "--table-name", system.Names.Table)
	if len(described.Table.GlobalSecondaryIndexes) != 1 || described.Table.GlobalSecondaryIndexes[0].IndexName != names.Index {
		t.Errorf("%+v", described)
	}
}

func encodeString(t *testing.T, v any) string {
	t.Helper()
	return string(encode(t, v))
}
