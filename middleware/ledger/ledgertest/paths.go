package ledgertest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// step is one verb, asked so long after the step before.
type step struct {
	verb  int
	after time.Duration
}

// path leads from no record to a record in some state.
type path struct {
	steps  []step
	record ledger.Record
	now    time.Time
}

// atlas holds a shortest path to each state that a record can be in, and for
// each row of the table a path to a record that it moves.
type atlas struct {
	states map[ledger.State]path
	rows   map[string]crossing
}

// crossing is a path and the step that then moves the record by a row.
type crossing struct {
	to   path
	last step
}

// explore walks every verb from every record it meets, breadth first.
var explore = sync.OnceValue(func() atlas {
	a := atlas{states: make(map[ledger.State]path), rows: make(map[string]crossing)}
	seen := make(map[string]bool)
	key := ledger.Key{RunID: "run-1", CallID: "call-1"}
	queue := []path{{now: dawn}}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		if _, ok := a.states[p.record.State()]; !ok {
			a.states[p.record.State()] = p
		}
		forEachVerb(p.record, key, p.now, func(st step, m ledger.Move) {
			if row, err := rowOf(m, p.record); err == nil {
				if _, ok := a.rows[row.Name]; !ok {
					a.rows[row.Name] = crossing{p, st}
				}
			}
			next := p.then(st, m)
			if name := next.landmark(); !m.NotesOnly() && !seen[name] {
				seen[name] = true
				queue = append(queue, next)
			}
		})
	}
	return a
})

func (p path) then(st step, m ledger.Move) path {
	record, err := m.On(p.record)
	if err != nil {
		panic(fmt.Sprintf("ledgertest: %s does not move the record that it was made from: %v", m.Event(), err))
	}
	return path{steps: append(slices.Clip(p.steps), st), record: record, now: p.now.Add(st.after)}
}

// landmark names what the rules can tell apart of a record.
func (p path) landmark() string {
	r := p.record
	return fmt.Sprint(r.State(), min(r.Attempt.Number, 2), len(r.Attempt.Earlier) > 0, min(r.Undo.N, 1), r.Approval.ExpiresAt.IsZero(), r.Approval.ExpiresAt.After(p.now), r.Attempt.Token != "")
}

// walk repeats the path in the store under key, and returns the record.
func (s *suite) walk(t *testing.T, p path, key ledger.Key) ledger.Record {
	t.Helper()
	r := ledger.Record{}
	now := dawn
	for _, st := range p.steps {
		now = now.Add(st.after)
		r = s.send(t, r, ask(t, st, r, key, now))
	}
	return r
}

func ask(t *testing.T, st step, r ledger.Record, key ledger.Key, at time.Time) ledger.Move {
	t.Helper()
	v := verbs()[st.verb]
	m, err := v.ask(r, stamp(at), key)
	if err != nil {
		t.Fatalf("%s on %s: %v", v.name, r.State(), err)
	}
	return m
}

// EachRow calls yield with every row of the table, a record that it moves and a
// move that does so. Rows that no verb leads through are left out; [Exercise]
// fails on them.
func EachRow(yield func(row ledger.Row, before ledger.Record, m ledger.Move)) {
	a := explore()
	for _, row := range ledger.Table() {
		c, ok := a.rows[row.Name]
		if !ok {
			continue
		}
		key := ledger.Key{Tenant: "acme", RunID: "run-1", CallID: "call-1"}
		before := c.to.record
		before.Key = key
		if !before.Exists() {
			before = ledger.Record{}
		}
		m, err := verbs()[c.last.verb].ask(before, stamp(c.to.now.Add(c.last.after)), key)
		if err == nil {
			yield(row, before, m)
		}
	}
}
