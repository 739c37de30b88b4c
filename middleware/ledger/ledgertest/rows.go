package ledgertest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/middleware/ledger"
)

// rows takes each row of the table in turn: it moves the record that it is for,
// in the store as in the rules; and wherever its proof does not hold the record
// stays as it is and comes back with ErrStale.
func (s *suite) rows(t *testing.T) {
	a := explore()
	foreign := s.everyState(t, a)
	t.Cleanup(func() {
		for _, r := range foreign {
			got, err := s.store.Load(context.WithoutCancel(t.Context()), r.Key)
			if diff := gocmp.Diff(r, got); err != nil || diff != "" {
				t.Errorf("a refused move changed a record that was %s: %v (-want +got):\n%s", r.State(), err, diff)
			}
		}
	})
	for _, row := range ledger.Table() {
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			c, ok := a.rows[row.Name]
			if !ok {
				t.Fatal("no verb leads through this row")
			}
			s.moves(t, row, c)
			s.meetsOthers(t, c)
			s.refusesForgedProofs(t, row, c)
			s.refusesOtherStates(t, row, c, foreign)
		})
	}
}

// everyState stores one record in each state that can be reached.
func (s *suite) everyState(t *testing.T, a atlas) []ledger.Record {
	t.Helper()
	var all []ledger.Record
	var flags ledger.Flags
	states := slices.SortedFunc(maps.Keys(a.states), func(a, b ledger.State) int { return cmp.Compare(a.String(), b.String()) })
	for _, state := range states {
		if state.Status == ledger.None {
			continue
		}
		r := s.walk(t, a.states[state], freshKey())
		all = append(all, r)
		flags |= r.Flags
	}
	for _, flag := range ledger.AllFlags() {
		if !flags.Has(flag) {
			t.Errorf("no verb leads to a record that is %s", flag)
		}
	}
	for _, status := range ledger.Statuses() {
		if !slices.ContainsFunc(all, func(r ledger.Record) bool { return r.Status == status }) {
			t.Errorf("no verb leads to a record that is %s", status)
		}
	}
	return all
}

func (s *suite) moves(t *testing.T, row ledger.Row, c crossing) {
	t.Helper()
	key := freshKey()
	before := s.walk(t, c.to, key)
	m := ask(t, c.last, before, key, c.to.now.Add(c.last.after))
	after := s.apply(t, before, m)
	if want := row.After(before.State()); after.State() != want {
		t.Fatalf("leads to %s, want %s", after.State(), want)
	}
	version, rev := before.Version+1, before.Rev
	if row.Event == ledger.Note {
		version, rev = before.Version, before.Rev+1
	}
	if after.Version != version || after.Rev != rev {
		t.Fatalf("version %d rev %d, want version %d rev %d", after.Version, after.Rev, version, rev)
	}
	if row.Event != ledger.Note && after.LastWrite != m.Change().Stamp.WriteID {
		t.Fatalf("last write is %q, want the move's", after.LastWrite)
	}
	s.recognises(t, m, after)
	s.listsAsItShould(t, after)
}

// recognises requires that the move, sent again because its answer was lost, is
// answered as done and changes nothing.
func (s *suite) recognises(t *testing.T, m ledger.Move, after ledger.Record) {
	t.Helper()
	again, err := s.store.Apply(t.Context(), m)
	if err != nil {
		t.Fatalf("its own write sent again: %v", err)
	}
	same(t, m, again, after)
	s.stands(t, after)
}

func (s *suite) listsAsItShould(t *testing.T, r ledger.Record) {
	t.Helper()
	s.eventually(t, func() string {
		records, _, _ := s.listed(t, r.Key.Tenant, 0)
		i := slices.IndexFunc(records, func(l ledger.Record) bool { return l.Key == r.Key && l.Version == r.Version })
		if listed := i >= 0; listed != r.State().Unsettled() {
			return "record is " + r.State().String() + ", and the list of what is unsettled says otherwise"
		}
		return ""
	})
}

// meetsOthers lets every other move that is possible come first: the move then
// does what the rules say, which for most is to be refused.
func (s *suite) meetsOthers(t *testing.T, c crossing) {
	t.Helper()
	var others []step
	forEachVerb(c.to.record, c.to.record.Key, c.to.now, func(st step, _ ledger.Move) {
		if !slices.ContainsFunc(others, func(o step) bool { return o.verb == st.verb }) {
			others = append(others, st)
		}
	})
	for _, other := range others {
		key := freshKey()
		before := s.walk(t, c.to, key)
		m := ask(t, c.last, before, key, c.to.now.Add(c.last.after))
		first := ask(t, other, before, key, c.to.now.Add(other.after))
		current := s.send(t, before, first)
		after := s.apply(t, current, m)
		if m.Proof().Kind == ledger.ByVersion && after.LastWrite == m.Change().Stamp.WriteID && current.Version != before.Version {
			t.Fatalf("%s made %s pass although the version had moved", first.Event(), m.Event())
		}
		if first.NotesOnly() && after.Version == before.Version && !m.NotesOnly() {
			t.Fatalf("evidence made %s stale", m.Event())
		}
		if m.Proof().Kind != ledger.ByVersion { // else its state was read, and the row's own test has looked
			s.listsAsItShould(t, after)
		}
	}
}

// refusesForgedProofs asks for the move with a version, a token or a record that
// is not the stored one.
func (s *suite) refusesForgedProofs(t *testing.T, row ledger.Row, c crossing) {
	t.Helper()
	if row.Proof == ledger.ByAbsence {
		return // meetsOthers lets every other record stand there
	}
	key := freshKey()
	before := s.walk(t, c.to, key)
	for name, forge := range forgeries(row.Proof) {
		claimed := forge(before)
		at := c.to.now.Add(c.last.after)
		m, err := verbs()[c.last.verb].ask(claimed, stamp(at), claimed.Key)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		stands := before
		if claimed.Key != before.Key {
			stands = ledger.Record{}
		}
		s.refuses(t, m, stands, claimed.Key)
	}
	s.stands(t, before)
}

func forgeries(proof ledger.ProofKind) map[string]func(ledger.Record) ledger.Record {
	all := map[string]func(ledger.Record) ledger.Record{
		"no such record": func(r ledger.Record) ledger.Record { r.Key.CallID = "nobody"; return r },
	}
	switch proof {
	case ledger.ByVersion:
		all["the next version"] = func(r ledger.Record) ledger.Record { r.Version++; return r }
		all["a version far ahead"] = func(r ledger.Record) ledger.Record { r.Version += 41; return r }
	case ledger.ByToken:
		all["another's token"] = func(r ledger.Record) ledger.Record { r.Attempt.Token = "stranger"; return r }
		all["a longer token"] = func(r ledger.Record) ledger.Record { r.Attempt.Token += "x"; return r }
	case ledger.ByEarlierToken:
		all["a token of no attempt"] = func(r ledger.Record) ledger.Record {
			r.Attempt.Earlier = []ledger.AttemptToken{"stranger"}
			return r
		}
		all["part of a token"] = func(r ledger.Record) ledger.Record {
			r.Attempt.Earlier = []ledger.AttemptToken{r.Attempt.Earlier[0][:5]}
			return r
		}
	case ledger.ByAbsence, ledger.ByExistence:
	}
	return all
}

func (s *suite) refuses(t *testing.T, m ledger.Move, stands ledger.Record, key ledger.Key) {
	t.Helper()
	got, err := s.store.Apply(t.Context(), m)
	if !errors.Is(err, ledger.ErrStale) {
		t.Fatalf("%s on %s: got error %v, want ErrStale", m.Event(), stands.State(), err)
	}
	same(t, m, got, stands)
	if !stands.Exists() {
		if r := s.load(t, key); r.Exists() {
			t.Fatalf("%s made a record where there was none", m.Event())
		}
	}
}

// refusesOtherStates asks for the move of a record whose version and tokens are
// right and whose state is one that the row is not about: of its own statuses
// every state, of the others one each.
func (s *suite) refusesOtherStates(t *testing.T, row ledger.Row, c crossing, foreign []ledger.Record) {
	t.Helper()
	if row.Proof == ledger.ByAbsence {
		return
	}
	tried := make(map[ledger.Status]bool)
	for _, stands := range foreign {
		if tried[stands.Status] && !slices.Contains(row.From, stands.Status) {
			continue
		}
		tried[stands.Status] = true
		claimed := c.to.record
		claimed.Key, claimed.Version = stands.Key, stands.Version
		claimed.Attempt.Token, claimed.Attempt.Earlier = stands.Attempt.Token, stands.Attempt.Earlier
		if row.Proof == ledger.ByEarlierToken && len(claimed.Attempt.Earlier) == 0 || row.Proof == ledger.ByToken && claimed.Attempt.Token == "" {
			continue
		}
		m, err := verbs()[c.last.verb].ask(claimed, stamp(c.to.now.Add(c.last.after)), claimed.Key)
		if err != nil {
			t.Fatalf("claiming %s: %v", claimed.State(), err)
		}
		if _, err := m.On(stands); err == nil {
			continue // the row, or another of its event, is about this state too
		}
		s.refuses(t, m, stands, stands.Key)
	}
}
