package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/middleware/ledger"
)

// histories record what several clients did to one call and heard of it, and
// check that the rules explain it: that there is an order of the requests in
// which [ledger.Decide] would have given the same answers. A request whose answer
// is lost may have happened or not.
func (s *suite) histories(t *testing.T) {
	rounds := s.Histories
	if rounds == 0 {
		rounds = 4
	}
	if testing.Short() {
		rounds = min(rounds, 2)
	}
	for round := range rounds {
		seed := uint64(round) + 1
		t.Run(fmt.Sprint("every answer is heard, seed ", seed), func(t *testing.T) {
			t.Parallel()
			s.explains(t, seed, s.store, false)
		})
		t.Run(fmt.Sprint("answers are lost on the way, seed ", seed), func(t *testing.T) {
			t.Parallel()
			s.explains(t, seed, &deaf{Store: s.store, dice: newDice(seed)}, true)
		})
	}
	t.Run("answers are lost below the store", func(t *testing.T) {
		if s.Lossy == nil {
			s.lacks(t, "answers lost below the store")
		}
		for round := range rounds {
			seed := uint64(round) + 1
			s.explains(t, seed, s.Lossy(t, seed), true)
		}
	})
}

const (
	clients = 4
	turns   = 6
)

// dice are safe for concurrent use, unlike the generator inside.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{rng: rand.New(rand.NewPCG(seed, seed))} }

func (d *dice) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// deaf loses requests and answers above a store, and sometimes sends a request
// twice, as a client does that did not hear the first answer.
type deaf struct {
	ledger.Store
	dice *dice
}

var errNotHeard = errors.New("ledgertest: not heard")

func (d *deaf) Apply(ctx context.Context, m ledger.Move) (ledger.Record, error) {
	switch d.dice.roll(8) {
	case 0:
		return ledger.Record{}, errNotHeard // never sent
	case 1:
		_, _ = d.Store.Apply(ctx, m)
		return ledger.Record{}, errNotHeard
	case 2, 3:
		_, _ = d.Store.Apply(ctx, m)
	}
	return d.Store.Apply(ctx, m)
}

// request is what a client asked: to read, or to make a move.
type request struct {
	move  ledger.Move
	reads bool
}

// reply is what it heard. An unknown one says nothing; an echo is the second
// half of a request that may have been sent twice: what it met then.
type reply struct {
	record  ledger.Record
	stale   bool
	unknown bool
}

type recorder struct {
	mu      sync.Mutex
	clock   atomic.Int64
	history []porcupine.Operation
}

func (c *recorder) add(client int, in request, out reply, began, ended int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: began, Return: ended})
}

func (s *suite) explains(t *testing.T, seed uint64, store ledger.Store, lossy bool) {
	t.Helper()
	rec := &recorder{}
	key := freshKey()
	dice := newDice(seed)
	for range turns {
		rec.turn(t, store, key, dice, lossy)
	}
	end := rec.clock.Add(1)
	for i, op := range rec.history {
		if op.Output.(reply).unknown {
			rec.history[i].Return = end // it may still be on its way
		}
	}
	model := rules.ToModel()
	switch porcupine.CheckOperationsTimeout(model, rec.history, time.Minute) {
	case porcupine.Ok:
	case porcupine.Unknown:
		t.Errorf("seed %d: not decided in time", seed)
	case porcupine.Illegal:
		t.Errorf("seed %d: the rules do not explain this history:", seed)
		for _, op := range rec.history {
			t.Logf("client %d [%d, %d] %s", op.ClientId, op.Call, op.Return, rules.DescribeOperation(op.Input, op.Output))
		}
	}
}

// turn lets every client read, pick a move that the rules allow on what it read,
// and make it. Most wait until all have read, so that their moves meet.
func (c *recorder) turn(t *testing.T, store ledger.Store, key ledger.Key, dice *dice, lossy bool) {
	t.Helper()
	var reading, all sync.WaitGroup
	reading.Add(clients)
	for client := range clients {
		all.Go(func() {
			began := c.clock.Add(1)
			r, err := store.Load(t.Context(), key)
			c.add(client, request{reads: true}, reply{record: r, unknown: err != nil}, began, c.clock.Add(1))
			reading.Done()
			if dice.roll(4) > 0 {
				reading.Wait()
			}
			if m, ok := pick(r, key, dice); ok && err == nil {
				c.apply(t.Context(), store, client, m, lossy)
			}
		})
	}
	all.Wait()
}

// pick returns a move that the rules allow on r, and only seldom a note.
func pick(r ledger.Record, key ledger.Key, dice *dice) (ledger.Move, bool) {
	var moves []ledger.Move
	notes := dice.roll(4) == 0
	forEachVerb(r, key, dawn.Add(time.Duration(r.Version)*late), func(_ step, m ledger.Move) {
		if m.NotesOnly() == notes {
			moves = append(moves, m)
		}
	})
	if len(moves) == 0 {
		return ledger.Move{}, false
	}
	return moves[dice.roll(len(moves))], true
}

func (c *recorder) apply(ctx context.Context, store ledger.Store, client int, m ledger.Move, lossy bool) {
	began := c.clock.Add(1)
	r, err := store.Apply(ctx, m)
	ended := c.clock.Add(1)
	stale := errors.Is(err, ledger.ErrStale)
	switch {
	case err != nil && !stale:
		c.add(client, request{move: m}, reply{unknown: true}, began, ended)
	case lossy:
		// It may have been stored by a try that was not heard, and answered by a
		// later one: two requests, the first of which may have done nothing.
		c.add(client, request{move: m}, reply{unknown: true}, began, ended)
		c.add(client, request{move: m}, reply{record: r, stale: stale || m.StoredIn(r)}, began, ended)
	default:
		c.add(client, request{move: m}, reply{record: r, stale: stale}, began, ended)
	}
}

// rules is the model: a record, moved by [ledger.Move.On].
var rules = porcupine.NondeterministicModel{
	Init: func() []any { return []any{ledger.Record{}} },
	Step: func(state, input, output any) []any {
		return next(state.(ledger.Record), input.(request), output.(reply))
	},
	Equal: func(a, b any) bool { return point(a) == point(b) },
	DescribeOperation: func(input, output any) string {
		in, out := input.(request), output.(reply)
		switch {
		case in.reads:
			return "load -> " + point(out.record)
		case out.unknown:
			return string(in.move.Event()) + " -> ?"
		}
		return fmt.Sprintf("%s -> %s, stale %t", in.move.Event(), point(out.record), out.stale)
	},
}

func next(current ledger.Record, in request, out reply) []any {
	switch {
	case in.reads && out.unknown:
		return []any{current}
	case in.reads:
		return if1(alike(current, out.record), current)
	}
	after, err := in.move.On(current)
	switch {
	case out.unknown && err == nil:
		return []any{current, after}
	case out.unknown:
		return []any{current}
	case out.stale: // refused, or recognised as stored already
		return if1(err != nil && alike(current, out.record), current)
	}
	return if1(err == nil && alike(after, out.record), after)
}

// alike reports whether got is want, but for older entries that a store may keep
// beside the record.
func alike(want, got ledger.Record) bool {
	want = want.Kept()
	want.Decisions, want.Evidence = latest(want.Decisions, len(got.Decisions)), latest(want.Evidence, len(got.Evidence))
	return cmp.Equal(want, got)
}

func latest(entries []ledger.Entry, n int) []ledger.Entry {
	if len(entries) > ledger.MaxEntries && n >= ledger.MaxEntries/2 {
		return entries[len(entries)-min(n, len(entries)):]
	}
	return entries
}

func if1(holds bool, state ledger.Record) []any {
	if holds {
		return []any{state}
	}
	return nil
}

// point tells two worlds apart. The order of the evidence belongs to it: a move
// and a note that meet leave the same version, whichever came first.
func point(state any) string {
	r := state.(ledger.Record)
	var noted []string
	for _, e := range r.Evidence {
		noted = append(noted, e.ID)
	}
	return fmt.Sprintf("%s v%d.%d %s %s", r.State(), r.Version, r.Rev, r.LastWrite, strings.Join(noted, " "))
}
