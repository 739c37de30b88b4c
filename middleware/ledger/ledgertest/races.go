package ledgertest

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/middleware/ledger"
)

func (s *suite) races(t *testing.T) {
	t.Run("of 64 reservations of one key one wins, and the others get its record", s.reservations)
	t.Run("of many decisions one wins, and the others get it", s.decisions)
	t.Run("of an executor and a person one settles", s.executorAgainstPerson)
	t.Run("evidence of many at once is all kept", s.evidence)
}

type answer struct {
	move   ledger.Move
	record ledger.Record
	err    error
}

// atOnce applies all moves at once.
func (s *suite) atOnce(t *testing.T, moves []ledger.Move) []answer {
	t.Helper()
	answers := make([]answer, len(moves))
	begin := make(chan struct{})
	var group sync.WaitGroup
	for i, m := range moves {
		group.Go(func() {
			<-begin
			r, err := s.store.Apply(t.Context(), m)
			answers[i] = answer{m, r, err}
		})
	}
	close(begin)
	group.Wait()
	return answers
}

// oneWon requires that one answer is a success, that the others are ErrStale and
// that all hold one record, which is the stored one.
func (s *suite) oneWon(t *testing.T, answers []answer) ledger.Record {
	t.Helper()
	var won []answer
	for _, a := range answers {
		switch {
		case a.err == nil:
			won = append(won, a)
		case !errors.Is(a.err, ledger.ErrStale):
			t.Fatalf("%s: %v", a.move.Event(), a.err)
		}
	}
	if len(won) != 1 {
		t.Fatalf("%d of %d won, want one", len(won), len(answers))
	}
	winner := won[0].record
	if winner.LastWrite != won[0].move.Change().Stamp.WriteID {
		t.Fatal("the winner got another's record")
	}
	for _, a := range answers {
		if diff := cmp.Diff(winner, a.record); diff != "" {
			t.Fatalf("a loser got another record (-winner +got):\n%s", diff)
		}
	}
	s.stands(t, winner)
	return winner
}

func (s *suite) reservations(t *testing.T) {
	t.Parallel()
	key := freshKey()
	var moves []ledger.Move
	for i := range 64 {
		name := []string{"start", "start", "start", "close", "ask approval"}[i%5]
		y := s.storyIn(t)
		y.key = key
		moves = append(moves, y.asks(name, soon))
	}
	s.oneWon(t, s.atOnce(t, moves))
}

func (s *suite) decisions(t *testing.T) {
	t.Parallel()
	y := s.storyIn(t)
	y.does("start", soon)
	y.does("settle as unknown", soon)
	var moves []ledger.Move
	for i := range 24 {
		moves = append(moves, y.asks([]string{"resolve as completed", "resolve as failed", "resolve with a grant"}[i%3], soon))
	}
	winner := s.oneWon(t, s.atOnce(t, moves))
	if len(winner.Decisions) != 1 {
		t.Fatalf("%d decisions are on the record, want the winner's", len(winner.Decisions))
	}
}

func (s *suite) executorAgainstPerson(t *testing.T) {
	t.Parallel()
	for range 8 {
		y := s.storyIn(t)
		y.does("start", soon)
		settle := y.asks("settle as happened", soon)
		y.does("orphan", late)
		resolve := y.asks("resolve as failed", soon)
		s.oneWon(t, s.atOnce(t, []ledger.Move{settle, resolve}))
	}
}

func (s *suite) evidence(t *testing.T) {
	t.Parallel()
	y := s.storyIn(t)
	y.does("start", soon)
	var moves []ledger.Move
	for range 16 {
		moves = append(moves, y.asks("note", 0))
	}
	for _, a := range s.atOnce(t, moves) {
		if a.err != nil {
			t.Fatal(a.err)
		}
	}
	r := s.load(t, y.key)
	if r.Rev != 16 || r.Version != y.r.Version {
		t.Fatalf("version %d rev %d, want version %d rev 16", r.Version, r.Rev, y.r.Version)
	}
	if len(r.Evidence) > ledger.MaxEntries {
		t.Fatalf("the record holds %d pieces of evidence, want at most %d", len(r.Evidence), ledger.MaxEntries)
	}
	h, ok := s.store.(Historian)
	if !ok {
		s.lacks(t, "history")
	}
	all, err := h.History(t.Context(), y.key)
	if err != nil || len(all) != 16 {
		t.Fatalf("history holds %d pieces of evidence, want 16: %v", len(all), err)
	}
}
