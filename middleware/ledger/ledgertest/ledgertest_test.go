package ledgertest_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/ledgertest"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

// flawed is a good store with one flaw.
type flawed struct {
	*memledger.Store
	apply     func(context.Context, *memledger.Store, ledger.Move) (ledger.Record, error)
	load      func(ledger.Record) ledger.Record
	result    func(context.Context, *memledger.Store, ledger.Record) ([]byte, error)
	unsettled func(ledger.Page) ledger.Page
	scan      func(context.Context, *memledger.Store, ledger.Query) (ledger.Page, error)
}

func (f *flawed) Apply(ctx context.Context, m ledger.Move) (ledger.Record, error) {
	if f.apply != nil {
		return f.apply(ctx, f.Store, m)
	}
	return f.Store.Apply(ctx, m)
}

func (f *flawed) Load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	r, err := f.Store.Load(ctx, key)
	if f.load != nil {
		r = f.load(r)
	}
	return r, err
}

func (f *flawed) Result(ctx context.Context, r ledger.Record) ([]byte, error) {
	if f.result != nil {
		return f.result(ctx, f.Store, r)
	}
	return f.Store.Result(ctx, r)
}

func (f *flawed) Unsettled(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	page, err := f.Store.Unsettled(ctx, q)
	if f.unsettled != nil {
		page = f.unsettled(page)
	}
	return page, err
}

func (f *flawed) Scan(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	if f.scan != nil {
		return f.scan(ctx, f.Store, q)
	}
	return f.Store.Scan(ctx, q)
}

type applying = func(context.Context, *memledger.Store, ledger.Move) (ledger.Record, error)

// flaws are mistakes that a store's author could make.
var flaws = map[string]*flawed{
	"a refusal without the record that stands": {apply: func(ctx context.Context, s *memledger.Store, m ledger.Move) (ledger.Record, error) {
		r, err := s.Apply(ctx, m)
		if err != nil {
			r = ledger.Record{}
		}
		return r, err
	}},
	"own writes not recognised": {apply: before(func(m ledger.Move, stands ledger.Record) (ledger.Record, error, bool) {
		return stands, ledger.ErrStale, m.StoredIn(stands)
	})},
	"own starts recognised by their token": {apply: before(func(m ledger.Move, stands ledger.Record) (ledger.Record, error, bool) {
		r, creates := m.Creates()
		return stands, nil, creates && m.Event() == ledger.Start && stands.Attempt.Token == r.Attempt.Token
	})},
	"only the last write recognised, not a decision": {apply: before(func(m ledger.Move, stands ledger.Record) (ledger.Record, error, bool) {
		return stands, ledger.ErrStale, m.StoredIn(stands) && stands.LastWrite != m.Change().Stamp.WriteID && !m.NotesOnly()
	})},
	"everybody wins": {apply: func(ctx context.Context, s *memledger.Store, m ledger.Move) (ledger.Record, error) {
		r, err := s.Apply(ctx, m)
		if errors.Is(err, ledger.ErrStale) && m.Event() == ledger.Start && r.Status == ledger.Started {
			err = nil
		}
		return r, err
	}},
	"a result that is too large fails the call": {apply: func(ctx context.Context, s *memledger.Store, m ledger.Move) (ledger.Record, error) {
		if c := m.Change(); c.Outcome != nil && len(c.Outcome.Result) > ledger.MaxResult {
			return ledger.Record{}, errors.New("too large")
		}
		return s.Apply(ctx, m)
	}},
	"a settlement refused once the call is orphaned": {apply: before(func(m ledger.Move, stands ledger.Record) (ledger.Record, error, bool) {
		return stands, ledger.ErrStale, m.Proof().Kind == ledger.ByToken && stands.Status == ledger.Indeterminate
	})},
	"evidence that stales a decision": {apply: before(func(m ledger.Move, stands ledger.Record) (ledger.Record, error, bool) {
		return stands, ledger.ErrStale, m.Proof().Kind == ledger.ByVersion && stands.Rev != m.Read().Rev
	})},
	"a field that is not stored":   {load: func(r ledger.Record) ledger.Record { r.Attempt.RequestID = ""; return r }},
	"a flag that is not stored":    {load: func(r ledger.Record) ledger.Record { r.Flags &^= ledger.Decided; return r }},
	"times to the second":          {load: func(r ledger.Record) ledger.Record { r.CreatedAt = r.CreatedAt.Truncate(time.Second); return r }},
	"a result whatever its digest": {result: unchecked},
	"contradictions not listed":    {unsettled: without(func(r ledger.Record) bool { return r.Flags.Has(ledger.Contradicted) })},
	"unused grants not listed":     {unsettled: without(func(r ledger.Record) bool { return r.Flags.Has(ledger.Granted) })},
	"the newest first":             {unsettled: func(p ledger.Page) ledger.Page { slices.Reverse(p.Records); return p }},
	"only one page":                {unsettled: func(p ledger.Page) ledger.Page { p.Next = ""; return p }},
	"a scan of one tenant": {scan: func(ctx context.Context, s *memledger.Store, q ledger.Query) (ledger.Page, error) {
		return s.Unsettled(ctx, q)
	}},
	"a scan of one page":      {scan: scanning(func(p *ledger.Page) { p.Next = "" })},
	"a scan that hides waits": {scan: scanning(func(p *ledger.Page) { p.Waits = nil })},
	"a scan of everything for each segment": {scan: func(ctx context.Context, s *memledger.Store, q ledger.Query) (ledger.Page, error) {
		_, _, err := q.Parts()
		if q.Segment, q.Segments = 0, 0; err != nil {
			return ledger.Page{}, err
		}
		return s.Scan(ctx, q)
	}},
	"a scan of no such segment": {scan: func(ctx context.Context, s *memledger.Store, q ledger.Query) (ledger.Page, error) {
		if _, _, err := q.Parts(); err != nil {
			return ledger.Page{}, nil
		}
		return s.Scan(ctx, q)
	}},
	"evidence beyond a list's bound": {load: func(r ledger.Record) ledger.Record { r.Evidence = r.Evidence[:min(len(r.Evidence), 3)]; return r }},
}

// before looks at the record that stands, and answers for the store if it says so.
func before(answer func(ledger.Move, ledger.Record) (ledger.Record, error, bool)) applying {
	return func(ctx context.Context, s *memledger.Store, m ledger.Move) (ledger.Record, error) {
		stands, err := s.Load(ctx, m.Key())
		if err != nil {
			return ledger.Record{}, err
		}
		if r, err, final := answer(m, stands); final && stands.Exists() {
			return r, err
		}
		return s.Apply(ctx, m)
	}
}

func unchecked(ctx context.Context, s *memledger.Store, r ledger.Record) ([]byte, error) {
	stored, err := s.Load(ctx, r.Key)
	if err != nil {
		return nil, err
	}
	if r.Outcome.Ref.WriteID == stored.Outcome.Ref.WriteID {
		r = stored
	}
	return s.Result(ctx, r)
}

func without(hidden func(ledger.Record) bool) func(ledger.Page) ledger.Page {
	return func(p ledger.Page) ledger.Page {
		p.Records = slices.DeleteFunc(p.Records, hidden)
		return p
	}
}

func scanning(change func(*ledger.Page)) func(context.Context, *memledger.Store, ledger.Query) (ledger.Page, error) {
	return func(ctx context.Context, s *memledger.Store, q ledger.Query) (ledger.Page, error) {
		page, err := s.Scan(ctx, q)
		change(&page)
		return page, err
	}
}

const flawVariable = "LEDGERTEST_FLAW"

// TestFlawedStore is run by TestContractCatchesFlaws in a process of its own,
// where it has to fail.
func TestFlawedStore(t *testing.T) {
	name := os.Getenv(flawVariable)
	if name == "" {
		t.Skip("run by TestContractCatchesFlaws")
	}
	f, ok := flaws[name]
	if !ok {
		return
	}
	store, err := memledger.New()
	if err != nil {
		t.Fatal(err)
	}
	f.Store = store
	ledgertest.Exercise(t, ledgertest.Harness{New: func(testing.TB) ledger.Store { return f }, Behind: time.Millisecond, Histories: 1})
}

func TestContractCatchesFlaws(t *testing.T) {
	t.Parallel()
	for _, name := range slices.Sorted(maps.Keys(flaws)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFlawedStore$", "-test.failfast")
			cmd.Env = append(os.Environ(), flawVariable+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL: TestFlawedStore") {
				t.Errorf("the contract holds: %v\n%s", err, out)
			}
		})
	}
}
