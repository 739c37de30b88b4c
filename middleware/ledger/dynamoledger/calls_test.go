package dynamoledger_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func stamp() ledger.Stamp { return ledger.Stamp{At: noon, WriteID: rand.Text()} }

func freshKey() ledger.Key {
	return ledger.Key{Tenant: "t" + rand.Text(), RunID: "run-7Q", CallID: "toolu_01"}
}

func call(k ledger.Key) ledger.Call {
	return ledger.Call{
		Key: k, Tool: "issue_credit", Class: "external", Agent: "billing-assistant", Turn: 3,
		Fingerprint: ledger.DigestOf([]byte("asked")), Received: ledger.DigestOf([]byte("received")),
		Summary: `{"account_id":"A1","amount_cents":2500}`, Permission: "credits:write",
	}
}

func executor() ledger.Executor {
	return ledger.Executor{
		Token: ledger.AttemptToken(rand.Text()), Attempt: 1, Deadline: noon.Add(time.Minute), QuietAfter: noon.Add(2 * time.Minute),
		RequestID: "1b2c3d4e-0000-4000-8000-1234567890ab",
	}
}

func start(tb testing.TB, k ledger.Key) ledger.Move {
	tb.Helper()
	return must(tb)(ledger.Record{}.Start(stamp(), call(k), executor()))
}

func complete(tb testing.TB, r ledger.Record, result []byte) ledger.Move {
	tb.Helper()
	return must(tb)(r.Settle(stamp(), r.Attempt.Token, ledger.Settlement{Effect: ledger.Happened, Result: result, ExternalID: "cr_9"}))
}

func decision(r ledger.Record) ledger.Decision {
	return ledger.Decision{ID: rand.Text(), Actor: "ann", Reason: "looked", Version: r.Version}
}

// must returns a move that the rules have to allow.
func must(tb testing.TB) func(ledger.Move, error) ledger.Move {
	tb.Helper()
	return func(m ledger.Move, err error) ledger.Move {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return m
	}
}

func apply(tb testing.TB, s ledger.Store, m ledger.Move) ledger.Record {
	tb.Helper()
	r, err := s.Apply(tb.Context(), m)
	if err != nil {
		tb.Fatalf("%s: %v", m.Event(), err)
	}
	return r
}
