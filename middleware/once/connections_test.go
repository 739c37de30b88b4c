package once_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
	"github.com/onceward/onceward/middleware/once/oncetest"
)

// nobody returns an address at which nobody listens.
func nobody(tb testing.TB) string {
	tb.Helper()
	l := listen(tb)
	if err := l.Close(); err != nil {
		tb.Fatal(err)
	}
	return l.Addr().String()
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	var config net.ListenConfig
	l, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// hearing returns the address of a peer that does handle with each connection,
// and closes it when the test is over, if handle has not.
func hearing(tb testing.TB, handle func(net.Conn)) string {
	tb.Helper()
	l := listen(tb)
	var all sync.WaitGroup
	over := make(chan struct{})
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				handle(conn)
				<-over
				_ = conn.Close()
			})
		}
	})
	tb.Cleanup(func() { _ = l.Close(); close(over); all.Wait() })
	return l.Addr().String()
}

func silent(net.Conn) {}

// Proves: R63, R65, R67
func TestOnlyAWriteThatHadNoConnectionCountsAsNotAttempted(t *testing.T) {
	t.Parallel()
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	over := make(chan struct{}) // net/http dials on for requests to come
	t.Cleanup(func() { close(over) })
	hangingUp := func(conn net.Conn) { _ = conn.Close() }
	reading := func(conn net.Conn) { _, _ = bufio.NewReader(conn).ReadByte(); _ = conn.Close() }
	half := func(conn net.Conn) {
		_, _ = bufio.NewReader(conn).ReadString('\n')
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
		_ = conn.Close()
	}
	unresolved := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("canary: no name server")
	}}
	for name, c := range map[string]struct {
		url  string
		base http.RoundTripper
		says string // "" is unknown
	}{
		"refused":                     {"http://" + nobody(t), fresh(), "the receiver refused the connection"},
		"refused, by default":         {"http://" + nobody(t), nil, "the receiver refused the connection"},
		"refused over TLS":            {"https://" + nobody(t), fresh(), "the receiver refused the connection"},
		"no such name":                {"http://canary.example", dialing((&net.Dialer{Resolver: unresolved}).DialContext), "the receiver's name can't be resolved"},
		"no route":                    {"http://canary.example", dialing(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("canary") }), "no connection came up"},
		"a certificate of no trust":   {untrusted.URL, fresh(), "the TLS handshake failed"},
		"no TLS spoken":               {strings.Replace(httpServer(t), "http:", "https:", 1), fresh(), "the TLS handshake failed"},
		"a handshake that never ends": {"https://" + hearing(t, silent), fresh(), "no connection came up in time"},
		"a dial that never ends":      {"http://canary.example", dialing(func(context.Context, string, string) (net.Conn, error) { <-over; return nil, errors.New("over") }), "no connection came up in time"},
		"a proxy that refuses":        {"https://canary.example", proxied(t, nobody(t)), "the receiver refused the connection"},

		"hung up at once":                        {"http://" + hearing(t, hangingUp), fresh(), ""},
		"reset after the first byte":             {"http://" + hearing(t, reading), fresh(), ""},
		"half an answer":                         {"http://" + hearing(t, half), fresh(), ""},
		"no answer in time":                      {"http://" + hearing(t, silent), fresh(), ""},
		"hung up, behind a proxy":                {"http://canary.example", proxied(t, hearing(t, hangingUp)), ""},
		"refused, by another base":               {"http://" + nobody(t), roundTrip(fresh().RoundTrip), ""},
		"lost by a protocol that was registered": {"http://canary.example", registered(func(*http.Request) (*http.Response, error) { return nil, errors.New("lost") }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := &http.Client{Transport: &once.Transport{Base: c.base}}
			var own error
			timeout := 10 * time.Second
			if strings.Contains(name, "never ends") || strings.Contains(name, "in time") {
				timeout = 300 * time.Millisecond
			}
			tool := once.Tool[struct{}, int]{Name: "send", Class: once.External, Timeout: timeout, Run: func(ctx context.Context, _ struct{}) (int, error) {
				own = post2(ctx, client, c.url)
				return 0, own
			}}
			out := bind(t, newGuard(t, newStore(t)), tool).Do(t.Context(), call1, struct{}{})
			switch {
			case c.says == "" && (out.Status != once.Indeterminate || out.Effect != ledger.Unknown):
				t.Errorf("got %+v", out.Report)
			case c.says != "" && (out.Status != once.Failed || out.Effect != ledger.NoEffect || out.Code != "not_attempted" || out.Message != "nothing was sent: "+c.says):
				t.Errorf("got %+v", out.Report)
			}
			if strings.Contains(out.Message, "canary") || strings.Contains(out.Message, "127.0.0.1") {
				t.Errorf("told %q", out.Message)
			}
			if own == nil {
				t.Error("it was sent")
			}
		})
	}
}

// fresh is net/http's transport without a pool of its own.
func fresh() *http.Transport { return &http.Transport{DisableKeepAlives: true} }

func dialing(dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	t := fresh()
	t.DialContext = dial
	return t
}

func proxied(tb testing.TB, address string) *http.Transport {
	tb.Helper()
	proxy, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, "http://"+address, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	t := fresh()
	t.Proxy = http.ProxyURL(proxy.URL)
	return t
}

func registered(send roundTrip) *http.Transport {
	t := fresh()
	t.RegisterProtocol("http", send)
	return t
}

func httpServer(tb testing.TB) string {
	tb.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	tb.Cleanup(server.Close)
	return server.URL
}

// Of several writes of one attempt, one that had no connection says nothing of
// the others.
func TestWriteWithoutAConnectionSpeaksForItselfOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run    func(first, refused func() error) error
		status once.Status
		sends  int
	}{
		"it is the only one":      {func(_, refused func() error) error { return refused() }, once.Failed, 0},
		"both were refused":       {func(_, refused func() error) error { return errors.Join(refused(), refused()) }, once.Failed, 0},
		"another one left before": {func(first, refused func() error) error { return errors.Join(first(), refused()) }, once.Indeterminate, 1},
		"another one left then": {func(first, refused func() error) error {
			err := refused()
			return errors.Join(first(), err)
		}, once.Indeterminate, 1},
		"another one left beside it": {func(first, refused func() error) error {
			errs := make([]error, 2)
			var both sync.WaitGroup
			both.Go(func() { errs[0] = first() })
			both.Go(func() { errs[1] = refused() })
			both.Wait()
			return errors.Join(errs...)
		}, once.Indeterminate, 1},
		"it is sent again and lands": {func(first, refused func() error) error {
			if refused() == nil {
				return errors.New("sent to nobody")
			}
			return first()
		}, once.Completed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, address := oncetest.NewReceiver(t), nobody(t)
			client := &http.Client{Transport: &once.Transport{Base: fresh()}}
			tool := once.Tool[struct{}, int]{Name: "send", Class: once.External, Run: func(ctx context.Context, _ struct{}) (int, error) {
				return 0, c.run(func() error { return post2(ctx, client, r.URL) }, func() error { return post2(ctx, client, "http://"+address) })
			}}
			out := bind(t, newGuard(t, newStore(t)), tool).Do(t.Context(), call1, struct{}{})
			if out.Status != c.status || r.Sends() != c.sends {
				t.Errorf("got %+v, %d sends", out.Report, r.Sends())
			}
		})
	}
}

// What net/http said stays there for the tool and for observers.
func TestWriteWithoutAConnectionKeepsItsCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("no route")
	client := &http.Client{Transport: &once.Transport{Base: dialing(func(context.Context, string, string) (net.Conn, error) { return nil, cause })}}
	var own error
	tool := once.Tool[struct{}, int]{Name: "send", Class: once.External, Run: func(ctx context.Context, _ struct{}) (int, error) {
		own = post2(ctx, client, "http://pay.example")
		return 0, own
	}}
	bind(t, newGuard(t, newStore(t)), tool).Do(t.Context(), call1, struct{}{})
	if !errors.Is(own, cause) {
		t.Errorf("got %v", own)
	}
}
