package ledgertest

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

// fields sends records with every field set through the store. What is filled in
// is found by reflection, and so is what came back: a field that a later version
// adds to the record fails here until it is stored.
func (s *suite) fields(t *testing.T) {
	t.Run("every field comes back as it was stored", s.everyField)
	t.Run("times come back to the millisecond", s.times)
	t.Run("text of any script comes back as it was stored", s.text)
}

func (s *suite) everyField(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, names := range [][]string{
		{"ask approval", "approve", "start", "note", "settle as unknown", "resolve with a grant", "start", "settle as happened", "ask undo"},
		{"start", "settle as not attempted", "start next attempt", "settle as happened, by an earlier attempt"},
		{"follow"},
	} {
		y := s.storyIn(t)
		for _, name := range names {
			y.does(name, soon)
			y.sees(seen)
		}
	}
	for _, result := range [][]byte{make([]byte, 3*ledger.InlineResult), make([]byte, ledger.MaxResult+1)} {
		y := s.storyIn(t)
		m, err := y.r.Journal(stamp(y.now), call(y.key), ledger.Settlement{Effect: ledger.Happened, Result: result})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.Apply(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		y.sees(seen)
	}
	for _, leaf := range leaves(reflect.TypeFor[ledger.Record](), "") {
		if !seen[leaf] {
			t.Errorf("no verb sets %s, so nothing proves that it is stored", leaf)
		}
	}
}

// sees notes which fields of the stored record are set.
func (y *story) sees(seen map[string]bool) {
	y.t.Helper()
	r := y.s.load(y.t, y.key)
	mark(reflect.ValueOf(r), "", seen)
}

var timeType = reflect.TypeFor[time.Time]()

// leaves names the fields below typ that are no structs, such as
// "Attempt.Token" or "Decisions.At".
func leaves(typ reflect.Type, name string) []string {
	if typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Struct {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ == timeType {
		return []string{name}
	}
	var all []string
	for field := range typ.Fields() {
		all = append(all, leaves(field.Type, strings.TrimPrefix(name+"."+field.Name, "."))...)
	}
	return all
}

func mark(v reflect.Value, name string, seen map[string]bool) {
	switch {
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			mark(v.Index(i), name, seen)
		}
	case v.Kind() == reflect.Struct && v.Type() != timeType:
		for i := range v.NumField() {
			mark(v.Field(i), strings.TrimPrefix(name+"."+v.Type().Field(i).Name, "."), seen)
		}
	case !v.IsZero():
		seen[name] = true
	}
}

func (s *suite) times(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("far east", 9*60*60)
	for _, at := range []time.Time{
		time.Date(2026, 11, 29, 19, 0, 0, 999_999_999, zone),
		time.Date(1999, 12, 31, 23, 59, 59, 1_000_001, time.UTC),
		time.Date(2286, 11, 20, 17, 46, 39, 5_000_000, time.UTC),
	} {
		y := s.storyIn(t)
		y.now = at
		y.does("ask approval", 0)
		y.does("approve", 0)
		y.does("start", 0)
		if r := s.load(t, y.key); r.CreatedAt.UnixMilli() != at.UnixMilli() || r.CreatedAt.Nanosecond()%int(time.Millisecond) != 0 {
			t.Errorf("created at %s, want %s to the millisecond", r.CreatedAt, at)
		}
	}
}

func (s *suite) text(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", `"quoted" \ {"a":1}`, "zażółć gęślą jaźń", "返金しました", "🧾\u2028line", "#status :value <&>", strings.Repeat("é", 20)} {
		y := s.storyIn(t)
		c := call(y.key)
		c.Summary, c.Agent, c.Permission = text, text, text
		m, err := y.r.Start(stamp(y.now), c, executor(stamp(y.now), 1))
		if err != nil {
			t.Fatal(err)
		}
		y.r = s.apply(t, y.r, m)
		what := noEffect(false)
		what.Code, what.Message, what.ExternalID = text, text, text
		m, err = y.r.Settle(stamp(y.now), y.r.Attempt.Token, what)
		if err != nil {
			t.Fatal(err)
		}
		y.r = s.apply(t, y.r, m)
	}
}

// lists fill a record's bounded lists until older entries leave it.
func (s *suite) lists(t *testing.T) {
	t.Run("decisions", func(t *testing.T) {
		t.Parallel()
		y := s.storyIn(t)
		y.does("ask approval", soon)
		s.fill(t, y, []string{"approve", "new policy"}, func(r ledger.Record) []ledger.Entry { return r.Decisions })
	})
	t.Run("evidence", func(t *testing.T) {
		t.Parallel()
		y := s.storyIn(t)
		y.does("start", soon)
		s.fill(t, y, []string{"note"}, func(r ledger.Record) []ledger.Entry { return r.Evidence })
	})
}

func (s *suite) fill(t *testing.T, y *story, names []string, list func(ledger.Record) []ledger.Entry) {
	t.Helper()
	var written []string
	version, rev := y.r.Version, y.r.Rev
	for i := range 3 * ledger.MaxEntries {
		m := y.asks(names[i%len(names)], time.Millisecond)
		got, err := s.store.Apply(t.Context(), m)
		if err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
		switch c := m.Change(); {
		case c.Decision != nil:
			written = append(written, c.Decision.ID)
		case c.Evidence != nil:
			written = append(written, c.Evidence.ID)
		}
		if m.NotesOnly() {
			rev++
		} else {
			version++
		}
		y.r = got
		s.stands(t, got)
		s.recognises(t, m, got)
		kept := ids(list(got))
		if len(kept) > ledger.MaxEntries || len(kept) < min(len(written), ledger.MaxEntries/2) || !slices.Equal(kept, written[len(written)-len(kept):]) {
			t.Fatalf("after %d entries the record holds %d, want the latest: %v", len(written), len(kept), kept)
		}
		if got.Version != version || got.Rev != rev {
			t.Fatalf("version %d rev %d, want %d and %d", got.Version, got.Rev, version, rev)
		}
	}
	s.remembers(t, y.key, written)
}

func (s *suite) remembers(t *testing.T, key ledger.Key, written []string) {
	t.Helper()
	h, ok := s.store.(Historian)
	if !ok {
		s.lacks(t, "history")
	}
	all, err := h.History(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(all); !slices.Equal(got, written) {
		t.Fatalf("history holds %d entries, want all %d in order", len(got), len(written))
	}
}

func ids(entries []ledger.Entry) []string {
	var all []string
	for _, e := range entries {
		all = append(all, e.ID)
	}
	return all
}
