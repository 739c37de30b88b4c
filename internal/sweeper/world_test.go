package sweeper_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/onceward/onceward/internal/doorbell"
	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/executions/memexecutions"
	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/launch"
	"github.com/onceward/onceward/internal/runs/memruns"
	"github.com/onceward/onceward/internal/sweeper"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// world is a system in memory in which everybody died at once: a call for each
// thing that a sweep can do, all of one run, a run parked on each of them, and
// runs with and without a driver. Its tools are guarded on the same ledger; its
// receiver counts what took effect. It belongs into a bubble.
type world struct {
	t       *testing.T
	store   *memledger.Store
	runs    *memruns.Store
	machine *memexecutions.Machine
	tools   lambda.Handler

	mu       sync.Mutex
	bells    map[string]int // that woke somebody, by token
	rings    int
	loseRing int            // which ring is lost, from 1
	lateRing bool           // it woke somebody all the same
	effects  map[string]int // by the key that they came under
	ids      int
}

type creditIn struct {
	Account string `json:"account"`
}

type credit struct {
	ID string `json:"id"`
}

// The calls of the world, by what is the matter with them, with their tools and
// what they are asked for.
var casualties = map[string]struct{ tool, account string }{
	"overdue":     {"issue_credit", "plain"},  // its executor died after the effect
	"lost":        {"issue_credit", "lost"},   // the answer was lost after the effect
	"untold":      {"issue_credit", "untold"}, // as before, and the look-up can't tell
	"unapproved":  {"grant_credit", "plain"},  // nobody approved it in time
	"awaited":     {"grant_credit", "plain"},  // somebody may still approve it
	"decided":     {"issue_credit", "untold"}, // a person decided, and died before the bell
	"undo-asked":  {"issue_credit", "plain"},  // a person asked for an undo, and died before it ran
	"undo-ran":    {"issue_credit", "plain"},  // as before, and died after it ran
	"in-flight":   {"long_credit", "plain"},   // its executor is at work
	"contradicts": {"issue_credit", "plain"},  // came late, against a person's word
}

var worldRun = runs.ID{Tenant: "acme", Run: "run-w"}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := memledger.New()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: store, runs: memruns.New(), machine: memexecutions.New(), bells: map[string]int{}, effects: map[string]int{}}
	w.tools = w.guarded(store)
	w.populate()
	return w
}

// guarded returns the tools on a store, which may fail where the world's does not.
func (w *world) guarded(store ledger.Store) lambda.Handler {
	w.t.Helper()
	guard, err := once.New(store, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	tool := func(name string, change func(*once.Tool[creditIn, credit])) once.AnyTool {
		tool := once.Tool[creditIn, credit]{
			Name: name, Description: "Credit an account.", Class: once.External, Timeout: 10 * time.Second,
			Run: func(ctx context.Context, in creditIn) (credit, error) {
				id := w.takesEffect(ctx)
				if in.Account != "plain" {
					return credit{}, errors.New("no answer")
				}
				return credit{ID: id}, nil
			},
			Reconcile: func(_ context.Context, rec ledger.Record, in creditIn) (credit, bool, error) {
				if in.Account == "untold" {
					return credit{}, false, errors.New("the receiver is down")
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				return credit{ID: rec.Key.String()}, w.effects[rec.Key.String()] > 0, nil
			},
			Compensate: func(ctx context.Context, _ ledger.Record, _ creditIn) error {
				w.takesEffect(ctx)
				return nil
			},
		}
		change(&tool)
		return tool
	}
	tools, err := guard.Handler(
		tool("issue_credit", func(*once.Tool[creditIn, credit]) {}),
		tool("grant_credit", func(t *once.Tool[creditIn, credit]) { t.ApproveWithin = time.Hour }),
		tool("long_credit", func(t *once.Tool[creditIn, credit]) { t.Timeout = 10 * time.Minute }),
	)
	if err != nil {
		w.t.Fatal(err)
	}
	return tools
}

func (w *world) takesEffect(ctx context.Context) string {
	key := once.CallFrom(ctx).Key.String()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.effects[key]++
	return key
}

// populate makes everything that the sweeper finds.
func (w *world) populate() {
	w.t.Helper()
	w.putRun("run-w", executions.Running, time.Hour)
	w.putRun("run-aborted", executions.Aborted, time.Hour)
	w.putRun("run-missing", executions.Missing, time.Hour)
	w.putRun("run-starting", executions.Missing, 0)
	turn := runs.Turn{Number: 1, At: time.Now()}
	for _, name := range slices.Sorted(maps.Keys(casualties)) {
		c := casualties[name]
		turn.Calls = append(turn.Calls, runs.Call{ID: name, ProviderID: name, Tool: c.tool, Arguments: fmt.Sprintf(`{"account":%q}`, c.account)})
	}
	_, err := w.runs.PutTurn(w.t.Context(), worldRun, turn)
	w.must(err)
	w.invoke(w.tools, once.ModeInvoke, "unapproved")
	<-time.After(time.Hour + time.Minute)
	dead := w.guarded(&dying{Store: w.store}) // of a process that dies once it has reserved
	w.invoke(dead, once.ModeInvoke, "overdue")
	<-time.After(time.Minute)
	for _, name := range []string{"lost", "untold", "awaited", "decided", "undo-asked", "undo-ran"} {
		w.invoke(w.tools, once.ModeInvoke, name)
	}
	w.contradict("contradicts")
	for name := range casualties {
		if name != "in-flight" {
			w.park(name)
		}
	}
	w.decide("decided", func(r ledger.Record, s ledger.Stamp, d ledger.Decision) (ledger.Move, error) {
		return r.Resolve(s, d, ledger.Settlement{Effect: ledger.Happened})
	})
	for _, name := range []string{"undo-asked", "undo-ran"} {
		w.decide(name, func(r ledger.Record, s ledger.Stamp, d ledger.Decision) (ledger.Move, error) {
			return r.AskUndo(s, d, ledger.UndoAsk{})
		})
	}
	w.invoke(w.tools, once.ModeCompensate, "undo-ran")
	w.invoke(dead, once.ModeInvoke, "in-flight")
	<-time.After(time.Minute) // whatever is quick has ended
	w.putRun("run-starting", executions.Missing, 0)
}

// dying is the store of a process of which nothing arrives after a start.
type dying struct{ *memledger.Store }

var errDead = errors.New("the process is dead")

// Apply implements ledger.Store.
func (d *dying) Apply(ctx context.Context, m ledger.Move) (ledger.Record, error) {
	if m.Event() != ledger.Start {
		return ledger.Record{}, errDead
	}
	return d.Store.Apply(ctx, m)
}

func (w *world) key(name string) ledger.Key { return worldRun.Call(name) }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) newID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	return fmt.Sprint("id-", w.ids)
}

func (w *world) load(name string) ledger.Record {
	w.t.Helper()
	r, err := w.store.Load(context.Background(), w.key(name))
	w.must(err)
	return r
}

func (w *world) invoke(tools lambda.Handler, mode once.Mode, name string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 12*time.Minute)
	defer cancel()
	id, c := name, casualties[name]
	if mode == once.ModeCompensate {
		id = w.key(name).Undo(1).CallID
	}
	payload, err := json.Marshal(once.Envelope{
		Onceward: once.EnvelopeVersion, Mode: mode, Tenant: worldRun.Tenant, Run: once.RunPart{ID: worldRun.Run},
		Call: once.CallPart{ID: id, Tool: c.tool, Turn: 1, Attempt: 1, ArgumentsJSON: fmt.Sprintf(`{"account":%q}`, c.account)},
	})
	w.must(err)
	_, err = tools.Invoke(ctx, payload)
	w.must(err)
}

func (w *world) decide(name string, move func(ledger.Record, ledger.Stamp, ledger.Decision) (ledger.Move, error)) {
	w.t.Helper()
	r := w.load(name)
	m, err := move(r, ledger.Stamp{At: time.Now(), WriteID: w.newID()}, ledger.Decision{ID: w.newID(), Actor: "ada", Reason: "r", Version: r.Version})
	w.must(err)
	_, err = w.store.Apply(w.t.Context(), m)
	w.must(err)
}

// contradict has a person say that a call failed, and its own late word deny it.
func (w *world) contradict(name string) {
	w.t.Helper()
	w.invoke(w.guarded(&dying{Store: w.store}), once.ModeInvoke, name)
	started := w.load(name)
	m, err := started.Orphan(ledger.Stamp{At: started.Attempt.Deadline.Add(time.Second), WriteID: w.newID()})
	w.must(err)
	_, err = w.store.Apply(w.t.Context(), m)
	w.must(err)
	w.decide(name, func(r ledger.Record, s ledger.Stamp, d ledger.Decision) (ledger.Move, error) {
		return r.Resolve(s, d, ledger.Settlement{Effect: ledger.NoEffect})
	})
	m, err = w.load(name).Settle(ledger.Stamp{At: time.Now(), WriteID: w.newID()}, started.Attempt.Token, ledger.Settlement{Effect: ledger.Happened})
	w.must(err)
	_, err = w.store.Apply(w.t.Context(), m)
	w.must(err)
}

func (w *world) park(name string) {
	w.t.Helper()
	w.must(w.store.SaveWait(w.t.Context(), ledger.Wait{Key: w.key(name), ID: "w1", Token: ledger.Secret(canary + name), Execution: "x", ParkedAt: time.Now()}))
}

func (w *world) putRun(id string, driver executions.State, age time.Duration) {
	w.t.Helper()
	r, err := w.runs.Load(w.t.Context(), runs.ID{Tenant: "acme", Run: id})
	w.must(err)
	if !r.Exists() {
		r = runs.Run{
			Tenant: "acme", ID: id, Agent: "a", StartedAt: time.Now(), Status: runs.Running, Generation: 1, Turn: 1, Machine: "arn:aws:states:eu-west-1:1:stateMachine:m",
			Driver: runs.ExecutionName(runs.ID{Tenant: "acme", Run: id}, 1), Input: json.RawMessage(fmt.Sprintf(`{"run_id":%q,"tenant":"acme","principal":{"subject":"u"}}`, id)),
		}
		if driver != executions.Missing {
			_, err = w.machine.Start(w.t.Context(), r.Machine, r.Driver, r.Input)
			w.must(err)
			w.machine.End(r.Driver, driver)
		}
	}
	r.Version++
	r.LastWrite, r.WrittenAt = w.newID(), time.Now().Add(-age)
	_, err = w.runs.Save(w.t.Context(), r)
	w.must(err)
}

// Ring implements doorbell.Doorbell as Step Functions does: one bell wakes, the
// next ones find nobody.
func (w *world) Ring(_ context.Context, token ledger.Secret) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rings++
	lost := w.rings == w.loseRing
	if lost && !w.lateRing {
		return errors.New("no answer")
	}
	name := strings.TrimPrefix(string(token), canary)
	w.bells[name]++
	switch {
	case lost:
		return errors.New("no answer")
	case w.bells[name] > 1:
		w.bells[name]--
		return &doorbell.GoneError{How: "TaskTimedOut"}
	}
	return nil
}

// Invoke implements toolcall.Functions.
func (w *world) Invoke(ctx context.Context, _ string, payload []byte) ([]byte, error) {
	return w.tools.Invoke(ctx, payload)
}

// sweeper returns a sweeper with everything of its own but what is stored.
func (w *world) sweeper(log *slog.Logger) *sweeper.Sweeper {
	w.t.Helper()
	service, err := operator.New(operator.Config{
		Store: w.store, Waits: w.store, History: w.store, Runs: w.runs, Bell: w, Tools: sweeper.AtMost(4, w), NewID: w.newID, LookUpEvery: time.Second, Log: log,
	})
	w.must(err)
	launcher := launch.Launcher{Runs: w.runs, Machine: w.machine, StateMachine: "m", Now: time.Now, NewID: w.newID, Log: log}
	return &sweeper.Sweeper{Scan: w.store, Calls: service, Runs: w.runs, Drivers: launcher, Log: log}
}

// sweep makes one sweep as a function would, and returns its error, if any.
func (w *world) sweep(s *sweeper.Sweeper) (sweeper.Report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.Sweep(ctx)
}

// settle sweeps until there is nothing left to do, as a schedule would.
func (w *world) settle() {
	for range 3 {
		<-time.After(2 * time.Second) // longer than between two look-ups
		_, _ = w.sweep(w.sweeper(slog.New(slog.DiscardHandler)))
	}
}

// outcome is how the world stands: what of it may not depend on who died where.
type outcome struct {
	States  map[string]string
	Bells   map[string]int
	Unrung  []string
	Effects map[string]int
	Started map[string]int
}

func (w *world) outcome() outcome {
	w.t.Helper()
	o := outcome{States: map[string]string{}, Started: map[string]int{}}
	for name := range casualties {
		o.States[name] = w.load(name).State().String()
		waits, err := w.store.Waits(context.Background(), w.key(name))
		w.must(err)
		for _, wait := range waits {
			if !wait.Rung() {
				o.Unrung = append(o.Unrung, name)
			}
		}
	}
	slices.Sort(o.Unrung)
	for _, e := range w.machine.Executions() {
		o.Started[e.Name]++
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o.Bells, o.Effects = maps.Clone(w.bells), map[string]int{}
	for key, n := range w.effects {
		o.Effects[strings.TrimPrefix(key, "acme/run-w:")] = n
	}
	return o
}

// tidy is the only way in which sweeps may leave the world.
func tidy() outcome {
	name := func(id string) string { return runs.ExecutionName(runs.ID{Tenant: "acme", Run: id}, 1) }
	return outcome{
		States: map[string]string{
			"overdue": "completed", "lost": "completed", "untold": "indeterminate", "unapproved": "failed, final", "awaited": "reserved",
			"decided": "completed", "undo-asked": "compensated", "undo-ran": "compensated", "in-flight": "started",
			"contradicts": "failed, final, contradicted",
		},
		Bells:   map[string]int{"overdue": 1, "lost": 1, "unapproved": 1, "decided": 1, "undo-asked": 1, "undo-ran": 1, "contradicts": 1},
		Unrung:  []string{"awaited", "untold"},
		Effects: map[string]int{"overdue": 1, "lost": 1, "untold": 1, "decided": 1, "undo-asked": 1, "undo-asked~undo1": 1, "undo-ran": 1, "undo-ran~undo1": 1, "in-flight": 1, "contradicts": 1},
		Started: map[string]int{name("run-w"): 1, name("run-aborted"): 1, name("run-missing"): 1},
	}
}
