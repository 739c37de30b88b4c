package oncetest

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// Fault is what a [Receiver] does to the next write that reaches it.
type Fault uint8

// The faults, by what happens to the effect and what the sender sees.
const (
	LoseAnswer  Fault = iota + 1 // effect happens, connection drops
	DropRequest                  // no effect, connection drops
	Refuse                       // no effect, answers 422
	FailAfter                    // effect happens, answers 500
	Hang                         // effect happens, no answer until the sender gives up
)

// String names the fault.
func (f Fault) String() string {
	switch f {
	case LoseAnswer:
		return "answer lost"
	case DropRequest:
		return "request lost"
	case Refuse:
		return "refused"
	case FailAfter:
		return "500 after the effect"
	case Hang:
		return "no answer"
	}
	return "no fault"
}

// KeyHeader is the header by which a [Receiver] knows a write again.
const KeyHeader = "Idempotency-Key"

// Receiver is an HTTP service that honours [KeyHeader] and counts effects.
// Writes are anything but GET and HEAD; a write that is served with a status
// below 300 is an effect, and the same key gets the same answer without
// another one. It is safe for concurrent use.
type Receiver struct {
	URL string

	mu      sync.Mutex
	service http.Handler
	faults  []Fault
	done    map[string]*httptest.ResponseRecorder // by key
	effects map[string]int                        // by key; "" is without one
	writes  []seenWrite
	closing chan struct{}
}

// seenWrite is a write as it arrived.
type seenWrite struct {
	key  string // of KeyHeader
	what string // method, address and body
	all  string // all of it that may hold a key
}

// NewReceiver starts a receiver that stops with the test.
func NewReceiver(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{done: map[string]*httptest.ResponseRecorder{}, effects: map[string]int{}, closing: make(chan struct{})}
	server := httptest.NewServer(r)
	t.Cleanup(func() {
		close(r.closing)
		server.Close()
	})
	r.URL = server.URL
	return r
}

// Serve lets h answer: every read, and each write that takes effect. Without it
// writes are answered {}, and a read is {} if the key in its query ?key= has
// taken effect, else 404.
func (r *Receiver) Serve(h http.Handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.service = h
}

// Client returns a client through [once.Transport].
func (r *Receiver) Client() *http.Client { return &http.Client{Transport: &once.Transport{}} }

// Next queues faults for the writes to come, one each.
func (r *Receiver) Next(faults ...Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, faults...)
}

// Effects returns how many effects took place, under any key.
func (r *Receiver) Effects() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.effects {
		n += e
	}
	return n
}

// Undos returns how many effects took place under the keys of undos, as the
// voids of a receiver that voids.
func (r *Receiver) Undos() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for text, effects := range r.effects {
		if key, err := ledger.ParseKey(text); err == nil {
			if _, _, undo := key.UndoOf(); undo {
				n += effects
			}
		}
	}
	return n
}

// Sends returns how many writes arrived, replays of a key included.
func (r *Receiver) Sends() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.writes)
}

// Keys returns the keys that writes carried, each once, sorted; "" stands for a
// write without one.
func (r *Receiver) Keys() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := map[string]bool{}
	for _, w := range r.writes {
		keys[w.key] = true
	}
	return slices.Sorted(maps.Keys(keys))
}

// ServeHTTP implements [http.Handler].
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		r.read(w, req)
		return
	}
	fault := r.arrived(req, body)
	switch fault {
	case DropRequest:
		panic(http.ErrAbortHandler)
	case Refuse:
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	case LoseAnswer, FailAfter, Hang:
	}
	answer := r.perform(req)
	switch fault {
	case LoseAnswer:
		panic(http.ErrAbortHandler)
	case FailAfter:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case Hang:
		select {
		case <-req.Context().Done():
		case <-r.closing:
		}
		return
	case DropRequest, Refuse:
	}
	replay(w, answer)
}

func (r *Receiver) read(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	service, known := r.service, r.effects[req.URL.Query().Get("key")] > 0
	r.mu.Unlock()
	switch {
	case service != nil:
		service.ServeHTTP(w, req)
	case known:
		_, _ = io.WriteString(w, "{}")
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// arrived notes the write and takes its fault.
func (r *Receiver) arrived(req *http.Request, body []byte) Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	what := req.Method + " " + req.URL.String() + "\n" + string(body)
	var all strings.Builder
	all.WriteString(what)
	for _, values := range req.Header {
		all.WriteString("\n" + strings.Join(values, "\n"))
	}
	r.writes = append(r.writes, seenWrite{key: req.Header.Get(KeyHeader), what: what, all: all.String()})
	if len(r.faults) == 0 {
		return 0
	}
	fault := r.faults[0]
	r.faults = r.faults[1:]
	return fault
}

// perform lets the write take effect, unless its key has before.
func (r *Receiver) perform(req *http.Request) *httptest.ResponseRecorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := req.Header.Get(KeyHeader)
	if earlier := r.done[key]; key != "" && earlier != nil {
		return earlier
	}
	answer := httptest.NewRecorder()
	if r.service != nil {
		r.service.ServeHTTP(answer, req)
	} else {
		_, _ = answer.WriteString("{}")
	}
	if answer.Code < http.StatusMultipleChoices {
		r.effects[key]++
		r.done[key] = answer
	}
	return answer
}

func replay(w http.ResponseWriter, answer *httptest.ResponseRecorder) {
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}
