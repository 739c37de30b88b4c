package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// bill counts what plans ask of the stores, and how many bytes they are given.
type bill struct {
	mu    sync.Mutex
	asked map[string]int
	read  int
}

// charge counts a request and what it returned, as encoded.
func (b *bill) charge(request string, got any) {
	body, err := json.Marshal(got)
	if err != nil {
		panic(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked[request]++
	b.read += len(body)
}

// since returns what was charged since the last time it was asked.
func (b *bill) since() (asked map[string]int, read int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked, read = b.asked, b.read
	b.asked, b.read = map[string]int{}, 0
	return asked, read
}

type countedRuns struct {
	runs.Store
	*bill
}

func (s countedRuns) Load(ctx context.Context, id runs.ID) (runs.Run, error) {
	r, err := s.Store.Load(ctx, id)
	s.charge("load run", r)
	return r, err
}

func (s countedRuns) Save(ctx context.Context, r runs.Run) (runs.Run, error) {
	r, err := s.Store.Save(ctx, r)
	s.charge("save run", nil)
	return r, err
}

func (s countedRuns) Turns(ctx context.Context, id runs.ID, from, to int) ([]runs.Turn, error) {
	turns, err := s.Store.Turns(ctx, id, from, to)
	s.charge("read turns", turns)
	return turns, err
}

func (s countedRuns) PutTurn(ctx context.Context, id runs.ID, t runs.Turn) (runs.Turn, error) {
	t, err := s.Store.PutTurn(ctx, id, t)
	s.charge("put turn", nil)
	return t, err
}

func (s countedRuns) Hear(ctx context.Context, id runs.ID, n int, heard []runs.Heard) ([]runs.Heard, error) {
	heard, err := s.Store.Hear(ctx, id, n, heard)
	s.charge("hear", nil)
	return heard, err
}

type countedLedger struct {
	Ledger
	*bill
}

func (s countedLedger) Load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	r, err := s.Ledger.Load(ctx, key)
	s.charge("load call", r)
	return r, err
}

func (s countedLedger) Apply(ctx context.Context, m ledger.Move) (ledger.Record, error) {
	r, err := s.Ledger.Apply(ctx, m)
	s.charge("move call", nil)
	return r, err
}

func (s countedLedger) Result(ctx context.Context, r ledger.Record) ([]byte, error) {
	result, err := s.Ledger.Result(ctx, r)
	s.charge("read result", result)
	return result, err
}

func (s countedLedger) Waits(ctx context.Context, key ledger.Key) ([]ledger.Wait, error) {
	waits, err := s.Ledger.Waits(ctx, key)
	s.charge("read waits", waits)
	return waits, err
}

// counted puts a bill between the planner and its stores.
func (r *rig) counted() *bill {
	b := &bill{asked: map[string]int{}}
	r.planner.Runs, r.planner.Ledger = countedRuns{r.runs, b}, countedLedger{r.ledger, b}
	return b
}

// restarting is an input whose model numbers its calls from zero in each of n
// answers.
func restarting(n int) string {
	turn := `{"says": "And on.", "calls": [{"id": "call_0", "tool": "issue_credit", "arguments": {"cents": 5}}, {"id": "call_1", "tool": "find_order", "arguments": {}}]}`
	return fmt.Sprintf(`{"run_id": "run-1", "tenant": "acme", "script": {"turns": [%s], "answer": "Done."}}`, strings.TrimSuffix(strings.Repeat(turn+",", n), ","))
}

// Proves: R167
func TestPlanCostsTheSameWhateverTheNumberOfItsTurn(t *testing.T) {
	t.Parallel()
	const turns = 400
	r := newRig(t)
	b := r.counted()
	input, execution, handedOver := restarting(turns), "e1", 0
	var outcomes []runs.Outcome
	first, firstRead := map[string]int(nil), 0
	for plan := 1; ; plan++ {
		if plan > 3*turns {
			t.Fatal("the run does not end")
		}
		answer := r.plan(t, request(input, outcomes, 0, execution))
		asked, read := b.since()
		if answer.Next == Succeed {
			if len(answer.Heard) != 2*turns || answer.Answer != "Done." {
				t.Errorf("the run ends with %.300s", wire(t, answer))
			}
			break
		}
		if answer.Next == GoOn {
			execution, outcomes, r.maps = answer.HandOver.Name, nil, 0
			handedOver++
			continue
		}
		next := answer.Calls[0].Envelope.Call
		if next.Tool == "find_order" && next.Turn == 10 {
			first, firstRead = asked, read
		}
		if next.Tool == "find_order" && next.Turn > 10 && len(outcomes) > 0 {
			if diff := cmp.Diff(first, asked); diff != "" {
				t.Fatalf("the plan of turn %d asks for other than that of turn 10 (-10 +%d):\n%s", next.Turn, next.Turn, diff)
			}
			if most := firstRead + firstRead/20; read > most { // numbers get longer
				t.Fatalf("the plan of turn %d reads %d bytes, that of turn 10 %d", next.Turn, read, firstRead)
			}
		}
		outcomes = r.callTools(t, answer)
	}
	want := map[string]int{"load run": 1, "read turns": 1, "load call": 4, "read result": 2, "hear": 1, "put turn": 1, "save run": 1}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("a plan that closes a turn of two calls and begins one (-want +got):\n%s", diff)
	}
	if handedOver == 0 {
		t.Error("the run was never handed over")
	}
	if len(r.effects) != turns {
		t.Errorf("%d credits, want %d", len(r.effects), turns)
	}
	for call, n := range r.effects {
		if n != 1 {
			t.Errorf("%s took effect %d times", call, n)
		}
	}
	if len(r.beside) != 2*turns {
		t.Errorf("%d Maps, want a read and a write for each turn", len(r.beside))
	}
}
