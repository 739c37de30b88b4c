package lambda

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// runtimeAPI is the API, version 2018-06-01, through which a process gets its
// calls and answers them.
func (sb *sandbox) runtimeAPI() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", sb.serveNext)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", sb.serveResponse)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", sb.serveError)
	mux.HandleFunc("POST /2018-06-01/runtime/init/error", sb.serveInitError)
	return mux
}

// serveNext ends the call before, if any, and waits for the next one.
func (sb *sandbox) serveNext(w http.ResponseWriter, r *http.Request) {
	sb.mu.Lock()
	if c := sb.call; c != nil {
		if !c.answered {
			sb.mu.Unlock()
			runtimeError(w, http.StatusForbidden, "InvalidStateTransition", "the current invocation has no answer yet")
			return
		}
		sb.call = nil
		close(c.done)
	}
	if !sb.isReady {
		sb.isReady = true
		close(sb.ready)
	}
	sb.mu.Unlock()

	select {
	case c := <-sb.work:
		sb.hand(w, c)
	case <-r.Context().Done():
	}
}

func (sb *sandbox) hand(w http.ResponseWriter, c *call) {
	sb.mu.Lock()
	sb.call = c
	sb.mu.Unlock()
	if !c.logged {
		sb.log.begin(c.id)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Lambda-Runtime-Aws-Request-Id", c.id)
	h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(c.deadline.UnixMilli(), 10))
	h.Set("Lambda-Runtime-Invoked-Function-Arn", c.arn)
	h.Set("Lambda-Runtime-Trace-Id", c.trace)
	if c.clientContext != "" {
		h.Set("Lambda-Runtime-Client-Context", c.clientContext)
	}
	h.Set("Content-Length", strconv.Itoa(len(c.payload)))
	_, _ = w.Write(c.payload) // a process that is gone is noticed by its exit
}

func (sb *sandbox) serveResponse(w http.ResponseWriter, r *http.Request) {
	body, whole, err := readAnswer(r)
	if err != nil {
		return // the process died while it wrote: it did not answer
	}
	if !whole {
		if sb.answer(w, r, responseTooLarge()) {
			runtimeError(w, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge",
				"Exceeded maximum allowed payload size ("+strconv.Itoa(MaxResponse)+" bytes).")
		}
		return
	}
	out := outcome{payload: body}
	// A handler whose reader failed half-way says so in trailers.
	if kind := r.Trailer.Get("Lambda-Runtime-Function-Error-Type"); kind != "" {
		out.failed = true
		if text, err := base64.StdEncoding.DecodeString(r.Trailer.Get("Lambda-Runtime-Function-Error-Body")); err == nil {
			out.payload = text
		}
	}
	if sb.answer(w, r, out) {
		accepted(w)
	}
}

func (sb *sandbox) serveError(w http.ResponseWriter, r *http.Request) {
	body, whole, err := readAnswer(r)
	if err != nil {
		return
	}
	out := outcome{payload: body, failed: true}
	if !whole {
		out = responseTooLarge()
	}
	if sb.answer(w, r, out) {
		accepted(w)
	}
}

func (sb *sandbox) serveInitError(w http.ResponseWriter, r *http.Request) {
	body, whole, err := readAnswer(r)
	if err != nil || !whole {
		return
	}
	sb.mu.Lock()
	late := sb.isReady
	sb.mu.Unlock()
	if late {
		runtimeError(w, http.StatusForbidden, "InvalidStateTransition", "the sandbox has been initialised")
		return
	}
	kind := r.Header.Get("Lambda-Runtime-Function-Error-Type")
	if kind == "" {
		kind = "Runtime.Unknown"
	}
	select {
	case sb.initErr <- outcome{payload: body, failed: true, status: "error", errorType: kind}:
	default: // the first report counts
	}
	accepted(w)
}

// answer settles the current call if the request is for it; otherwise it
// refuses the request and returns false.
func (sb *sandbox) answer(w http.ResponseWriter, r *http.Request, out outcome) bool {
	sb.mu.Lock()
	c := sb.call
	known := c != nil && c.id == r.PathValue("id")
	repeated := known && c.answered
	if known && !repeated {
		c.answered, c.out = true, out
	}
	sb.mu.Unlock()
	switch {
	case !known:
		runtimeError(w, http.StatusBadRequest, "InvalidRequestID", "Invalid request ID")
	case repeated:
		runtimeError(w, http.StatusForbidden, "InvalidStateTransition", "the invocation has been answered")
	}
	return known && !repeated
}

// readAnswer reads a body of the size a function may answer; false if it was
// larger, with the rest read away.
func readAnswer(r *http.Request) ([]byte, bool, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxResponse+1))
	if err != nil {
		return nil, false, err
	}
	if len(body) > MaxResponse {
		_, err := io.Copy(io.Discard, r.Body)
		return nil, false, err
	}
	// Trailers are there only once the end has been seen.
	if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	return body, true, nil
}

func accepted(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, `{"status":"OK"}`)
}

func runtimeError(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"errorType": kind, "errorMessage": message})
}
