package ledgertest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/onceward/onceward/middleware/ledger"
)

// results come back byte for byte, wherever they lie, and one that can't be kept
// never makes anything but "completed" of a call.
func (s *suite) results(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), ledger.MaxResult/16)
	for name, result := range map[string][]byte{
		"nothing": nil, "empty": {}, "empty text": []byte(`""`), "zero": []byte(`0`), "false": []byte(`false`), "null": []byte(`null`),
		"empty list": []byte(`[]`), "empty object": []byte(`{}`), "not utf-8": {'"', 0xff, 0, '"'},
		"inline": big[:ledger.InlineResult], "beside": big[:ledger.InlineResult+1], "large": big[:100_000], "largest": big[:ledger.MaxResult],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.keeps(t, result)
		})
	}
	t.Run("too large is completed, and not kept", func(t *testing.T) {
		t.Parallel()
		s.completesWithout(t, ledger.Settlement{Effect: ledger.Happened, Result: append(big, '!'), ExternalID: "cr_9"})
	})
	t.Run("not encodable is completed, and not kept", func(t *testing.T) {
		t.Parallel()
		s.completesWithout(t, ledger.Settlement{Effect: ledger.Happened, NotKept: true, ExternalID: "cr_9"})
	})
	t.Run("one that is not what its digest says is corrupt", s.digestIsChecked)
	t.Run("one that is gone is not kept", s.goneIsNotKept)
	t.Run("stays with the call through later moves", s.staysWithCall)
}

// completions are the ways to record a result: in a move, and in a new record.
func (s *suite) completions(t *testing.T, what ledger.Settlement) []ledger.Record {
	t.Helper()
	y := s.storyIn(t)
	y.does("start", soon)
	settle, err := y.r.Settle(stamp(y.now), y.r.Attempt.Token, what)
	if err != nil {
		t.Fatal(err)
	}
	z := s.storyIn(t)
	journal, err := z.r.Journal(stamp(z.now), call(z.key), what)
	if err != nil {
		t.Fatal(err)
	}
	var all []ledger.Record
	for _, m := range []ledger.Move{settle, journal} {
		got, err := s.store.Apply(t.Context(), m)
		if err != nil {
			t.Fatalf("%s: %v", m.Event(), err)
		}
		if got.Status != ledger.Completed {
			t.Fatalf("%s: it is %s, want completed", m.Event(), got.State())
		}
		s.stands(t, got)
		s.recognises(t, m, got)
		all = append(all, got)
	}
	return all
}

func (s *suite) keeps(t *testing.T, result []byte) {
	t.Helper()
	for _, r := range s.completions(t, ledger.Settlement{Effect: ledger.Happened, Result: result}) {
		got, err := s.store.Result(t.Context(), r)
		if len(result) == 0 {
			if !errors.Is(err, ledger.ErrNotKept) {
				t.Fatalf("result of a call without one: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, result) {
			t.Fatalf("got %d bytes, want the %d that were stored", len(got), len(result))
		}
		if ref := r.Outcome.Ref; r.Outcome.Result == nil && (ref.Digest != ledger.DigestOf(result) || ref.Bytes != len(result) || ref.NotKept) {
			t.Fatalf("the record says of its result %+v", ref)
		}
		if len(result) > ledger.InlineResult && r.Outcome.Result != nil {
			t.Fatalf("%d bytes lie in the record", len(result))
		}
	}
}

func (s *suite) completesWithout(t *testing.T, what ledger.Settlement) {
	t.Helper()
	for _, r := range s.completions(t, what) {
		if !r.Outcome.Ref.NotKept || r.Outcome.Result != nil || r.Outcome.ExternalID != "cr_9" {
			t.Fatalf("outcome is %+v, want it not kept, with its external id", r.Outcome)
		}
		if _, err := s.store.Result(t.Context(), r); !errors.Is(err, ledger.ErrNotKept) {
			t.Fatalf("result: %v, want ErrNotKept", err)
		}
	}
}

func (s *suite) digestIsChecked(t *testing.T) {
	t.Parallel()
	for _, r := range s.completions(t, ledger.Settlement{Effect: ledger.Happened, Result: make([]byte, 5000)}) {
		forged := r
		forged.Outcome.Ref.Digest = ledger.DigestOf([]byte("something else"))
		if _, err := s.store.Result(t.Context(), forged); !errors.Is(err, ledger.ErrCorrupt) {
			t.Fatalf("got %v, want ErrCorrupt", err)
		}
	}
}

func (s *suite) goneIsNotKept(t *testing.T) {
	t.Parallel()
	for _, r := range s.completions(t, ledger.Settlement{Effect: ledger.Happened, Result: make([]byte, 5000)}) {
		r.Outcome.Ref.WriteID = "removed"
		if _, err := s.store.Result(t.Context(), r); !errors.Is(err, ledger.ErrNotKept) {
			t.Fatalf("got %v, want ErrNotKept", err)
		}
	}
}

func (s *suite) staysWithCall(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 5000} {
		result := bytes.Repeat([]byte("7"), size)
		for _, r := range s.completions(t, ledger.Settlement{Effect: ledger.Happened, Result: result}) {
			y := &story{s: s, t: t, key: r.Key, now: dawn.Add(late), r: r}
			for _, name := range []string{"ask undo", "close undo as failed", "ask undo", "close undo as done"} {
				y.does(name, soon)
				got, err := s.store.Result(t.Context(), y.r)
				if err != nil || !bytes.Equal(got, result) {
					t.Fatal(fmt.Errorf("after %s: %d bytes: %w", name, len(got), err))
				}
			}
		}
	}
}
