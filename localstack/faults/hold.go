package faults

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"time"
)

// maxHeld is the largest body of a request that is held or sent twice: more
// than DynamoDB's 16 MiB.
const maxHeld = 32 << 20

// receive reads a request to its end and returns it with its body. From then on
// it can be handled later and more than once, see [again], and its sender's end
// does not stop it.
func receive(w http.ResponseWriter, r *http.Request) (*http.Request, []byte) {
	received := r.WithContext(context.WithoutCancel(r.Context()))
	if r.Body == nil {
		return received, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHeld))
	if err != nil {
		// The sender broke off or sends what no service takes: nothing has arrived.
		panic(http.ErrAbortHandler)
	}
	return received, body
}

// again returns a copy of a received request with its body unread.
func again(r *http.Request, body []byte) *http.Request {
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r
}

// delay holds the request or its answer for as long as the rule says, at most
// until the rule is taken out.
func delay(rule *armed, next http.Handler, w http.ResponseWriter, r *http.Request) {
	r, body := receive(w, r)
	if rule.Of == TheRequest {
		rule.hold()
		next.ServeHTTP(w, again(r, body))
		return
	}
	kept := &keptAnswer{header: make(http.Header)}
	next.ServeHTTP(kept, again(r, body))
	rule.hold()
	kept.send(w)
}

func (a *armed) hold() {
	timer := time.NewTimer(a.length())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.out:
	}
}

// duplicate hands the request to the service twice and answers what it says to
// the second.
func duplicate(next http.Handler, w http.ResponseWriter, r *http.Request) {
	r, body := receive(w, r)
	handleUnheard(next, again(r, body))
	next.ServeHTTP(w, again(r, body))
}

// keptAnswer is a ResponseWriter that keeps an answer to send it later.
type keptAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *keptAnswer) Header() http.Header { return k.header }

func (k *keptAnswer) WriteHeader(status int) {
	if k.status == 0 && status >= http.StatusOK { // those below only announce an answer
		k.status = status
	}
}

func (k *keptAnswer) Write(b []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	return k.body.Write(b)
}

func (k *keptAnswer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), k.header)
	k.WriteHeader(http.StatusOK)
	w.WriteHeader(k.status)
	_, _ = w.Write(k.body.Bytes()) // the sender may be gone
}
