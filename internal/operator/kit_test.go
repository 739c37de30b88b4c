package operator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/launch"
	"github.com/onceward/onceward/internal/runs/memruns"
	"github.com/onceward/onceward/internal/toolcall"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

// Canaries must appear in no answer and no log.
const (
	canaryToken   = "CANARY-task-token"
	canaryAttempt = "CANARY-attempt-token"
	canaryInput   = "CANARY-argument"
	canaryWrite   = "CANARY-write-id"
)

var (
	ops   = operator.Identity{Tenant: "acme", Actor: "ada", Scopes: []string{"calls:read", "calls:decide"}}
	other = operator.Identity{Tenant: "acme", Actor: "bob", Scopes: []string{"calls:read", "calls:decide"}}
)

// bell records which tokens were rung; answer decides how.
type bell struct {
	mu     sync.Mutex
	rung   []string
	answer func(n int, token string) error
}

func (b *bell) Ring(_ context.Context, token ledger.Secret) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = append(b.rung, string(token))
	if b.answer == nil {
		return nil
	}
	return b.answer(len(b.rung), string(token))
}

func (b *bell) times() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.rung)
}

// toolbox plays the tools' functions.
type toolbox struct {
	payloads [][]byte
	answer   func() ([]byte, error)
}

func (x *toolbox) Invoke(_ context.Context, tool string, payload []byte) ([]byte, error) {
	if tool != "issue_credit" {
		return nil, toolcall.ErrNoTool
	}
	x.payloads = append(x.payloads, payload)
	return x.answer()
}

type bench struct {
	store   *memledger.Store
	runs    *memruns.Store
	bell    *bell
	tools   *toolbox
	service *operator.Service
	log     *bytes.Buffer
	now     time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	store, err := memledger.New()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{store: store, runs: memruns.New(), bell: &bell{}, tools: &toolbox{}, log: &bytes.Buffer{}, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	b.service = b.serviceWith(t, func(*operator.Config) {})
	t.Cleanup(func() { noCanary(t, "the log", b.log.Bytes()) })
	return b
}

// serviceWith returns a service on the bench that differs from the bench's own.
func (b *bench) serviceWith(t *testing.T, change func(*operator.Config)) *operator.Service {
	t.Helper()
	log := slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg := operator.Config{
		Store: b.store, Waits: b.store, History: b.store, Runs: b.runs, Bell: b.bell, Tools: b.tools, Launcher: noLauncher{},
		Now: func() time.Time { return b.now }, Log: log,
	}
	change(&cfg)
	service, err := operator.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return service
}

// noLauncher is for those who start no runs.
type noLauncher struct{}

func (noLauncher) Start(context.Context, json.RawMessage) (launch.Launched, error) {
	return launch.Launched{}, errors.New("nothing is started here")
}

func (noLauncher) Resume(context.Context, runs.ID) (launch.Launched, error) {
	return launch.Launched{}, errors.New("nothing is resumed here")
}

func noCanary(t *testing.T, where string, text []byte) {
	t.Helper()
	if bytes.Contains(text, []byte("CANARY")) {
		t.Errorf("%s holds a canary: %s", where, text)
	}
}

// clean marshals an answer and looks for canaries.
func clean(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	noCanary(t, "an answer", text)
	return text
}

func (b *bench) apply(t *testing.T, move ledger.Move, err error) ledger.Record {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.store.Apply(t.Context(), move)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (b *bench) stamp(id string) ledger.Stamp {
	return ledger.Stamp{At: b.now, WriteID: canaryWrite + id}
}

func call(id string) ledger.Call {
	return ledger.Call{
		Key:  ledger.Key{Tenant: "acme", RunID: "run-1", CallID: id},
		Tool: "issue_credit", Class: "external", Agent: "billing-assistant", Turn: 1, Fingerprint: "f", Received: "r", Summary: "2500 cents to A1", Permission: "credits:write",
	}
}

func (b *bench) start(t *testing.T, id string) ledger.Record {
	t.Helper()
	c := call(id)
	x := ledger.Executor{Token: ledger.AttemptToken(canaryAttempt + id), Attempt: 1, Deadline: b.now.Add(20 * time.Second), QuietAfter: b.now.Add(80 * time.Second), RequestID: "req-" + id}
	move, err := ledger.Record{}.Start(b.stamp("start-"+id), c, x)
	return b.apply(t, move, err)
}

// unknown makes a call whose outcome nobody knows.
func (b *bench) unknown(t *testing.T, id string) ledger.Record {
	t.Helper()
	r := b.start(t, id)
	move, err := r.Settle(b.stamp("lost-"+id), r.Attempt.Token, ledger.Settlement{Effect: ledger.Unknown, Code: "no_answer", Message: "the connection ended"})
	return b.apply(t, move, err)
}

func (b *bench) reserve(t *testing.T, id string) ledger.Record {
	t.Helper()
	move, err := ledger.Record{}.AskApproval(b.stamp("ask-"+id), call(id), time.Hour, 1)
	return b.apply(t, move, err)
}

func (b *bench) park(t *testing.T, r ledger.Record, id string) {
	t.Helper()
	w := ledger.Wait{Key: r.Key, ID: id, Token: canaryToken + "-" + ledger.Secret(id), Execution: "run-1-g1", ParkedAt: b.now}
	if err := b.store.SaveWait(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) waits(t *testing.T, r ledger.Record) []ledger.Wait {
	t.Helper()
	waits, err := b.store.Waits(t.Context(), r.Key)
	if err != nil {
		t.Fatal(err)
	}
	return waits
}

// turn stores the run and its first turn, which asked for the calls.
func (b *bench) turn(t *testing.T, heard []runs.Heard, ids ...string) {
	t.Helper()
	id := runs.ID{Tenant: "acme", Run: "run-1"}
	run := runs.Run{
		Tenant: id.Tenant, ID: id.Run, Agent: "billing-assistant", StartedAt: b.now.Add(-time.Minute), Status: runs.Running, Generation: 1, Driver: "d", Turn: 1, Version: 1, LastWrite: "w",
		Input: json.RawMessage(`{"run_id":"run-1","tenant":"acme","principal":{"subject":"user-1","permissions":["credits:write"]}}`),
	}
	if _, err := b.runs.Save(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	turn := runs.Turn{Number: 1, At: b.now}
	for _, call := range ids {
		turn.Calls = append(turn.Calls, runs.Call{ID: call, ProviderID: call, Tool: "issue_credit", Arguments: `{"account_id":"` + canaryInput + `","amount_cents":2500}`})
	}
	if _, err := b.runs.PutTurn(t.Context(), id, turn); err != nil {
		t.Fatal(err)
	}
	if heard == nil {
		return
	}
	if _, err := b.runs.Hear(t.Context(), id, 1, heard); err != nil {
		t.Fatal(err)
	}
}

func failed(r ledger.Record, key string) operator.Resolution {
	return operator.Resolution{
		Command: operator.Command{Key: r.Key.String(), Reason: "the bank has no such credit", ExpectedVersion: r.Version, IdempotencyKey: key},
		Outcome: operator.OutcomeFailed,
	}
}

func wantProblem(t *testing.T, err error, code operator.Code) {
	t.Helper()
	_ = theProblem(t, err, code)
}

// theProblem is for those who look into it.
func theProblem(t *testing.T, err error, code operator.Code) *operator.Problem {
	t.Helper()
	p, ok := errors.AsType[*operator.Problem](err)
	if !ok || p.Code != code {
		t.Fatalf("got %v, want the problem %s", err, code)
	}
	clean(t, p)
	return p
}
