package memexecutions_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/executions"
	"github.com/onceward/onceward/internal/executions/memexecutions"
)

const machineARN = "arn:aws:states:eu-west-1:111122223333:stateMachine:m"

func TestNameIsStartedOnceWhateverVersionAndInput(t *testing.T) {
	t.Parallel()
	m := memexecutions.New()
	var began atomic.Int32
	m.OnStart(func(memexecutions.Execution) { began.Add(1) })
	var all sync.WaitGroup
	for _, arn := range []string{machineARN, machineARN + ":7", machineARN + ":live"} {
		for _, input := range []string{`{}`, `{"n":1}`} {
			all.Go(func() {
				if state, err := m.Start(t.Context(), arn, "a", []byte(input)); state != executions.Running || err != nil {
					t.Errorf("start = %s, %v", state, err)
				}
			})
		}
	}
	all.Wait()
	if n := len(m.Executions()); n != 1 || began.Load() != 1 {
		t.Errorf("%d executions, %d began; want one", n, began.Load())
	}
	m.End("a", executions.Aborted)
	for _, ask := range []func() (executions.State, error){
		func() (executions.State, error) { return m.Start(t.Context(), machineARN, "a", nil) },
		func() (executions.State, error) { return m.State(t.Context(), machineARN+":8", "a") },
	} {
		if state, err := ask(); state != executions.Aborted || err != nil {
			t.Errorf("after its end: %s, %v", state, err)
		}
	}
	m.Forget("a")
	if state, err := m.State(t.Context(), machineARN, "a"); state != executions.Missing || err != nil {
		t.Errorf("once forgotten: %s, %v", state, err)
	}
}

func TestRequestsAreLostBeforeOrAfterTheyWereCarriedOut(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{true, false} {
		m := memexecutions.New()
		m.Lose(memexecutions.Start, 2, done)
		var got []bool
		for _, name := range []string{"a", "b", "c"} {
			_, err := m.Start(t.Context(), machineARN, name, nil)
			got = append(got, errors.Is(err, memexecutions.ErrLost))
		}
		if diff := cmp.Diff([]bool{false, true, false}, got); diff != "" {
			t.Errorf("lost (-want +got):\n%s", diff)
		}
		state, err := m.State(t.Context(), machineARN, "b")
		if (state == executions.Running) != done || err != nil {
			t.Errorf("carried out %v: it is %s, %v", done, state, err)
		}
	}
	m := memexecutions.New()
	m.Refuse(memexecutions.Start, 1)
	m.Lose(memexecutions.State, 1, true)
	if _, err := m.Start(t.Context(), machineARN, "a", nil); !errors.Is(err, executions.ErrRefused) || len(m.Executions()) != 0 {
		t.Errorf("refused: %v, %d executions", err, len(m.Executions()))
	}
	if _, err := m.State(t.Context(), machineARN, "a"); !errors.Is(err, memexecutions.ErrLost) {
		t.Errorf("lost look: %v", err)
	}
}
