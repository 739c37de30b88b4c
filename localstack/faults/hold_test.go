package faults_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/localstack/faults"
)

// exchange is one request through a plan's middleware, on the bubble's clock.
type exchange struct {
	handledAt, answeredAt time.Duration
	body                  string
	err                   error // of the context that the handler sees, at the end
	answer                *httptest.ResponseRecorder
}

// begin sends a request; what it became may be read once the channel is closed.
func begin(ctx context.Context, plan *faults.Plan) (*exchange, <-chan struct{}) {
	e, start, done := &exchange{answer: httptest.NewRecorder()}, time.Now(), make(chan struct{})
	handler := plan.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.handledAt = time.Since(start)
		body, err := io.ReadAll(r.Body)
		e.body, e.err = string(body), err
		if e.err == nil {
			e.err = r.Context().Err()
		}
		w.Header().Set("X-Kept", "yes")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "done")
	}))
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader("asked"))
	r.Header.Set("X-Amz-Target", putItem)
	go func() {
		defer close(done)
		handler.ServeHTTP(e.answer, r)
		e.answeredAt = time.Since(start)
	}()
	return e, done
}

func TestDelayHoldsTheRequestOrItsAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of      faults.Part
		handled time.Duration
	}{
		{"", 1500 * time.Millisecond},
		{faults.TheRequest, 1500 * time.Millisecond},
		{faults.TheAnswer, 0},
	} {
		t.Run(string(c.of), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				plan := faults.NewPlan(faults.Options{})
				if _, err := plan.Arm(faults.Rule{Effect: faults.Delay, Milliseconds: 1500, Of: c.of}); err != nil {
					t.Fatal(err)
				}
				e, done := begin(t.Context(), plan)
				<-done
				if e.handledAt != c.handled || e.answeredAt != 1500*time.Millisecond {
					t.Errorf("handled after %v, answered after %v", e.handledAt, e.answeredAt)
				}
				if e.body != "asked" || e.answer.Code != http.StatusAccepted || e.answer.Body.String() != "done" || e.answer.Header().Get("X-Kept") != "yes" {
					t.Errorf("asked %q, answered %d %q %v", e.body, e.answer.Code, e.answer.Body, e.answer.Header())
				}
			})
		})
	}
}

func TestDelayedRequestTakesItsEffectThoughTheSenderHangsUp(t *testing.T) {
	t.Parallel()
	for _, of := range faults.Parts() {
		t.Run(string(of), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				plan := faults.NewPlan(faults.Options{})
				if _, err := plan.Arm(faults.Rule{Effect: faults.Delay, Milliseconds: 60_000, Of: of}); err != nil {
					t.Fatal(err)
				}
				ctx, hangUp := context.WithCancel(t.Context())
				e, done := begin(ctx, plan)
				time.Sleep(time.Second)
				hangUp()
				<-done
				if e.err != nil || e.body != "asked" || e.answeredAt != time.Minute {
					t.Errorf("handled %q, ended after %v, %v", e.body, e.answeredAt, e.err)
				}
			})
		})
	}
}

func TestHeldRequestIsHandledWhollyAfterItsConnectionIsGone(t *testing.T) {
	t.Parallel()
	plan := faults.NewPlan(faults.Options{})
	if _, err := plan.Arm(faults.Rule{Effect: faults.Delay, Milliseconds: 3_600_000}); err != nil {
		t.Fatal(err)
	}
	handled, gone := make(chan string, 1), make(chan struct{})
	held := plan.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = r.Context().Err()
		}
		handled <- fmt.Sprintf("%s %v", body, err)
	}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { close(gone) })
		held.ServeHTTP(w, r)
	}))
	defer server.Close()
	conn := dial(t, server.Listener.Addr().String())
	_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: "+putItem+"\r\nContent-Length: 5\r\n\r\nasked")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	<-gone // the server has noticed, while the request is held
	plan.Clear()
	if got := <-handled; got != "asked <nil>" {
		t.Errorf("handled %q", got)
	}
}

func TestTakingADelayOutLetsGoOfWhatItHolds(t *testing.T) {
	t.Parallel()
	for name, takeOut := range map[string]func(*faults.Plan) error{
		"one": func(p *faults.Plan) error { return p.Disarm("slow") },
		"all": func(p *faults.Plan) error { p.Clear(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				plan := faults.NewPlan(faults.Options{})
				if _, err := plan.Arm(faults.Rule{ID: "slow", Effect: faults.Delay, Milliseconds: 60_000}); err != nil {
					t.Fatal(err)
				}
				e, done := begin(t.Context(), plan)
				time.Sleep(time.Second)
				if err := takeOut(plan); err != nil {
					t.Fatal(err)
				}
				<-done
				if e.handledAt != time.Second || e.body != "asked" {
					t.Errorf("handled %q after %v", e.body, e.handledAt)
				}
			})
		})
	}
}

func TestDelayHoldsItsOwnRequestOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := faults.NewPlan(faults.Options{})
		if _, err := plan.Arm(faults.Rule{Effect: faults.Delay, Milliseconds: 1000, Nth: 2}); err != nil {
			t.Fatal(err)
		}
		var got []time.Duration
		var ends []<-chan struct{}
		var all []*exchange
		for range 3 {
			e, done := begin(t.Context(), plan)
			synctest.Wait()
			all, ends = append(all, e), append(ends, done)
		}
		for i, e := range all {
			<-ends[i]
			got = append(got, e.handledAt)
		}
		if diff := cmp.Diff([]time.Duration{0, time.Second, 0}, got); diff != "" {
			t.Errorf("handled after (-want +got):\n%s", diff)
		}
	})
}

func TestDuplicateHandsTheSameRequestOnTwiceInTurn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		first func(http.ResponseWriter)
	}{
		{"first answered", func(w http.ResponseWriter) {
			w.Header().Set("X-First", "yes")
			w.WriteHeader(http.StatusTeapot)
		}},
		{"first connection closed", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			plan := faults.NewPlan(faults.Options{})
			if _, err := plan.Arm(faults.Rule{Effect: faults.Duplicate}); err != nil {
				t.Fatal(err)
			}
			var bodies []string
			ctx, hangUp := context.WithCancel(t.Context())
			handler := plan.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || r.Context().Err() != nil {
					t.Errorf("copy %d: %v, %v", len(bodies)+1, err, r.Context().Err())
				}
				bodies = append(bodies, r.Header.Get("X-Amz-Target")+" "+string(body))
				if len(bodies) == 1 {
					hangUp()
					c.first(w)
					return
				}
				_, _ = io.WriteString(w, "second")
			}))
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader("asked"))
			r.Header.Set("X-Amz-Target", putItem)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if diff := cmp.Diff([]string{putItem + " asked", putItem + " asked"}, bodies); diff != "" {
				t.Errorf("handled (-want +got):\n%s", diff)
			}
			if w.Code != http.StatusOK || w.Body.String() != "second" || w.Header().Get("X-First") != "" {
				t.Errorf("answered %d %q %v", w.Code, w.Body, w.Header())
			}
		})
	}
}
