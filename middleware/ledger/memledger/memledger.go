// Package memledger keeps a ledger in memory, for tests and demonstrations. It
// follows the same rules as a table does, with the same limits, and forgets
// everything with its process. Each of its durable steps can be made to fail in
// both ways, stored or not and answered or not, see [Fault]; hooks and a log
// let tests interleave and check writes. It refuses to be made inside Lambda.
package memledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/onceward/onceward/middleware/ledger"
)

// ErrInLambda reports that the process runs inside Lambda, whose sandboxes share
// no memory: two of them would both run one call.
var ErrInLambda = errors.New("memledger: sandboxes of a Lambda share no memory; use dynamoledger")

// Store is a [ledger.Store] and a [ledger.Waits] in memory. It is safe for
// concurrent use.
type Store struct {
	mu      sync.Mutex
	records map[ledger.Key]ledger.Record
	results map[resultKey][]byte
	spilled map[ledger.Key][]ledger.Entry
	waits   map[waitKey]ledger.Wait
	faults  []Fault
	counts  map[stepName]int
	log     []Step
	hook    func(Moment)
}

var (
	_ ledger.Store   = (*Store)(nil)
	_ ledger.Waits   = (*Store)(nil)
	_ ledger.Scanner = (*Store)(nil)
)

type resultKey struct {
	call    ledger.Key
	writeID string
}

type waitKey struct {
	call ledger.Key
	id   string
}

// New returns an empty store, or [ErrInLambda] inside Lambda.
func New() (*Store, error) {
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") != "" {
		return nil, ErrInLambda
	}
	return &Store{
		records: make(map[ledger.Key]ledger.Record),
		results: make(map[resultKey][]byte),
		spilled: make(map[ledger.Key][]ledger.Entry),
		waits:   make(map[waitKey]ledger.Wait),
		counts:  make(map[stepName]int),
	}, nil
}

// Load implements [ledger.Store].
func (s *Store) Load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	var found ledger.Record
	err := s.step(ctx, Step{Op: Load, Key: key}, func() error {
		found = s.records[key].Kept()
		return nil
	})
	if err != nil {
		return ledger.Record{}, err
	}
	return found, nil
}

// Apply implements [ledger.Store].
func (s *Store) Apply(ctx context.Context, m ledger.Move) (ledger.Record, error) {
	if len(m.Rows()) == 0 || m.Change().Stamp.WriteID == "" {
		return ledger.Record{}, fmt.Errorf("memledger: %w: a move without a row or a write id", ledger.ErrInvalid)
	}
	if err := m.Key().Check(); err != nil {
		return ledger.Record{}, fmt.Errorf("memledger: %w", err)
	}
	place := s.keepResult(ctx, m)
	var stands ledger.Record
	err := s.step(ctx, Step{Op: Apply, Event: m.Event(), Key: m.Key()}, func() (err error) {
		stands, err = s.apply(m, place)
		return err
	})
	if err != nil && !errors.Is(err, ledger.ErrStale) {
		return ledger.Record{}, err
	}
	return stands, err
}

// apply moves the record. After it the move is durable: whoever loads the
// record finds it, and its sender recognises it by the write's id.
func (s *Store) apply(m ledger.Move, place placement) (ledger.Record, error) {
	current := s.records[m.Key()]
	next, err := m.On(current)
	if err != nil {
		if m.StoredIn(current) {
			return current.Kept(), nil
		}
		return current.Kept(), err
	}
	if place.elsewhere {
		next.Outcome.Result, next.Outcome.Ref = nil, place.ref
	}
	next.Decisions = s.bounded(m.Key(), next.Decisions)
	next.Evidence = s.bounded(m.Key(), next.Evidence)
	next = next.Kept()
	s.records[m.Key()] = next
	return next.Kept(), nil
}

func (s *Store) bounded(key ledger.Key, entries []ledger.Entry) []ledger.Entry {
	older := max(0, len(entries)-ledger.MaxEntries)
	s.spilled[key] = append(s.spilled[key], entries[:older]...)
	return entries[older:]
}

type placement struct {
	elsewhere bool
	ref       ledger.ResultRef
}

// keepResult stores a result that the record can't hold, before the move that
// names it. If we stop after it, nobody names it and nothing has happened to
// the call.
func (s *Store) keepResult(ctx context.Context, m ledger.Move) placement {
	result := resultOf(m)
	if len(result) <= ledger.InlineResult {
		return placement{}
	}
	notKept := placement{elsewhere: true, ref: ledger.ResultRef{NotKept: true}}
	if len(result) > ledger.MaxResult {
		return notKept
	}
	writeID := m.Change().Stamp.WriteID
	err := s.step(ctx, Step{Op: KeepResult, Event: m.Event(), Key: m.Key()}, func() error {
		s.results[resultKey{m.Key(), writeID}] = slices.Clone(result)
		return nil
	})
	if err != nil {
		return notKept
	}
	return placement{elsewhere: true, ref: ledger.ResultRef{WriteID: writeID, Digest: ledger.DigestOf(result), Bytes: len(result)}}
}

func resultOf(m ledger.Move) []byte {
	if r, ok := m.Creates(); ok {
		return r.Outcome.Result
	}
	if outcome := m.Change().Outcome; outcome != nil {
		return outcome.Result
	}
	return nil
}

// Result implements [ledger.Store].
func (s *Store) Result(ctx context.Context, r ledger.Record) ([]byte, error) {
	if r.Outcome.Result != nil {
		return slices.Clone(r.Outcome.Result), nil
	}
	ref := r.Outcome.Ref
	if ref.NotKept || ref.WriteID == "" {
		return nil, ledger.ErrNotKept
	}
	var found []byte
	err := s.step(ctx, Step{Op: Result, Key: r.Key}, func() error {
		found = slices.Clone(s.results[resultKey{r.Key, ref.WriteID}])
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, ledger.ErrNotKept
	case len(found) != ref.Bytes || ledger.DigestOf(found) != ref.Digest:
		return nil, fmt.Errorf("memledger: result of %s: %w: digest differs", r.Key, ledger.ErrCorrupt)
	}
	return found, nil
}

// History returns all decisions and evidence of a call, the spilled ones too,
// oldest first.
func (s *Store) History(ctx context.Context, key ledger.Key) ([]ledger.Entry, error) {
	var all []ledger.Entry
	err := s.step(ctx, Step{Op: History, Key: key}, func() error {
		r := s.records[key]
		all = slices.Concat(s.spilled[key], r.Decisions, r.Evidence)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b ledger.Entry) int { return a.At.Compare(b.At) })
	return all, nil
}
