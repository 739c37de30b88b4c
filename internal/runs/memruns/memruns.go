// Package memruns keeps runs in memory, for tests and for trying things out. It
// keeps the same conditions as the durable store, and can lose any write or any
// answer, see [Store.Lose]. Start with [New]. Nothing survives the process, so
// it must not stand behind more than one.
package memruns

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/onceward/onceward/internal/runs"
)

// ErrLost is what a lost answer looks like; the write may have been stored.
var ErrLost = errors.New("memruns: answer lost")

// Op names a write.
type Op string

// The writes that can be lost.
const (
	Save    Op = "save"
	PutTurn Op = "put turn"
	Hear    Op = "hear"
	Expire  Op = "expire"
)

// Store is a [runs.Store] in memory. It is safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	runs    map[runs.ID]runs.Run
	turns   map[runs.ID][]runs.Turn
	expired map[runs.ID]bool
	faults  map[Op][]fault
	writes  []Op
}

type fault struct {
	after     int
	persisted bool
}

var _ runs.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{runs: map[runs.ID]runs.Run{}, turns: map[runs.ID][]runs.Turn{}, expired: map[runs.ID]bool{}, faults: make(map[Op][]fault)}
}

// Lose makes the nth write (from 1) of that kind from now on answer [ErrLost],
// whether it was persisted or not.
func (s *Store) Lose(op Op, nth int, persisted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[op] = append(s.faults[op], fault{after: nth, persisted: persisted})
}

// Clear disarms every fault that has not struck yet.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.faults)
}

// Writes returns the kinds of all writes that were asked for, in their order.
func (s *Store) Writes() []Op {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.writes)
}

// Expired reports whether the run's turns may go.
func (s *Store) Expired(id runs.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expired[id]
}

// strike says what becomes of a write of this kind.
func (s *Store) strike(op Op) (persist, answer bool) {
	s.writes = append(s.writes, op)
	persist, answer = true, true
	kept := s.faults[op][:0]
	for _, f := range s.faults[op] {
		if f.after--; f.after > 0 {
			kept = append(kept, f)
			continue
		}
		persist, answer = f.persisted, false
	}
	s.faults[op] = kept
	return persist, answer
}

// Load implements [runs.Store].
func (s *Store) Load(_ context.Context, id runs.ID) (runs.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[id], nil
}

// Save implements [runs.Store].
func (s *Store) Save(_ context.Context, r runs.Run) (runs.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	persist, answer := s.strike(Save)
	stands, err := s.runs[r.Key()], error(nil)
	switch {
	case stands.Version != r.Version-1 && stands.LastWrite != r.LastWrite:
		err = fmt.Errorf("%w: version %d, it is at %d", runs.ErrStale, r.Version, stands.Version)
	case persist:
		s.runs[r.Key()], stands = r, r
	}
	if !answer {
		return runs.Run{}, ErrLost
	}
	return stands, err
}

// Turns implements [runs.Store].
func (s *Store) Turns(_ context.Context, id runs.ID, from, to int) ([]runs.Turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []runs.Turn
	for _, t := range s.turns[id] {
		if t.Number >= from && (to == 0 || t.Number <= to) {
			found = append(found, t)
		}
	}
	slices.SortFunc(found, func(a, b runs.Turn) int { return a.Number - b.Number })
	return found, nil
}

// PutTurn implements [runs.Store].
func (s *Store) PutTurn(_ context.Context, id runs.ID, t runs.Turn) (runs.Turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	persist, answer := s.strike(PutTurn)
	t.Heard = nil
	if i := s.find(id, t.Number); i >= 0 {
		t = s.turns[id][i]
	} else if persist {
		s.turns[id] = append(s.turns[id], t)
	}
	if !answer {
		return runs.Turn{}, ErrLost
	}
	return t, nil
}

// Hear implements [runs.Store].
func (s *Store) Hear(_ context.Context, id runs.ID, n int, heard []runs.Heard) ([]runs.Heard, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	persist, answer := s.strike(Hear)
	i := s.find(id, n)
	switch {
	case i < 0:
		return nil, fmt.Errorf("%w: turn %d is not stored", runs.ErrCorrupt, n)
	case s.turns[id][i].Heard != nil:
		heard = s.turns[id][i].Heard
	case persist:
		s.turns[id][i].Heard = slices.Clone(heard)
	}
	if !answer {
		return nil, ErrLost
	}
	return slices.Clone(heard), nil
}

// Expire implements [runs.Store].
func (s *Store) Expire(_ context.Context, r runs.Run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	persist, answer := s.strike(Expire)
	if persist {
		s.expired[r.Key()] = true
	}
	if !answer {
		return ErrLost
	}
	return nil
}

func (s *Store) find(id runs.ID, n int) int {
	return slices.IndexFunc(s.turns[id], func(t runs.Turn) bool { return t.Number == n })
}
