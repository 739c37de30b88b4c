package oncetest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
	"github.com/onceward/onceward/middleware/once/oncetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type note struct {
	Text string `json:"text"`
}

// recorder notes what a contract check has against a tool.
type recorder struct {
	testing.TB
	said, logged []string
}

func (r *recorder) Logf(format string, args ...any) {
	r.logged = append(r.logged, fmt.Sprintf(format, args...))
}

func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}
func (r *recorder) Helper() {}

// send makes one write through client, with change made to its request.
func send(ctx context.Context, client *http.Client, r *oncetest.Receiver, change ...func(*http.Request)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, strings.NewReader(`{"text":"x"}`))
	if err != nil {
		return once.NotAttempted(err)
	}
	for _, f := range change {
		f(req)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	switch {
	case resp.StatusCode == http.StatusUnprocessableEntity:
		return once.Rejected(errors.New(resp.Status))
	case resp.StatusCode >= http.StatusMultipleChoices:
		return errors.New(resp.Status)
	}
	return nil
}

func confirm(ctx context.Context, r *oncetest.Receiver) error {
	return send(ctx, r.Client(), r, func(req *http.Request) { req.URL.Path = "/confirm" })
}

// look is an honest look-up at the receiver.
func look(ctx context.Context, r *oncetest.Receiver, rec ledger.Record) (int, bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+"?key="+url.QueryEscape(rec.Key.String()), http.NoBody)
	if err != nil {
		return 0, false, err
	}
	resp, err := r.Client().Do(req)
	if err != nil {
		return 0, false, err
	}
	return 1, resp.StatusCode == http.StatusOK, resp.Body.Close()
}

// looks gives a tool a look-up that says what find makes of the honest one.
func looks(proof bool, find func(found bool) bool) func(*oncetest.Receiver, *once.Tool[note, int]) {
	return func(r *oncetest.Receiver, t *once.Tool[note, int]) {
		t.Downstream.AbsenceIsProof = proof
		t.Reconcile = func(ctx context.Context, rec ledger.Record, _ note) (int, bool, error) {
			n, found, err := look(ctx, r, rec)
			return n, find(found), err
		}
	}
}

// every makes whatever went wrong into one kind of error.
func every(as func(error) error) build {
	return tool(func(ctx context.Context, r *oncetest.Receiver) error { return as(good(ctx, r)) })
}

func honestly(found bool) bool { return found }
func always(bool) bool         { return true }
func never(bool) bool          { return false }

type build = func(*oncetest.Receiver) once.Tool[note, int]

func tool(run func(context.Context, *oncetest.Receiver) error, change ...func(*oncetest.Receiver, *once.Tool[note, int])) build {
	return func(r *oncetest.Receiver) once.Tool[note, int] {
		t := once.Tool[note, int]{Name: "send_note", Class: once.External, Run: func(ctx context.Context, _ note) (int, error) { return 1, run(ctx, r) }}
		for _, f := range change {
			f(r, &t)
		}
		return t
	}
}

func good(ctx context.Context, r *oncetest.Receiver) error { return send(ctx, r.Client(), r) }

// Proves: R15, R140, R141, R142
func TestContractFindsWhatTheGuardCantMakeGood(t *testing.T) {
	t.Parallel()
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		name  string
		build build
		says  string // "" is a tool that keeps its contract
	}{
		{"a good tool", tool(good), ""},
		{"a tool that hands the key on by itself", tool(func(ctx context.Context, r *oncetest.Receiver) error {
			return send(ctx, plain, r, func(req *http.Request) { req.Header.Set("X-Request-Id", once.CallFrom(ctx).Key.Short()) })
		}), ""},
		{"two different writes", tool(func(ctx context.Context, r *oncetest.Receiver) error {
			if err := send(ctx, r.Client(), r); err != nil {
				return err
			}
			if err := confirm(ctx, r); err != nil {
				return once.Landed("", err) // the first has landed, whatever became of the second
			}
			return nil
		}), ""},
		{"two different writes, the second of which is refused", tool(func(ctx context.Context, r *oncetest.Receiver) error {
			if err := send(ctx, r.Client(), r); err != nil {
				return err
			}
			return confirm(ctx, r)
		}), "refused at write 2: the outcome says effect none, and an effect stands: Run returns Rejected although"},
		{"a tool with a look-up", tool(good, looks(false, honestly)), ""},
		{"a tool whose look-up is proof", tool(good, looks(true, honestly)), ""},
		{"a tool that needs a permission and an approval", tool(good, func(_ *oncetest.Receiver, t *once.Tool[note, int]) {
			t.Permission, t.ApproveWithin = "notes:write", time.Hour
		}), ""},
		{"everything is called not attempted", every(once.NotAttempted), "send_note: answer lost: the outcome says effect none, and an effect stands: Run returns NotAttempted although the request may have left"},
		{"everything is called rejected", every(once.Rejected), "send_note: 500 after the effect: the outcome says effect none, and an effect stands: Run returns Rejected although"},
		{"everything is called landed", every(func(err error) error { return once.Landed("x", err) }), "send_note: request lost: the outcome says completed, and no effect stands: Run returns success or Landed although its request did not arrive"},
		{"errors are swallowed", every(func(error) error { return nil }), "send_note: refused: the outcome says completed, and no effect stands: Run returns success or Landed although the receiver refused; does it swallow an error"},
		{"a look-up that always finds", tool(good, looks(false, always)), "send_note: request lost: the outcome says completed, and no effect stands: Reconcile returns true although nothing is there"},
		{"a look-up that never finds, as a proof", tool(good, looks(true, never)), "send_note: answer lost: the outcome says effect none, and an effect stands: Reconcile returns false although the effect is there"},
		{"a look-up that never finds", tool(good, looks(false, never)), ""},
		{"a look-up that would write", tool(good, func(r *oncetest.Receiver, t *once.Tool[note, int]) {
			t.Reconcile = func(ctx context.Context, _ ledger.Record, _ note) (int, bool, error) { return 1, true, good(ctx, r) }
		}), "send_note: answer lost: Reconcile tries to write, which once.Transport refused"},
		{"a tool that fails before it sends", tool(func(context.Context, *oncetest.Receiver) error { return errors.New("no such template") }), "nothing was checked; is the example refused? The call was indeterminate, outcome_unknown: the tool failed after its request may have left; the tool's own error: no such template"},
		{"a tool that does not allow the caller", tool(good, func(_ *oncetest.Receiver, t *once.Tool[note, int]) {
			t.Authorize = func(context.Context, once.Request, note) error { return errors.New("only on weekdays") }
		}), "The call was refused, not_authorised: the caller may not make this call; the tool's own error: only on weekdays"},
		{"more than one attempt", tool(good, func(_ *oncetest.Receiver, t *once.Tool[note, int]) { t.Attempts = 3 }), "class external gets exactly one"},
		{"no class", tool(good, func(_ *oncetest.Receiver, t *once.Tool[note, int]) { t.Class = "" }), "Class: is required"},
		{"no key", tool(func(ctx context.Context, r *oncetest.Receiver) error { return send(ctx, plain, r) }), "without the call's key"},
		{"a key by chance", tool(func(ctx context.Context, r *oncetest.Receiver) error {
			return send(ctx, plain, r, func(req *http.Request) { req.Header.Set(oncetest.KeyHeader, rand.Text()) })
		}), "must not depend on the clock or on chance"},
		{"a client that retries", tool(func(ctx context.Context, r *oncetest.Receiver) error {
			err := errors.New("not sent")
			for n := 0; err != nil && n < 3; n++ {
				err = send(ctx, r.Client(), r)
			}
			return err
		}), "is a client retrying?"},
		{"a look-up that writes", tool(good, func(r *oncetest.Receiver, t *once.Tool[note, int]) {
			t.Reconcile = func(ctx context.Context, rec ledger.Record, _ note) (int, bool, error) {
				err := send(ctx, plain, r, func(req *http.Request) { req.Header.Set(oncetest.KeyHeader, rec.Key.String()) })
				return 1, err == nil, err
			}
		}), "the look-up that it asks, sent 1 more writes"},
		{"a read that writes", tool(good, func(_ *oncetest.Receiver, t *once.Tool[note, int]) { t.Class = once.Read }), "is a read and sent"},
		{"a tool that sends nothing", tool(func(context.Context, *oncetest.Receiver) error { return nil }), "nothing was checked"},
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

// What is safe costs a person's time, so it is said, and not failed.
func TestContractLogsWhatIsSafeAndUnhelpful(t *testing.T) {
	t.Parallel()
	vague := func(err error) error {
		if err != nil {
			return errors.New("something went wrong")
		}
		return nil
	}
	for name, c := range map[string]struct {
		build build
		says  string
	}{
		"a refusal stays unknown": {every(vague), "send_note: refused: a definite refusal (422) stays unknown"},
		"a success stays unknown": {every(func(error) error { return errors.New("what was that?") }), "send_note: no fault: the receiver answered and the outcome is unknown"},
		"the look-up is blind":    {tool(good, looks(false, never)), "send_note: answer lost: an effect stands and the look-up does not find it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{TB: t}
			oncetest.AssertContract(r, c.build, note{Text: "x"})
			if said, logged := strings.Join(r.said, "\n"), strings.Join(r.logged, "\n"); said != "" || strings.Count(logged, c.says) != 1 {
				t.Errorf("said %q, logged %q, want %q once", said, logged, c.says)
			}
		})
	}
}

// A wrong word is blamed on who said it, and once.
func TestContractNamesTheOneCause(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	oncetest.AssertContract(r, tool(good, looks(false, always)), note{Text: "x"})
	for _, said := range r.said {
		if !strings.HasSuffix(said, "Reconcile returns true although nothing is there") {
			t.Errorf("said %q", said)
		}
	}
	if len(r.said) != 1 {
		t.Errorf("said %d things", len(r.said))
	}
}

func TestReceiverCountsEffectsByKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault   oncetest.Fault
		effects int
		status  once.Status
	}{
		{0, 1, once.Completed},
		{oncetest.LoseAnswer, 1, once.Indeterminate},
		{oncetest.DropRequest, 0, once.Indeterminate},
		{oncetest.Refuse, 0, once.Failed},
		{oncetest.FailAfter, 1, once.Indeterminate},
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			t.Parallel()
			r := oncetest.NewReceiver(t)
			if c.fault != 0 {
				r.Next(c.fault)
			}
			bound, err := once.Bind(oncetest.NewGuard(t), tool(good)(r))
			if err != nil {
				t.Fatal(err)
			}
			out := bound.Do(t.Context(), oncetest.NewRequest(t), note{})
			if out.Status != c.status || r.Effects() != c.effects || r.Sends() != 1 || len(r.Keys()) != 1 || r.Keys()[0] != out.Key.String() {
				t.Errorf("%s, %d effects, keys %q", out.Status, r.Effects(), r.Keys())
			}
		})
	}
}

func TestReceiverAnswersTheSameKeyWithoutAnotherEffect(t *testing.T) {
	t.Parallel()
	r := oncetest.NewReceiver(t)
	served := 0
	r.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served++
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "%d", served)
	}))
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(oncetest.KeyHeader, "k")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(body) != "1" || resp.StatusCode != http.StatusCreated {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	if r.Effects() != 1 || r.Sends() != 2 {
		t.Errorf("%d effects of %d sends", r.Effects(), r.Sends())
	}
}

func TestHangEndsWithItsSender(t *testing.T) {
	t.Parallel()
	r := oncetest.NewReceiver(t)
	r.Next(oncetest.Hang)
	bound, err := once.Bind(oncetest.NewGuard(t), tool(good, func(_ *oncetest.Receiver, t *once.Tool[note, int]) { t.Timeout = 50_000_000 })(r))
	if err != nil {
		t.Fatal(err)
	}
	out := bound.Do(t.Context(), oncetest.NewRequest(t), note{})
	if out.Status != once.Indeterminate || out.Code != "timeout" || r.Effects() != 1 {
		t.Errorf("%+v, %d effects", out.Report, r.Effects())
	}
}

// Not parallel: its subtests are compared with each other.
func TestRequestsOfSubtestsWithLongNamesAreValid(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"ä b/c", strings.Repeat("long ", 30) + "1", strings.Repeat("long ", 30) + "2"} {
		t.Run(name, func(t *testing.T) {
			req := oncetest.NewRequest(t)
			if err := req.Key().Check(); err != nil || seen[req.RunID] {
				t.Errorf("%q: %v, seen %t", req.RunID, err, seen[req.RunID])
			}
			seen[req.RunID] = true
		})
	}
}
