package ledgertest

import (
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// ownWrites are the stories of writes that were stored and not answered, and are
// sent again by somebody who must find out what became of them.
func (s *suite) ownWrites(t *testing.T) {
	t.Run("a start that was orphaned and settled meanwhile is not its sender's any more", s.startSettledMeanwhile)
	t.Run("a start that was orphaned meanwhile is not its sender's any more", s.startOrphanedMeanwhile)
	t.Run("a decision is recognised by its id after later moves", s.decisionAfterLaterMoves)
	t.Run("a settlement that others moved on from is refused", s.settlementMovedOn)
	t.Run("evidence is recognised after other evidence", s.evidenceAfterOther)
	t.Run("a settlement lands on a record that was orphaned meanwhile, by one write", s.settlesOrphaned)
	t.Run("a settlement keeps a contradiction that its sender has not read", s.settlesContradicted)
	t.Run("a contradiction by an earlier attempt lands on whatever stands now", s.contradictsWhatStands)
	t.Run("a contradiction that a person has acknowledged is not raised again by its second arrival", s.contradictionAcknowledged)
}

// story applies moves one after the other to one record.
type story struct {
	s   *suite
	t   *testing.T
	key ledger.Key
	now time.Time
	r   ledger.Record
}

func (s *suite) story(t *testing.T) *story {
	t.Helper()
	t.Parallel()
	return &story{s: s, t: t, key: freshKey(), now: dawn}
}

// does asks the named verb of the record that stands, applies it and returns it.
func (y *story) does(name string, after time.Duration) ledger.Move {
	y.t.Helper()
	m := y.asks(name, after)
	y.r = y.s.apply(y.t, y.r, m)
	return m
}

func (y *story) asks(name string, after time.Duration) ledger.Move {
	y.t.Helper()
	for i, v := range verbs() {
		if v.name == name {
			y.now = y.now.Add(after)
			return ask(y.t, step{verb: i, after: after}, y.r, y.key, y.now)
		}
	}
	y.t.Fatalf("no verb %q", name)
	return ledger.Move{}
}

// refuses requires that m is refused with the record that stands.
func (y *story) refuses(m ledger.Move) {
	y.t.Helper()
	y.s.refuses(y.t, m, y.r, y.key)
	y.s.stands(y.t, y.r)
}

func (s *suite) startSettledMeanwhile(t *testing.T) {
	y := s.story(t)
	start := y.does("start", soon)
	y.does("orphan", late)
	y.does("resolve as completed", soon)
	y.refuses(start)
}

func (s *suite) startOrphanedMeanwhile(t *testing.T) {
	y := s.story(t)
	y.does("start", soon)
	y.does("settle as not attempted", soon)
	again := y.does("start next attempt", soon)
	y.does("orphan", late)
	y.refuses(again)
}

func (s *suite) decisionAfterLaterMoves(t *testing.T) {
	y := s.story(t)
	y.does("start", soon)
	y.does("settle as unknown", soon)
	resolve := y.does("resolve as completed", soon)
	y.does("ask undo", soon)
	y.does("close undo as failed", soon)
	s.recognises(t, resolve, y.r)
}

func (s *suite) settlementMovedOn(t *testing.T) {
	y := s.story(t)
	y.does("start", soon)
	settle := y.does("settle as happened", soon)
	y.does("ask undo", soon)
	y.refuses(settle)
}

func (s *suite) evidenceAfterOther(t *testing.T) {
	y := s.story(t)
	y.does("start", soon)
	note := y.does("note", soon)
	y.does("note", soon)
	s.recognises(t, note, y.r)
}

func (s *suite) settlesOrphaned(t *testing.T) {
	for _, name := range []string{"settle as happened", "settle as not attempted", "settle as rejected"} {
		y := s.storyIn(t)
		y.does("start", soon)
		m := y.asks(name, soon) // decided while it was started
		y.does("orphan", late)
		y.r = s.apply(t, y.r, m)
		if y.r.Status == ledger.Indeterminate {
			t.Fatalf("%s: still %s", name, y.r.State())
		}
	}
}

// storyIn is story for a test that tells several.
func (s *suite) storyIn(t *testing.T) *story {
	t.Helper()
	return &story{s: s, t: t, key: freshKey(), now: dawn}
}

func (s *suite) settlesContradicted(t *testing.T) {
	y := s.story(t)
	y.does("start", soon)
	y.does("settle as not attempted", soon)
	y.does("start next attempt", soon)
	m := y.asks("settle as happened", soon) // decided before the contradiction
	y.does("settle as happened, by an earlier attempt", soon)
	y.r = s.apply(t, y.r, m)
	if !y.r.Flags.Has(ledger.Contradicted) || !y.r.State().Unsettled() {
		t.Fatalf("it is %s, want it contradicted and listed", y.r.State())
	}
	s.listsAsItShould(t, y.r)
}

func (s *suite) contradictsWhatStands(t *testing.T) {
	for _, meanwhile := range [][]string{{}, {"settle as happened"}, {"settle as unknown"}, {"settle as rejected"}, {"settle as unknown", "resolve with a grant"}} {
		y := s.storyIn(t)
		y.does("start", soon)
		y.does("settle as not attempted", soon)
		y.does("start next attempt", soon)
		m := y.asks("settle as happened, by an earlier attempt", soon)
		for _, name := range meanwhile {
			y.does(name, soon)
		}
		y.r = s.apply(t, y.r, m)
		s.recognises(t, m, y.r)
		s.listsAsItShould(t, y.r)
		other := y.asksAgainBy(m)
		y.refuses(other)
	}
}

func (s *suite) contradictionAcknowledged(t *testing.T) {
	for _, story := range [][]string{
		{"start", "settle as rejected", "settle as happened"},
		{"start", "settle as not attempted", "start next attempt", "settle as happened, by an earlier attempt"},
	} {
		y := s.storyIn(t)
		var raised ledger.Move
		for _, name := range story {
			raised = y.does(name, soon)
		}
		y.does("acknowledge", soon)
		s.recognises(t, raised, y.r)
		s.stands(t, y.r)
		y.does("note", soon)
		s.recognises(t, raised, y.r)
		s.stands(t, y.r)
	}
}

// asksAgainBy makes the same contradiction with another write id.
func (y *story) asksAgainBy(m ledger.Move) ledger.Move {
	y.t.Helper()
	read := m.Read()
	again, err := read.Settle(stamp(y.now), read.Attempt.Earlier[0], happened())
	if err != nil {
		y.t.Fatal(err)
	}
	return again
}

// refusals are the moves that no store should even try.
func (s *suite) refusals(t *testing.T) {
	t.Run("an empty move", func(t *testing.T) {
		t.Parallel()
		if _, err := s.store.Apply(t.Context(), ledger.Move{}); !errors.Is(err, ledger.ErrInvalid) {
			t.Fatalf("got %v, want ErrInvalid", err)
		}
	})
	t.Run("a move without a write id", func(t *testing.T) {
		t.Parallel()
		key := freshKey()
		m, err := ledger.Record{}.Start(ledger.Stamp{At: dawn}, call(key), executor(stamp(dawn), 1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.Apply(t.Context(), m); !errors.Is(err, ledger.ErrInvalid) {
			t.Fatalf("got %v, want ErrInvalid", err)
		}
		if r := s.load(t, key); r.Exists() {
			t.Fatal("something was stored")
		}
	})
	t.Run("a cursor of somebody else's making", func(t *testing.T) {
		t.Parallel()
		for _, cursor := range []string{"?", "bm90IGpzb24", "{}"} {
			if _, err := s.store.Unsettled(t.Context(), ledger.Query{Tenant: freshTenant(), Cursor: cursor}); !errors.Is(err, ledger.ErrInvalid) {
				t.Errorf("cursor %q: got %v, want ErrInvalid", cursor, err)
			}
		}
	})
}
