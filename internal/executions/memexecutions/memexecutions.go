// Package memexecutions starts executions in memory, for tests. What it starts
// runs until [Machine.End]. Each request can be lost, before or after it was
// carried out, see [Machine.Lose]. Start with [New].
package memexecutions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/onceward/onceward/internal/executions"
)

// ErrLost is what a lost answer looks like; the request may have been carried out.
var ErrLost = errors.New("memexecutions: answer lost")

// Op names a request.
type Op string

// The requests that can be lost or refused.
const (
	Start Op = "start"
	State Op = "state"
)

// Execution is one that was started.
type Execution struct {
	Machine string // ARN that it was started on, as it was given
	Name    string
	Input   json.RawMessage
	State   executions.State
}

// Machine is an [executions.Machine] in memory. It is safe for concurrent use.
type Machine struct {
	mu       sync.Mutex
	started  []Execution // in the order of their starts
	faults   map[Op][]fault
	requests []Op
	onStart  func(Execution)
}

type fault struct {
	after int
	done  bool
	err   error
}

var _ executions.Machine = (*Machine)(nil)

// New returns a machine that has started nothing.
func New() *Machine { return &Machine{faults: make(map[Op][]fault)} }

// Lose makes the nth request (from 1) of that kind from now on answer [ErrLost],
// whether it was carried out or not.
func (m *Machine) Lose(op Op, nth int, done bool) { m.arm(op, fault{nth, done, ErrLost}) }

// Refuse makes the nth request (from 1) of that kind from now on answer
// [executions.ErrRefused].
func (m *Machine) Refuse(op Op, nth int) {
	m.arm(op, fault{nth, false, fmt.Errorf("memexecutions: %w: throttled", executions.ErrRefused)})
}

func (m *Machine) arm(op Op, f fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults[op] = append(m.faults[op], f)
}

// OnStart has f called with each execution that is started from now on, after it
// can be found and before its starter hears of it.
func (m *Machine) OnStart(f func(Execution)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onStart = f
}

// Clear disarms every fault that has not struck yet.
func (m *Machine) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.faults)
}

// End ends the execution of that name on whatever machine.
func (m *Machine) End(name string, as executions.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.started {
		if m.started[i].Name == name {
			m.started[i].State = as
		}
	}
}

// Forget removes the execution of that name, as time removes histories.
func (m *Machine) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started = slices.DeleteFunc(m.started, func(e Execution) bool { return e.Name == name })
}

// Executions returns what was started, in its order.
func (m *Machine) Executions() []Execution {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.started)
}

// Requests returns the kinds of all requests that were made, in their order.
func (m *Machine) Requests() []Op {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// strike says what becomes of a request of this kind.
func (m *Machine) strike(op Op) (carryOut bool, err error) {
	m.requests = append(m.requests, op)
	carryOut = true
	kept := m.faults[op][:0]
	for _, f := range m.faults[op] {
		if f.after--; f.after > 0 {
			kept = append(kept, f)
			continue
		}
		carryOut, err = f.done, f.err
	}
	m.faults[op] = kept
	return carryOut, err
}

// Start implements [executions.Machine].
func (m *Machine) Start(_ context.Context, machine, name string, input json.RawMessage) (executions.State, error) {
	state, began, err := m.start(Execution{Machine: machine, Name: name, Input: bytes.Clone(input), State: executions.Running})
	if began != nil {
		began()
	}
	return state, err
}

func (m *Machine) start(e Execution) (state executions.State, began func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	carryOut, err := m.strike(Start)
	state = m.stateOf(e.Machine, e.Name)
	if state == executions.Missing && carryOut {
		m.started = append(m.started, e)
		state = executions.Running
		if onStart := m.onStart; onStart != nil {
			began = func() { onStart(e) }
		}
	}
	if err != nil {
		return "", began, err
	}
	return state, began, nil
}

// State implements [executions.Machine].
func (m *Machine) State(_ context.Context, machine, name string) (executions.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.strike(State); err != nil {
		return "", err
	}
	return m.stateOf(machine, name), nil
}

func (m *Machine) stateOf(machine, name string) executions.State {
	for _, e := range m.started {
		if e.Name == name && executions.Unversioned(e.Machine) == executions.Unversioned(machine) {
			return e.State
		}
	}
	return executions.Missing
}
