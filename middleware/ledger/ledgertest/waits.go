package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/middleware/ledger"
)

// ExerciseWaits runs the contract of [ledger.Waits] on the harness's store, or
// skips if it is not one.
func ExerciseWaits(t *testing.T, h Harness) {
	t.Helper()
	s := &suite{Harness: h, store: h.New(t)}
	waits, ok := s.store.(ledger.Waits)
	if !ok {
		s.lacks(t, "waits")
	}
	w := waitSuite{s, waits}
	for name, run := range map[string]func(*testing.T){
		"a wait comes back as it was saved":              w.comesBack,
		"saving again changes nothing":                   w.savedAgain,
		"the oldest comes first":                         w.oldestFirst,
		"of two confirmations the first word stays":      w.firstWordStays,
		"a wait saved after it was confirmed stays rung": w.staysRung,
		"a confirmation that overtakes its save is kept": w.overtaken,
		"a wait has the calls of its own key only":       w.ofItsCall,
		"a wait without a key or an id is refused":       w.refused,
		"saved and confirmed by many at once":            w.many,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t)
		})
	}
}

type waitSuite struct {
	*suite
	waits ledger.Waits
}

func wait(k ledger.Key, id string) ledger.Wait {
	return ledger.Wait{Key: k, ID: id, Token: ledger.Secret("token of " + id), Execution: "arn:aws:states:eu-west-1:123456789012:execution:agent-run:" + id, ParkedAt: dawn}
}

func (s waitSuite) saves(t *testing.T, w ledger.Wait) {
	t.Helper()
	if err := s.waits.SaveWait(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

func (s waitSuite) confirms(t *testing.T, w ledger.Wait, how string, at time.Time) {
	t.Helper()
	if err := s.waits.ConfirmWait(t.Context(), w, how, at); err != nil {
		t.Fatal(err)
	}
}

func (s waitSuite) holds(t *testing.T, k ledger.Key, want ...ledger.Wait) {
	t.Helper()
	got, err := s.waits.Waits(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("waits differ (-want +got):\n%s", diff)
	}
}

func (s waitSuite) comesBack(t *testing.T) {
	w := wait(freshKey(), "wait-1")
	w.Token = ledger.Secret(strings.Repeat("T", 2048))
	w.ParkedAt = dawn.Add(999_999)
	s.saves(t, w)
	w.ParkedAt = dawn
	s.holds(t, w.Key, w)
	s.holds(t, freshKey())
}

func (s waitSuite) savedAgain(t *testing.T) {
	w := wait(freshKey(), "wait-1")
	s.saves(t, w)
	again := w
	again.Token, again.ParkedAt = "another", dawn.Add(late)
	s.saves(t, again)
	s.holds(t, w.Key, w)
}

func (s waitSuite) oldestFirst(t *testing.T) {
	k := freshKey()
	var want []ledger.Wait
	for i := range 12 {
		w := wait(k, fmt.Sprint("wait-", 50-i))
		w.ParkedAt = dawn.Add(time.Duration(i) * time.Second)
		want = append(want, w)
	}
	for _, w := range slices.Backward(want) {
		s.saves(t, w)
	}
	s.holds(t, k, want...)
}

func (s waitSuite) firstWordStays(t *testing.T) {
	w := wait(freshKey(), "wait-1")
	s.saves(t, w)
	s.confirms(t, w, "rung", dawn.Add(soon))
	s.confirms(t, w, "timed out", dawn.Add(late))
	w.RungAt, w.How, w.Token = dawn.Add(soon), "rung", ""
	s.holds(t, w.Key, w)
}

func (s waitSuite) staysRung(t *testing.T) {
	w := wait(freshKey(), "wait-1")
	s.saves(t, w)
	s.confirms(t, w, "rung", dawn.Add(soon))
	s.saves(t, w)
	w.RungAt, w.How, w.Token = dawn.Add(soon), "rung", ""
	s.holds(t, w.Key, w)
	s.seesWaits(t, w.Key.Tenant, 0)
}

func (s waitSuite) overtaken(t *testing.T) {
	w := wait(freshKey(), "wait-1")
	s.confirms(t, w, "rung", dawn.Add(soon))
	s.saves(t, w)
	got, err := s.waits.Waits(t.Context(), w.Key)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !got[0].Rung() || got[0].How != "rung" || got[0].Token != "" {
		t.Fatalf("got %v, want the wait as rung, without a token", got)
	}
	s.seesWaits(t, w.Key.Tenant, 0)
}

func (s waitSuite) ofItsCall(t *testing.T) {
	k := freshKey()
	longer := k
	longer.CallID += "1" // a key that begins like the other
	s.saves(t, wait(k, "wait-1"))
	s.saves(t, wait(longer, "wait-1"))
	s.holds(t, k, wait(k, "wait-1"))
	s.holds(t, longer, wait(longer, "wait-1"))
}

func (s waitSuite) refused(t *testing.T) {
	for _, w := range []ledger.Wait{wait(ledger.Key{}, "wait-1"), wait(freshKey(), "")} {
		if err := s.waits.SaveWait(t.Context(), w); !errors.Is(err, ledger.ErrInvalid) {
			t.Errorf("save: got %v, want ErrInvalid", err)
		}
		if err := s.waits.ConfirmWait(t.Context(), w, "rung", dawn); !errors.Is(err, ledger.ErrInvalid) {
			t.Errorf("confirm: got %v, want ErrInvalid", err)
		}
	}
}

func (s waitSuite) many(t *testing.T) {
	k := freshKey()
	w := wait(k, "wait-1")
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			if err := s.waits.SaveWait(t.Context(), w); err != nil {
				t.Error(err)
			}
			if err := s.waits.ConfirmWait(t.Context(), w, fmt.Sprint("ringer ", i), dawn); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	got, err := s.waits.Waits(t.Context(), k)
	if err != nil || len(got) != 1 || !got[0].Rung() || got[0].Token != "" || !got[0].ParkedAt.Equal(w.ParkedAt) {
		t.Fatalf("got %v, %v, want one wait, rung, without its token", got, err)
	}
}
