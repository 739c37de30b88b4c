package once_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
	"github.com/onceward/onceward/middleware/once/oncetest"
)

// sending returns a tool that sends what build makes through client.
func sending(client *http.Client, build func(context.Context) (*http.Request, error)) once.Tool[struct{}, int] {
	return once.Tool[struct{}, int]{Name: "send", Class: once.External, Run: func(ctx context.Context, _ struct{}) (int, error) {
		req, err := build(ctx)
		if err != nil {
			return 0, once.NotAttempted(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer func() { _ = resp.Body.Close() }()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, err
	}}
}

// dying is a server that answers the first request and, on the same connection,
// reads any other and hangs up. It counts those.
func dying(t *testing.T, protocol2 bool) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var sends atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/warm" {
			_, _ = io.WriteString(w, "ok")
			return
		}
		sends.Add(1)
		panic(http.ErrAbortHandler)
	}))
	server.EnableHTTP2 = protocol2
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, &sends
}

var bodies = map[string]func(context.Context, string) (*http.Request, error){
	"a body that can be read again": func(ctx context.Context, url string) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	},
	"a body that can't": func(ctx context.Context, url string) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodPost, url, io.NopCloser(strings.NewReader("{}")))
	},
	"no body": func(ctx context.Context, url string) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodDelete, url, http.NoBody)
	},
	"a key of the tool's own": func(ctx context.Context, url string) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
		if err == nil {
			req.Header.Set("X-Idempotency-Key", "own")
			req.Header.Set("Idempotency-Key", "own")
		}
		return req, err
	},
}

// Proves: R18, R63
func TestWriteIsSentOnceOnAReusedConnection(t *testing.T) {
	t.Parallel()
	for _, protocol2 := range []bool{false, true} {
		for name, build := range bodies {
			t.Run(name+map[bool]string{true: " over HTTP/2"}[protocol2], func(t *testing.T) {
				t.Parallel()
				server, sends := dying(t, protocol2)
				client := &http.Client{Transport: &once.Transport{Base: server.Client().Transport}}
				tool := sending(client, func(ctx context.Context) (*http.Request, error) {
					warm(ctx, t, client, server.URL)
					return build(ctx, server.URL)
				})
				out := bind(t, newGuard(t, newStore(t)), tool).Do(t.Context(), call1, struct{}{})
				want(t, out.Report, once.Indeterminate, ledger.Unknown, ledger.Park, "outcome_unknown")
				if sends.Load() != 1 {
					t.Errorf("sent %d times", sends.Load())
				}
			})
		}
	}
}

func warm(ctx context.Context, t *testing.T, client *http.Client, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/warm", http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// The test above can fail: without Transport, net/http sends such a write twice.
func TestNetHTTPSendsAWriteWithACanonicalKeyAgain(t *testing.T) {
	t.Parallel()
	server, sends := dying(t, false)
	client := server.Client()
	warm(t.Context(), t, client, server.URL)
	req, err := bodies["a body that can be read again"](t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", "k")
	resp, err := client.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if sends.Load() < 2 {
		t.Errorf("sent %d times: net/http has changed, and Transport may be simpler", sends.Load())
	}
}

// Proves: R18, R19
func TestTransportSendsTheKeyAndOnlyWithWrites(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		transport once.Transport
		method    string
		header    string
		want      string
	}{
		{"by default", once.Transport{}, http.MethodPost, "Idempotency-Key", "acme/r1:c1"},
		{"short", once.Transport{Short: true}, http.MethodPut, "Idempotency-Key", call1.Key().Short()},
		{"under another name", once.Transport{Header: "Request-Id"}, http.MethodPatch, "Request-Id", "acme/r1:c1"},
		{"never with a read", once.Transport{}, http.MethodGet, "Idempotency-Key", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := make(chan []string, 1)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Values(c.header) }))
			t.Cleanup(server.Close)
			client := &http.Client{Transport: &c.transport}
			tool := sending(client, func(ctx context.Context) (*http.Request, error) {
				return http.NewRequestWithContext(ctx, c.method, server.URL, http.NoBody)
			})
			bind(t, newGuard(t, newStore(t)), tool).Do(t.Context(), call1, struct{}{})
			if values := <-got; strings.Join(values, "|") != c.want {
				t.Errorf("header %q, want %q", values, c.want)
			}
		})
	}
}

// Proves: R72
func TestTransportRefusesToSendOutsideAGuardedCall(t *testing.T) {
	t.Parallel()
	r := oncetest.NewReceiver(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.Client().Do(req)
	if err == nil {
		_ = resp.Body.Close()
		t.Error("sent")
	}
	if r.Sends() != 0 {
		t.Errorf("%d sends", r.Sends())
	}
}

// Proves: R90
func TestTransportSendsNoWriteOfALookUp(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(context.Context) context.Context{
		"in its context":              func(ctx context.Context) context.Context { return ctx },
		"in its context, uncancelled": context.WithoutCancel,
		"in no call's context":        func(context.Context) context.Context { return context.WithoutCancel(t.Context()) },
	} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			r, store := oncetest.NewReceiver(t), newStore(t)
			client := r.Client()
			looked, read := 0, 0
			tool := once.Tool[struct{}, int]{
				Name: "send", Class: once.External,
				Run: func(context.Context, struct{}) (int, error) { return 0, errors.New("lost") },
				Reconcile: func(ctx context.Context, _ ledger.Record, _ struct{}) (int, bool, error) {
					looked++
					if resp, err := get(of(ctx), client, r.URL); err == nil {
						read++
						_ = resp.Body.Close()
					}
					req, err := http.NewRequestWithContext(of(ctx), method, r.URL, strings.NewReader("{}"))
					if err != nil {
						return 0, false, err
					}
					resp, err := client.Do(req)
					if err == nil {
						_ = resp.Body.Close()
					}
					return 1, err == nil, err
				},
			}
			b := bind(t, newGuard(t, store), tool)
			for range 3 {
				out := b.Do(t.Context(), call1, struct{}{})
				if out.Status != once.Indeterminate {
					t.Errorf("%s, %s: %+v", name, method, out.Report)
				}
			}
			if r.Sends() != 0 || r.Effects() != 0 || looked < 2 || read != looked {
				t.Errorf("%s, %s: %d writes sent by %d look-ups, which read %d times", name, method, r.Sends(), looked, read)
			}
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// Proves: R18
func TestTransportsRefusalOutsideTheCallsOwnContextProvesNothing(t *testing.T) {
	t.Parallel()
	var other context.Context // of a call that has sent nothing, and whose deadline is over
	var slept atomic.Int64
	slow := once.Tool[struct{}, int]{Name: "other", Class: once.External, Run: func(ctx context.Context, _ struct{}) (int, error) {
		other = context.WithoutCancel(ctx) //nolint:fatcontext // a tool that keeps its context is what the test is about
		return 0, nil
	}}
	clock := func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
	bind(t, newGuard(t, newStore(t), func(o *once.Options) { o.Clock = clock }), slow).Do(t.Context(), call1, struct{}{})
	slept.Store(int64(time.Hour))
	for name, outside := range map[string]func() context.Context{
		"no call's":      func() context.Context { return context.WithoutCancel(t.Context()) },
		"another call's": func() context.Context { return other },
	} {
		r := oncetest.NewReceiver(t)
		client := r.Client()
		g := newGuard(t, newStore(t))
		tool := once.Tool[struct{}, int]{Name: "send", Class: once.External, Run: func(ctx context.Context, _ struct{}) (int, error) {
			if err := post2(ctx, client, r.URL); err != nil {
				t.Error(err)
			}
			return 0, post2(outside(), client, r.URL)
		}}
		out := bind(t, g, tool).Do(t.Context(), call1, struct{}{})
		want(t, out.Report, once.Indeterminate, ledger.Unknown, ledger.Park, "outcome_unknown")
		if r.Sends() != 1 {
			t.Errorf("%s: %d sends", name, r.Sends())
		}
	}
}

func TestFirstWriteThatTransportRefusesIsNotAttempted(t *testing.T) {
	t.Parallel()
	r := oncetest.NewReceiver(t)
	client := r.Client()
	var slept atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
	for before, status := range map[int]once.Status{0: once.Failed, 1: once.Indeterminate} {
		slept.Store(0)
		tool := once.Tool[struct{}, int]{Name: "send", Class: once.External, Run: func(ctx context.Context, _ struct{}) (int, error) {
			for range before {
				if err := post2(ctx, client, r.URL); err != nil {
					return 0, err
				}
			}
			slept.Store(int64(time.Hour)) // the process is frozen past its deadline
			return 1, post2(ctx, client, r.URL)
		}}
		g := newGuard(t, newStore(t), func(o *once.Options) { o.Clock = clock })
		out := bind(t, g, tool).Do(t.Context(), call1, struct{}{})
		if out.Status != status {
			t.Errorf("after %d writes: %+v", before, out.Report)
		}
	}
	if r.Sends() != 1 {
		t.Errorf("%d sends; one was due, before the deadline", r.Sends())
	}
}

func post2(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func TestTransportGivesARequestNoMoreTimeThanItsCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var left time.Duration
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			deadline, _ := r.Context().Deadline()
			left = time.Until(deadline)
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
		})
		client := &http.Client{Transport: &once.Transport{Base: base}}
		tool := sending(client, func(ctx context.Context) (*http.Request, error) {
			time.Sleep(4 * time.Second) // in the bubble's time
			return http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, "http://pay.example", strings.NewReader("{}"))
		})
		bind(t, newGuard(t, newStore(t)), tool).Do(t.Context(), call1, struct{}{})
		if left != 6*time.Second {
			t.Errorf("%v left", left)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestCallFromPanicsOutsideAGuardedCall(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	once.CallFrom(t.Context())
}
