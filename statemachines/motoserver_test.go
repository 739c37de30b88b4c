package statemachines_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/google/uuid"

	"github.com/onceward/onceward/localstack/stepfunctions"
)

// motoPython names the Python to use instead of .local/venv/bin/python.
const motoPython = "ONCEWARD_MOTO_PYTHON"

// exitMissing is launch.py's exit code when moto isn't installed.
const exitMissing = 3

// withoutMoto skips, and fails in CI: there the second opinion is required.
func withoutMoto(t *testing.T, why string) {
	t.Helper()
	why = "moto is not there (" + why + "): python3 -m venv .local/venv && .local/venv/bin/pip install -r statemachines/moto/requirements.txt"
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// moto is a server with moto's Step Functions, whose Lambda tasks come to the
// scripts of the stories.
type moto struct {
	client  *sfn.Client
	stories sync.Map // of *motoStory, by name
}

// startMoto starts the server for the length of the test.
func startMoto(t *testing.T) *moto {
	t.Helper()
	python := os.Getenv(motoPython)
	if python == "" {
		python = "../.local/venv/bin/python"
	}
	path, err := filepath.Abs(python)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		withoutMoto(t, err.Error())
	}
	m := &moto{}
	functions := httptest.NewServer(m)
	t.Cleanup(functions.Close)
	address := launch(t, exec.CommandContext(context.WithoutCancel(t.Context()), path, "-B", "moto/launch.py", functions.URL))
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	m.client = sfn.New(sfn.Options{
		BaseEndpoint: aws.String("http://" + address), Region: "us-east-1", HTTPClient: &http.Client{Transport: transport},
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""), Retryer: aws.NopRetryer{},
	})
	return m
}

// launch runs launch.py until the test ends and returns where it listens.
func launch(t *testing.T, cmd *exec.Cmd) (address string) {
	t.Helper()
	var said strings.Builder
	cmd.Stderr = &said
	stop, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		withoutMoto(t, err.Error())
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		ended := cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](ended); ok && exit.ExitCode() == exitMissing {
			withoutMoto(t, strings.TrimSpace(said.String()))
		}
		t.Fatalf("launch.py: %v: %v\n%s", err, ended, said.String())
	}
	t.Cleanup(func() {
		_ = stop.Close() // launch.py ends with its input
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("launch.py: %v\n%s", err, said.String())
		}
	})
	port, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if !ok {
		t.Fatalf("launch.py says %q", line)
	}
	return "127.0.0.1:" + port
}

// ServeHTTP is Lambda's Invoke: it answers from the script of the story that asks.
func (m *moto) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Amzn-Requestid", uuid.NewString()) // moto reads it of every answer
	function := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/2015-03-31/functions/"), "/invocations")
	payload, err := io.ReadAll(r.Body)
	if err != nil {
		return // nobody is there any more
	}
	name, function := whose(function, payload)
	found, _ := m.stories.Load(name)
	s, known := found.(*motoStory)
	if !known {
		refuse(w, "Lambda.ResourceNotFoundException", "no story has the function "+function)
		return
	}
	s.ringLate()
	answer, err := s.script.Invoke(r.Context(), stepfunctions.Invocation{Function: function, Payload: payload})
	if err != nil {
		refused := &stepfunctions.InvokeError{Name: stepfunctions.ErrorLambdaService, Cause: err.Error()}
		_ = errors.As(err, &refused)
		refuse(w, refused.Name, refused.Cause)
		return
	}
	if answer.FunctionError != "" {
		w.Header().Set("X-Amz-Function-Error", answer.FunctionError)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(answer.Payload)))
	_, _ = w.Write(answer.Payload) // whoever hung up hears nothing
}

// whose returns the name of the story that a request belongs to, and the
// function's: the execution is told in it or, where it isn't, by a prefix.
func whose(function string, payload []byte) (story, name string) {
	if prefix, rest, ok := strings.Cut(function, "-"); ok {
		return prefix, rest
	}
	var r struct {
		Execution struct{ ID string }
		From      struct{ Execution string }
	}
	_ = json.Unmarshal(payload, &r) // then no story is found
	const machine = 6               // of the parts of an execution's ARN
	if parts := strings.Split(r.Execution.ID+r.From.Execution, ":"); len(parts) > machine {
		return parts[machine], function
	}
	return "", function
}

// refuse answers with an error of Lambda's API by the name that a state machine
// sees, Lambda. in front.
func refuse(w http.ResponseWriter, name, cause string) {
	w.Header().Set("X-Amzn-Errortype", strings.TrimPrefix(name, "Lambda."))
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = w.Write(encode(map[string]string{"Message": cause}))
}
