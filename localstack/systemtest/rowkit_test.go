package systemtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslambda "github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/faults"
	"github.com/onceward/onceward/localstack/gateway"
	"github.com/onceward/onceward/localstack/lambda"
	"github.com/onceward/onceward/localstack/stack"
)

// The function whose tools do what their arguments say; the same under a later
// policy for approvals; and the operator's function and the planner's, which know
// those tools, with the state machine that asks this planner.
const (
	testTools    = "testtools"
	laterTools   = "testtools-later"
	rowsOperator = "testtools-operator"
	rowsPlanner  = "testtools-planner"
	rowsMachine  = "testtools-run"
)

// rowDesk is where the moves of the table are made from: beside the stack's own
// functions those above, and an API in front of the operator's.
type rowDesk struct {
	api http.Handler
}

// closeRowDesk ends the desk, if there has been one.
var closeRowDesk = func() {}

func newRowDesk(t *testing.T) *rowDesk {
	t.Helper()
	desk, err := makeRowDesk()
	if err != nil {
		t.Fatal(err)
	}
	return desk
}

var makeRowDesk = sync.OnceValues(func() (*rowDesk, error) {
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", "lambda.norpc", "-o", scratch+string(filepath.Separator),
		"./internal/testtools", "./functions/"+names.Operator, "./functions/"+names.Planner)
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	tools := map[string]any{}
	for _, name := range []string{"act", "act_approved", "act_approved_soon", "read"} {
		tools[name] = map[string]string{"function": testTools, "class": "external"}
	}
	directory, err := json.Marshal(tools)
	if err != nil {
		return nil, err
	}
	env := map[string]string{names.EnvStage: system.Names.Stage, names.EnvTable: system.Names.Table, names.EnvTools: string(directory), names.EnvMachine: stack.MachineARN(rowsMachine)}
	later := maps.Clone(env)
	later["APPROVAL_POLICY"] = "1"
	for _, f := range []lambda.Function{
		{Name: testTools, Path: filepath.Join(scratch, testTools), Env: env, Timeout: 3 * time.Minute},
		{Name: laterTools, Path: filepath.Join(scratch, testTools), Env: later, Timeout: 3 * time.Minute},
		{Name: rowsOperator, Path: filepath.Join(scratch, names.Operator), Env: env, Timeout: 29 * time.Second},
		{Name: rowsPlanner, Path: filepath.Join(scratch, names.Planner), Env: env, Timeout: 20 * time.Second},
	} {
		if err := system.Lambda.Add(f); err != nil {
			return nil, err
		}
	}
	api, err := gateway.New(func(ctx context.Context, payload []byte) ([]byte, string, error) {
		result, err := system.Lambda.Invoke(ctx, lambda.Invocation{Function: rowsOperator, Payload: payload})
		return result.Payload, result.FunctionError, err
	}, gateway.Options{Scopes: []string{"calls:read", "calls:decide"}})
	if err != nil {
		return nil, err
	}
	closeRowDesk = api.Close
	return &rowDesk{api: api}, nil
})

// rowCall is one call on its way to a move. What it asks of its tool is fixed,
// since other arguments would be another call.
type rowCall struct {
	*rowDesk
	*testing.T

	run   string
	tool  string
	order map[string]string
}

// state returns where the operator's API says that the call stands.
func (c *rowCall) state() string { return c.detail().State }

type rowDetail struct {
	State     string `json:"state"`
	Version   int64  `json:"version"`
	Decisions []struct {
		Kind, Before, After string
	} `json:"decisions"`
	Evidence []struct {
		Kind, Before, After string
	} `json:"evidence"`
	SettledBy struct {
		Kind string `json:"kind"`
	} `json:"settled_by"`
}

func (c *rowCall) detail() rowDetail { c.Helper(); return c.of(c.run + ":call_1") }

func (c *rowCall) of(key string) (d rowDetail) {
	c.Helper()
	status, text := c.ask(http.MethodGet, keyPath(key), nil)
	if status == http.StatusNotFound {
		return rowDetail{State: "none"}
	}
	if err := json.Unmarshal(text, &d); err != nil || status != http.StatusOK {
		c.Fatalf("show: %d, %v: %s", status, err, text)
	}
	return d
}

func (c *rowCall) ask(method, path string, body any) (status int, text []byte) {
	c.Helper()
	var content bytes.Reader
	if body != nil {
		content = *bytes.NewReader(encode(c.T, body))
	}
	r := httptest.NewRequest(method, path, &content)
	r.RemoteAddr, r.Host = "127.0.0.1:1", "127.0.0.1" // the gateway is for this machine only
	r.Header.Set("Authorization", "Bearer dev::ada")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	c.api.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

// decide makes a person's decision, which has to be accepted.
func (c *rowCall) decide(verb string, more ...any) {
	c.Helper()
	if status, text := c.tryDecide(c.run+":call_1", verb, more...); status != http.StatusOK {
		c.Fatalf("%s: %d: %s", verb, status, text)
	}
}

func (c *rowCall) tryDecide(key, verb string, more ...any) (status int, text []byte) {
	c.Helper()
	body := map[string]any{"reason": "because", "expected_version": c.of(key).Version}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	return c.ask(http.MethodPost, keyPath(key, verb), body)
}

// undone settles the call's undo under its own key.
func (c *rowCall) undone(outcome string) {
	c.Helper()
	if status, text := c.tryDecide(c.undoKey(), "resolve", "outcome", outcome); status != http.StatusOK {
		c.Fatalf("resolve the undo: %d: %s", status, text)
	}
}

func (c *rowCall) undoKey() string { return c.run + ":call_1~undo1" }

// invoke sends the call's envelope to a function and returns when it answers.
func (c *rowCall) invoke(function, mode string, attempt int) {
	c.Helper()
	if err := c.send(function, mode, attempt); err != nil {
		c.Fatal(err)
	}
}

func (c *rowCall) send(function, mode string, attempt int) error {
	payload, err := json.Marshal(map[string]any{
		"onceward": 1, "mode": mode, "run": map[string]any{"id": c.run}, "principal": map[string]any{"subject": "customer-1"},
		"call": map[string]any{"id": "call_1", "tool": c.tool, "turn": 1, "attempt": attempt, "arguments": c.order},
	})
	if err != nil {
		return err
	}
	out, err := lambdaClient().Invoke(context.WithoutCancel(c.Context()), &awslambda.InvokeInput{FunctionName: aws.String(function), Payload: payload})
	if err == nil && out.FunctionError != nil {
		err = fmt.Errorf("%s: %s", *out.FunctionError, out.Payload)
	}
	return err
}

func (c *rowCall) act()       { c.Helper(); c.invoke(testTools, "invoke", 1) }
func (c *rowCall) reconcile() { c.Helper(); c.invoke(testTools, "reconcile", 1) }

// inspect lets the call desk look, who gives up on an executor that is overdue.
func (c *rowCall) inspect() {
	c.Helper()
	c.invoke(system.Names.Function(names.CallDesk), "inspect", 1)
}

// held sends an invocation whose n-th update of the record is held on its way to
// the table, and returns, once the call is in state, how to let go of it.
func (c *rowCall) held(mode string, attempt, nth int, state string) (release func()) {
	c.Helper()
	id, err := system.Faults.Arm(faults.Rule{
		Service: faults.DynamoDB, Operation: "UpdateItem", Caller: testTools, Contains: c.run, Nth: nth, Effect: faults.Delay, Milliseconds: 60_000,
	})
	if err != nil {
		c.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.send(testTools, mode, attempt) }()
	release = sync.OnceFunc(func() {
		if err := system.Faults.Disarm(id); err != nil {
			c.Error(err)
		}
		if err := <-ended; err != nil {
			c.Error(err)
		}
	})
	c.Cleanup(release)
	eventually(c.T, "the call is "+state+", its executor held", func() bool {
		return c.state() == state && hitsOf(id) == 1
	})
	return release
}

// heldUndo asks for an undo whose executor's last word is held until release.
func (c *rowCall) heldUndo() (release func()) {
	c.Helper()
	id, err := system.Faults.Arm(faults.Rule{
		Service: faults.DynamoDB, Operation: "UpdateItem", Caller: testTools, Contains: c.run, Effect: faults.Delay, Milliseconds: 60_000,
	})
	if err != nil {
		c.Fatal(err)
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		c.tryDecide(c.run+":call_1", "compensate")
	}()
	release = sync.OnceFunc(func() {
		if err := system.Faults.Disarm(id); err != nil {
			c.Error(err)
		}
		<-asked
	})
	c.Cleanup(release)
	eventually(c.T, "the undo's executor is held", func() bool { return hitsOf(id) == 1 })
	return release
}

func hitsOf(id string) int {
	for _, r := range system.Faults.Rules() {
		if r.ID == id {
			return r.Hits
		}
	}
	return 0
}

// becomes asks again and again until the call is in state.
func (c *rowCall) becomes(state string, ask func()) {
	c.Helper()
	eventually(c.T, "the call is "+state, func() bool {
		ask()
		return c.state() == state
	})
}

// tableRow is one row of the reference page of the table.
type tableRow struct {
	from []string // statuses
	to   string   // a status, or "the same"
}

// tableRows reads the page that is generated from the table.
func tableRows(t *testing.T) map[string]tableRow {
	t.Helper()
	file, err := os.Open(filepath.Join(root, "docs", "reference", "states.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	rows, moves := map[string]tableRow{}, false
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		moves = moves || line == "## Moves"
		cells := strings.Split(line, " | ")
		if !moves || len(cells) < 6 || strings.HasPrefix(line, "| move ") || strings.HasPrefix(line, "| ---") {
			continue
		}
		from, _, _ := strings.Cut(strings.TrimPrefix(cells[1], "any of "), ", with")
		to, _, _ := strings.Cut(cells[3], ";")
		to, _, _ = strings.Cut(to, ",")
		rows[strings.TrimPrefix(cells[0], "| ")] = tableRow{from: strings.Split(from, " / "), to: to}
	}
	return rows
}
