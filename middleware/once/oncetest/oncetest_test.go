package oncetest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

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
	said []string
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
			return errors.Join(send(ctx, r.Client(), r), send(ctx, r.Client(), r, func(req *http.Request) { req.URL.Path = "/confirm" }))
		}), ""},
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
