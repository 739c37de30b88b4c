package dynamoledger_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
)

// only loses the n-th request of a client, or its answer.
func only(n int, how fate) func(int) fate {
	return func(i int) fate {
		if i == n {
			return how
		}
		return passes
	}
}

// Each request of a call loses its answer in turn, or never arrives; the client
// sends it again by itself and may meet its own write.
//
// Proves: R45
func TestLostAnswerOfAnyRequestLeavesOneCompletedCall(t *testing.T) {
	large := bytes.Repeat([]byte("7"), 5000)
	for _, kind := range kinds {
		endpoint := startTable(t, kind)
		for _, how := range []fate{answerLost, requestLost} {
			for n := 1; ; n++ {
				w := newWire(only(n, how))
				s := newStore(t, newClient(endpoint, w, quickRetries), nil)
				r := liveThrough(t, s, large)
				if r.Version != 2 || r.Status != ledger.Completed {
					t.Fatalf("%s, request %d: it is %s at version %d", kind, n, r.State(), r.Version)
				}
				if len(w.sent()) < n {
					if n < 5 {
						t.Fatalf("%s: only %d requests, so little was lost", kind, n)
					}
					break
				}
			}
		}
	}
}

// liveThrough starts and completes a call, answers a repeat of it with its
// result, and returns the record.
func liveThrough(t *testing.T, s *dynamoledger.Store, result []byte) ledger.Record {
	t.Helper()
	key := freshKey()
	r := apply(t, s, start(t, key))
	r = apply(t, s, complete(t, r, result))
	again := refused(t, s, start(t, key))
	got, err := s.Result(t.Context(), again)
	if err != nil || !bytes.Equal(got, result) {
		t.Fatalf("result: %d bytes, %v", len(got), err)
	}
	if again.LastWrite != r.LastWrite {
		t.Fatal("the repeat met another record")
	}
	return again
}

// Proves: R106, R108
func TestLostAnswerOfADecisionIsRecognised(t *testing.T) {
	for _, kind := range kinds {
		endpoint := startTable(t, kind)
		for _, how := range []fate{answerLost, requestLost} {
			key := freshKey()
			calm := newStore(t, newClient(endpoint, nil), nil)
			r := apply(t, calm, start(t, key))
			r = apply(t, calm, must(t)(r.Settle(stamp(), r.Attempt.Token, ledger.Settlement{Effect: ledger.Unknown, Code: "timeout"})))
			s := newStore(t, newClient(endpoint, newWire(only(1, how)), quickRetries), nil)
			r = apply(t, s, must(t)(r.Resolve(stamp(), decision(r), ledger.Settlement{Effect: ledger.Happened})))
			if r.Version != 3 || len(r.Decisions) != 1 {
				t.Errorf("%s: version %d with %d decisions, want 3 with one", kind, r.Version, len(r.Decisions))
			}
		}
	}
}

// When no answer comes at all the store must not guess: the error is none of
// those that say that nothing was stored.
func TestNoAnswerAtAllIsNotTakenForARefusal(t *testing.T) {
	t.Parallel()
	endpoint := startTable(t, dynoxide)
	for name, how := range map[string]fate{"stored": answerLost, "not stored": requestLost} {
		key := freshKey()
		m := start(t, key)
		deaf := newStore(t, newClient(endpoint, newWire(func(int) fate { return how }), quickRetries), nil)
		r, err := deaf.Apply(t.Context(), m)
		if err == nil || errors.Is(err, ledger.ErrStale) || r.Exists() {
			t.Errorf("%s: got %v, %v, want an error that leaves it open", name, r.State(), err)
		}
		calm := newStore(t, newClient(endpoint, nil), nil)
		if r := apply(t, calm, m); r.LastWrite != m.Change().Stamp.WriteID || r.Version != 1 {
			t.Errorf("%s: sent again it is %s at version %d", name, r.State(), r.Version)
		}
	}
}

// A result that can't be stored beside its record never makes anything but
// "completed" of the call.
func TestResultThatCantBeStoredLeavesTheCallCompleted(t *testing.T) {
	t.Parallel()
	endpoint := startTable(t, dynoxide)
	for n, what := range []string{"no answer to the result's put", "it never arrives"} {
		calm := newStore(t, newClient(endpoint, nil), nil)
		r := apply(t, calm, start(t, freshKey()))
		w := newWire(func(i int) fate {
			if i <= 3 { // all tries of the put
				return []fate{answerLost, requestLost}[n]
			}
			return passes
		})
		s := newStore(t, newClient(endpoint, w, quickRetries), nil)
		r = apply(t, s, complete(t, r, make([]byte, 5000)))
		if r.Status != ledger.Completed || !r.Outcome.Ref.NotKept {
			t.Errorf("%s: it is %s, outcome %+v", what, r.State(), r.Outcome.Ref)
		}
		if _, err := s.Result(t.Context(), r); !errors.Is(err, ledger.ErrNotKept) {
			t.Errorf("%s: result: %v, want ErrNotKept", what, err)
		}
		if got, want := w.sent(), append(slices.Repeat([]string{"PutItem"}, 3), "UpdateItem"); !slices.Equal(got, want) {
			t.Errorf("%s: sent %s", what, got)
		}
	}
}
