package oncetest_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
	"github.com/onceward/onceward/middleware/once/oncetest"
)

// undoes gives a tool a compensation.
func undoes(compensate func(context.Context, *oncetest.Receiver, ledger.Record) error) func(*oncetest.Receiver, *once.Tool[note, int]) {
	return func(r *oncetest.Receiver, t *once.Tool[note, int]) {
		t.Compensate = func(ctx context.Context, rec ledger.Record, _ note) error { return compensate(ctx, r, rec) }
	}
}

// void undoes what it finds under the call's key.
func void(ctx context.Context, r *oncetest.Receiver, rec ledger.Record) error {
	switch _, found, err := look(ctx, r, rec); {
	case err != nil:
		return once.NotAttempted(err)
	case !found:
		return once.Rejected(errors.New("nothing to void"))
	}
	return voidBlindly(ctx, r, rec)
}

func voidBlindly(ctx context.Context, r *oncetest.Receiver, _ ledger.Record) error {
	return send(ctx, r.Client(), r, func(req *http.Request) { req.URL.Path = "/void" })
}

// voidAs makes whatever goes wrong with a void into one kind of error.
func voidAs(as func(error) error) func(context.Context, *oncetest.Receiver, ledger.Record) error {
	return func(ctx context.Context, r *oncetest.Receiver, rec ledger.Record) error { return as(void(ctx, r, rec)) }
}

// Proves: R111, R142
func TestContractFindsWhatIsWrongWithAnUndo(t *testing.T) {
	t.Parallel()
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		name  string
		build build
		says  string // "" is a tool that keeps its contract
	}{
		{"a good undo", tool(good, undoes(void)), ""},
		{"a good undo of a tool with a look-up that is proof", tool(good, looks(true, honestly), undoes(void)), ""},
		{"an undo by key", tool(good, undoes(void), func(_ *oncetest.Receiver, t *once.Tool[note, int]) { t.CompensateByKey = true }), ""},
		{"of a tool that needs a permission and an approval", tool(good, undoes(void), func(_ *oncetest.Receiver, t *once.Tool[note, int]) {
			t.Permission, t.ApproveWithin = "notes:write", time.Hour
		}), ""},
		{"an undo that does not look first", tool(good, undoes(voidBlindly)), ""},
		{"an undo that trusts the id on record", tool(good, undoes(func(ctx context.Context, r *oncetest.Receiver, rec ledger.Record) error {
			if rec.Outcome.ExternalID == "" {
				return void(ctx, r, rec)
			}
			return send(ctx, r.Client(), r, func(req *http.Request) { req.URL.Path = "/void/" + rec.Outcome.ExternalID })
		})), "send_note: undo of a call that a person has settled: a write names the external id that the person typed"},
		{"an undo that checks the id on record", tool(good, undoes(func(ctx context.Context, r *oncetest.Receiver, rec ledger.Record) error {
			if rec.Outcome.ExternalID != "" {
				return once.Rejected(errors.New("undo it by hand"))
			}
			return void(ctx, r, rec)
		})), ""},
		{"an undo in two writes", tool(good, undoes(func(ctx context.Context, r *oncetest.Receiver, rec ledger.Record) error {
			if err := void(ctx, r, rec); err != nil {
				return err
			}
			if err := confirm(ctx, r); err != nil {
				return once.Landed("", err)
			}
			return nil
		})), ""},
		{"an undo in two writes, the second of which is refused", tool(good, undoes(func(ctx context.Context, r *oncetest.Receiver, rec ledger.Record) error {
			if err := void(ctx, r, rec); err != nil {
				return err
			}
			return confirm(ctx, r)
		})), "send_note: undo, refused at write 2: the outcome says effect none, and the undo took effect: Compensate returns Rejected although"},
		{"everything is called not attempted", tool(good, undoes(voidAs(once.NotAttempted))), "send_note: undo, answer lost: the outcome says effect none, and the undo took effect: Compensate returns NotAttempted although the request may have left"},
		{"everything is called rejected", tool(good, undoes(voidAs(once.Rejected))), "send_note: undo, 500 after the effect: the outcome says effect none, and the undo took effect: Compensate returns Rejected"},
		{"errors are swallowed", tool(good, undoes(voidAs(func(error) error { return nil }))), "send_note: undo, request lost: the outcome says completed, and nothing was undone: Compensate returns nil or Landed"},
		{"nothing to undo is called done", tool(good, undoes(func(ctx context.Context, r *oncetest.Receiver, rec ledger.Record) error {
			if _, found, err := look(ctx, r, rec); err == nil && !found {
				return nil
			}
			return void(ctx, r, rec)
		})), "send_note: undo of an unknown call, whose request lost: the outcome says completed, and nothing was undone"},
		{"no key", tool(good, undoes(func(ctx context.Context, r *oncetest.Receiver, _ ledger.Record) error { return send(ctx, plain, r) })), "send_note: undo, no fault: a write was sent without the undo's key"},
		{"the call's key", tool(good, undoes(func(ctx context.Context, r *oncetest.Receiver, rec ledger.Record) error {
			return send(ctx, plain, r, func(req *http.Request) { req.Header.Set(oncetest.KeyHeader, rec.Key.String()) })
		})), "send_note: undo, no fault: a write was sent without the undo's key"},
		{"a client that retries", tool(good, undoes(func(ctx context.Context, r *oncetest.Receiver, rec ledger.Record) error {
			err := errors.New("not sent")
			for n := 0; err != nil && n < 3; n++ {
				err = voidBlindly(ctx, r, rec)
			}
			return err
		})), "send_note: undo, answer lost: one attempt sent the same write more than once"},
		{"it sends nothing", tool(good, undoes(func(context.Context, *oncetest.Receiver, ledger.Record) error { return errors.New("no such form") })), "send_note: Compensate sent no write, so nothing was checked. The undo was indeterminate, outcome_unknown: the tool failed after its request may have left; the tool's own error: no such form"},
		{"what is destructive", tool(good, undoes(void), func(_ *oncetest.Receiver, t *once.Tool[note, int]) { t.Class = once.Destructive }), "class destructive can't be undone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{TB: t}
			oncetest.AssertContract(r, c.build, note{Text: "x"})
			said := strings.Join(r.said, "\n")
			if c.says == "" && said != "" || !strings.Contains(said, c.says) {
				t.Errorf("said %q, want %q", said, c.says)
			}
		})
	}
}

func TestContractLogsWhatIsUnhelpfulOfAnUndo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		compensate func(context.Context, *oncetest.Receiver, ledger.Record) error
		says       string
	}{
		"a refusal stays unknown": {voidAs(func(err error) error {
			if err != nil {
				return errors.New("something went wrong")
			}
			return nil
		}), "send_note: undo, refused: a definite refusal (422) stays unknown"},
		"it needs the result": {func(ctx context.Context, r *oncetest.Receiver, rec ledger.Record) error {
			if rec.Outcome.Result == nil {
				return once.Rejected(errors.New("which one?"))
			}
			return void(ctx, r, rec)
		}, "send_note: undo of an unknown call, whose answer lost: an effect stands and Compensate does not find it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{TB: t}
			oncetest.AssertContract(r, tool(good, undoes(c.compensate)), note{Text: "x"})
			if said, logged := strings.Join(r.said, "\n"), strings.Join(r.logged, "\n"); said != "" || strings.Count(logged, c.says) != 1 {
				t.Errorf("said %q, logged %q, want %q once", said, logged, c.says)
			}
		})
	}
}

func TestReceiverCountsUndosByTheirKeys(t *testing.T) {
	t.Parallel()
	r := oncetest.NewReceiver(t)
	store, err := memledger.New()
	if err != nil {
		t.Fatal(err)
	}
	guard, err := once.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := once.Bind(guard, tool(good, undoes(void))(r))
	if err != nil {
		t.Fatal(err)
	}
	req := oncetest.NewRequest(t)
	bound.Do(t.Context(), req, note{})
	if r.Undos() != 0 || r.Effects() != 1 {
		t.Errorf("%d undos of %d effects", r.Undos(), r.Effects())
	}
	rec, err := store.Load(t.Context(), req.Key())
	if err != nil {
		t.Fatal(err)
	}
	move, err := rec.AskUndo(ledger.Stamp{At: time.Now(), WriteID: "w"}, ledger.Decision{ID: "d", Actor: "ann", Reason: "wrong", Version: rec.Version}, ledger.UndoAsk{})
	if err == nil {
		_, err = store.Apply(t.Context(), move)
	}
	if err != nil {
		t.Fatal(err)
	}
	req.CallID = req.Key().Undo(1).CallID
	for range 2 {
		if out := bound.Compensate(t.Context(), req, note{}); out.Status != once.Completed {
			t.Errorf("%+v", out)
		}
	}
	if r.Undos() != 1 || r.Effects() != 2 || r.Sends() != 2 {
		t.Errorf("%d undos of %d effects and %d sends", r.Undos(), r.Effects(), r.Sends())
	}
}
