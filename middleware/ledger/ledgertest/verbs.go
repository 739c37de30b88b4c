package ledgertest

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

var dawn = time.Date(2026, 11, 29, 10, 0, 0, int(123*time.Millisecond), time.UTC)

// The times after which the next verb is tried: soon, while deadlines and
// windows are open, and late, when they are over.
const (
	soon     = time.Second
	late     = 2 * time.Hour
	deadline = time.Minute
	quiet    = 2 * time.Minute
	window   = time.Hour
)

// verb is one way to ask for a move. The suite tries every verb on every record
// that it can reach.
type verb struct {
	name string
	ask  func(r ledger.Record, s ledger.Stamp, k ledger.Key) (ledger.Move, error)
}

func stamp(at time.Time) ledger.Stamp { return ledger.Stamp{At: at, WriteID: rand.Text()} }

func call(k ledger.Key) ledger.Call {
	return ledger.Call{
		Key: k, Tool: "issue_credit", Class: "external", Agent: "billing", Turn: 3, Fingerprint: ledger.DigestOf([]byte("asked")),
		Received: ledger.DigestOf([]byte("received")), Summary: `{"account_id":"A1"}`, Permission: "granted by policy",
	}
}

func executor(s ledger.Stamp, attempt int) ledger.Executor {
	return ledger.Executor{Token: ledger.AttemptToken(rand.Text()), Attempt: attempt, Deadline: s.At.Add(deadline), QuietAfter: s.At.Add(quiet), RequestID: "request-1"}
}

func decision(r ledger.Record) ledger.Decision {
	return ledger.Decision{ID: rand.Text(), Actor: "ann", Reason: "looked at the receiver", Version: r.Version}
}

func happened() ledger.Settlement {
	return ledger.Settlement{Effect: ledger.Happened, Result: []byte(`{"credit_id":"cr_9"}`), ExternalID: "cr_9"}
}

func noEffect(retryable bool) ledger.Settlement {
	return ledger.Settlement{Effect: ledger.NoEffect, Retryable: retryable, Code: "declined", Message: "the receiver said no"}
}

func lost() ledger.Settlement {
	return ledger.Settlement{Effect: ledger.Unknown, Code: "timeout", Message: "no answer in time"}
}

func verbs() []verb {
	return append(append(reserving(), settling()...), ruling()...)
}

func reserving() []verb {
	return []verb{
		{"start", func(r ledger.Record, s ledger.Stamp, k ledger.Key) (ledger.Move, error) {
			return r.Start(s, call(k), executor(s, 1))
		}},
		{"start next attempt", func(r ledger.Record, s ledger.Stamp, k ledger.Key) (ledger.Move, error) {
			return r.Start(s, call(k), executor(s, r.Attempt.Number+1))
		}},
		{"ask approval", func(r ledger.Record, s ledger.Stamp, k ledger.Key) (ledger.Move, error) {
			return r.AskApproval(s, call(k), window, 1)
		}},
		{"close", func(r ledger.Record, s ledger.Stamp, k ledger.Key) (ledger.Move, error) {
			return r.Close(s, k, ledger.Settler{Kind: ledger.ByPlanner, ID: "turn 3"})
		}},
		{"follow", func(r ledger.Record, s ledger.Stamp, k ledger.Key) (ledger.Move, error) {
			return r.Follow(s, call(k), ledger.Key{Tenant: k.Tenant, RunID: k.RunID, CallID: "owner"})
		}},
		{"journal what was read", func(r ledger.Record, s ledger.Stamp, k ledger.Key) (ledger.Move, error) {
			return r.Journal(s, call(k), happened())
		}},
		{"journal a failed read", func(r ledger.Record, s ledger.Stamp, k ledger.Key) (ledger.Move, error) {
			return r.Journal(s, call(k), noEffect(false))
		}},
		{"expire", func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) { return r.Expire(s) }},
		{"new policy", func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) { return r.NewPolicy(s, 2) }},
	}
}

func settling() []verb {
	settle := func(what ledger.Settlement) func(ledger.Record, ledger.Stamp, ledger.Key) (ledger.Move, error) {
		return func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) {
			return r.Settle(s, r.Attempt.Token, what)
		}
	}
	look := func(what ledger.Settlement) func(ledger.Record, ledger.Stamp, ledger.Key) (ledger.Move, error) {
		return func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) {
			return r.Look(s, s.At, true, what)
		}
	}
	return []verb{
		{"settle as happened", settle(happened())},
		{"settle as not attempted", settle(noEffect(true))},
		{"settle as rejected", settle(noEffect(false))},
		{"settle as unknown", settle(lost())},
		{"settle as happened, by an earlier attempt", func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) {
			if len(r.Attempt.Earlier) == 0 {
				return ledger.Move{}, ledger.ErrNotAllowed
			}
			return r.Settle(s, r.Attempt.Earlier[0], happened())
		}},
		{"orphan", func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) { return r.Orphan(s) }},
		{"look and find", look(happened())},
		{"look and find nothing", look(noEffect(true))},
		{"close undo as done", func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) {
			return r.CloseUndo(s, r.Undo.N, ledger.Happened)
		}},
		{"close undo as failed", func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) {
			return r.CloseUndo(s, r.Undo.N, ledger.NoEffect)
		}},
		{"note", func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) {
			return r.Note(s, ledger.Entry{Kind: ledger.Find, By: "hook", Reason: "the receiver does not know it yet"})
		}},
	}
}

func ruling() []verb {
	resolve := func(what ledger.Settlement) func(ledger.Record, ledger.Stamp, ledger.Key) (ledger.Move, error) {
		return func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) {
			return r.Resolve(s, decision(r), what)
		}
	}
	return []verb{
		{"approve", func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) {
			return r.Approve(s, decision(r))
		}},
		{"deny", func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) {
			return r.Deny(s, decision(r))
		}},
		{"resolve as completed", resolve(happened())},
		{"resolve as failed", resolve(noEffect(false))},
		{"resolve with a grant", resolve(noEffect(true))},
		{"withdraw", func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) {
			return r.Withdraw(s, decision(r))
		}},
		{"ask undo", func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) {
			return r.AskUndo(s, decision(r), ledger.UndoAsk{KnowsUnknown: true})
		}},
		{"acknowledge", func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) {
			return r.Acknowledge(s, decision(r))
		}},
		{"acknowledge undo", func(r ledger.Record, s ledger.Stamp, _ ledger.Key) (ledger.Move, error) {
			return r.AcknowledgeUndo(s, decision(r), r.Undo.N, true)
		}},
	}
}

// forEachVerb calls yield with every move that is allowed on r, soon and late.
func forEachVerb(r ledger.Record, k ledger.Key, now time.Time, yield func(step, ledger.Move)) {
	for i, v := range verbs() {
		for _, after := range []time.Duration{soon, late} {
			if m, err := v.ask(r, stamp(now.Add(after)), k); err == nil {
				yield(step{verb: i, after: after}, m)
			}
		}
	}
}

// rowOf returns the row by which m moves r.
func rowOf(m ledger.Move, r ledger.Record) (ledger.Row, error) {
	for _, row := range m.Rows() {
		if row.Matches(r.State()) {
			return row, nil
		}
	}
	return ledger.Row{}, fmt.Errorf("no row of %s matches %s", m.Event(), r.State())
}
