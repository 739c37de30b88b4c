package lambda

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// Invocation is one synchronous request to run a function.
type Invocation struct {
	// Function is a name, partial ARN or ARN, with or without a qualifier.
	Function string
	// Qualifier is $LATEST or an alias; empty means $LATEST.
	Qualifier string
	// Payload is JSON of at most [MaxRequest] bytes; empty means {}.
	Payload []byte
	// ClientContext is JSON handed on to the function.
	ClientContext string
	// TraceID is an X-Ray trace header handed on; empty means a new one.
	TraceID string
}

// Result is what running a function gave.
type Result struct {
	// RequestID names the invocation in logs and errors.
	RequestID string
	// Version is the version that ran.
	Version string
	// FunctionError is "Unhandled" if the function failed, empty if it answered.
	FunctionError string
	// Payload is the function's answer, or errorType and errorMessage as JSON.
	Payload []byte
	// LogTail is the last 4 KiB of the invocation's log.
	LogTail []byte
	// TraceID is the trace header that the function got.
	TraceID string
}

// Invoke runs a function and waits for its answer. A function that failed,
// timed out or died is a Result with FunctionError, and may have had its
// effect. An [*APIError] or [ErrClosed] means that it was not entered. When
// ctx ends, Invoke returns its error at once and the sandbox goes on, as on
// AWS: the effect is unknown.
func (s *Supervisor) Invoke(ctx context.Context, in Invocation) (Result, error) {
	p, c, err := s.prepare(in)
	if err != nil {
		return Result{}, err
	}
	if err := s.enter(p); err != nil {
		return Result{}, err
	}
	type ending struct {
		result Result
		err    error
	}
	ended := make(chan ending, 1)
	detached := context.WithoutCancel(ctx)
	go func() {
		result, err := s.run(detached, p, c)
		s.leave(p) // before anybody hears of it and asks again
		ended <- ending{result, err}
	}()
	select {
	case e := <-ended:
		return e.result, e.err
	case <-ctx.Done():
		return Result{}, fmt.Errorf("lambda: stopped waiting, the sandbox goes on: %w", context.Cause(ctx))
	}
}

// prepare checks a request without running anything.
func (s *Supervisor) prepare(in Invocation) (*pool, *call, error) {
	if len(in.Payload) > MaxRequest {
		return nil, nil, tooLarge()
	}
	p, arn, err := s.resolve(in.Function, in.Qualifier)
	if err != nil {
		return nil, nil, err
	}
	if len(in.Payload) == 0 {
		in.Payload = []byte("{}")
	}
	if err := json.Unmarshal(in.Payload, new(json.RawMessage)); err != nil {
		return nil, nil, &APIError{
			Status: http.StatusBadRequest, Code: "InvalidRequestContentException", Fault: "User",
			Message: "Could not parse request body into json: Could not parse payload into json: " + err.Error(),
		}
	}
	if in.ClientContext != "" && !json.Valid([]byte(in.ClientContext)) {
		return nil, nil, &APIError{
			Status: http.StatusBadRequest, Code: "InvalidRequestContentException", Fault: "User",
			Message: "Client context must be a valid Base64-encoded JSON object.",
		}
	}
	if in.TraceID == "" {
		in.TraceID = newTraceID()
	}
	return p, &call{
		id: uuid.NewString(), arn: arn, trace: in.TraceID, clientContext: in.ClientContext, payload: in.Payload,
		done: make(chan struct{}),
	}, nil
}

// run finds or starts a sandbox and gives it the call.
func (s *Supervisor) run(ctx context.Context, p *pool, c *call) (Result, error) {
	for {
		sb, err := s.take(p)
		if err != nil {
			return Result{}, err
		}
		var u usage
		if sb.child == nil {
			begun := time.Now()
			out, ok, err := s.initialise(ctx, p, sb, s.options.InitTimeout, c.id)
			s.startEnded()
			if err != nil {
				return Result{}, err
			}
			u.init = time.Since(begun)
			if !ok {
				sb.log.line(initReport(u.init, out))
				return s.runWithInit(ctx, p, c)
			}
		}
		if out, entered := s.deliver(sb, c, p.fn.Timeout); entered {
			return s.finish(p, sb, c, out, u), nil
		}
		// The sandbox died before it got the call: the function was not entered,
		// so another one may have it.
	}
}

// runWithInit gives a function whose start failed a second start, within the
// invocation and its timeout, as AWS does.
func (s *Supervisor) runWithInit(ctx context.Context, p *pool, c *call) (Result, error) {
	sb := newSandbox(p.fn, p.log)
	s.mu.Lock()
	p.all = append(p.all, sb)
	s.mu.Unlock()
	c.begun, c.logged = time.Now(), true
	sb.log.begin(c.id)
	out, ok, err := s.initialise(ctx, p, sb, p.fn.Timeout, c.id)
	if err != nil {
		return Result{}, err
	}
	if ok {
		var entered bool
		if out, entered = s.deliver(sb, c, p.fn.Timeout-time.Since(c.begun)); !entered {
			out = exited(c.id, sb.exitErr)
		}
	}
	return s.finish(p, sb, c, out, usage{}), nil
}

// initialise starts the process and waits until it asks for its first call. If
// it never does, the process is gone and the outcome says why.
func (s *Supervisor) initialise(
	ctx context.Context, p *pool, sb *sandbox, limit time.Duration, requestID string,
) (outcome, bool, error) {
	s.work.Add(1)
	gone := func() {
		s.forget(p, sb)
		s.work.Done()
	}
	if err := sb.start(ctx, s.options.Endpoint, gone); err != nil {
		gone()
		return notStarted(requestID, err), false, nil
	}
	if !s.register(sb) {
		sb.kill()
		return outcome{}, false, ErrClosed
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-sb.ready:
		return outcome{}, true, nil
	case <-sb.exited:
	case <-timer.C:
		sb.kill()
		return timedOut(requestID, limit), false, nil
	}
	select {
	case out := <-sb.initErr:
		return out, false, nil
	default:
		return exited(requestID, sb.exitErr), false, nil
	}
}

// deliver gives a sandbox a call and waits until it is ready for the next one,
// dead, or out of time; false if it was dead before it got the call.
func (s *Supervisor) deliver(sb *sandbox, c *call, budget time.Duration) (outcome, bool) {
	now := time.Now()
	if c.begun.IsZero() {
		c.begun = now
	}
	c.deadline = now.Add(budget)
	select {
	case sb.work <- c:
	case <-sb.exited:
		return outcome{}, false
	}
	timer := time.NewTimer(budget)
	defer timer.Stop()
	var out outcome
	select {
	case <-c.done:
	case <-sb.exited:
		out = exited(c.id, sb.exitErr)
	case <-timer.C:
		sb.kill()
		out = timedOut(c.id, sb.fn.Timeout)
	}
	if answer, ok := sb.outcomeOf(c); ok {
		// What the process answered stands, whatever became of it afterwards.
		out = answer
	}
	return out, true
}

// finish writes the end of the invocation's log and frees the sandbox.
func (s *Supervisor) finish(p *pool, sb *sandbox, c *call, out outcome, u usage) Result {
	u.duration = time.Since(c.begun)
	if sb.child != nil {
		u.peakMB = sb.child.PeakMB()
		sb.stream.sync()
	}
	for _, line := range endLines(c, p.fn, out, u) {
		sb.log.line(line)
	}
	result := Result{
		RequestID: c.id, Version: latest, Payload: out.payload, LogTail: sb.log.end(), TraceID: c.trace,
	}
	if out.failed {
		result.FunctionError = "Unhandled"
	}
	s.give(p, sb)
	return result
}

func newTraceID() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("Root=1-%08x-%s;Parent=%s;Sampled=0",
		time.Now().Unix(), hex.EncodeToString(b[:12]), hex.EncodeToString(b[12:]))
}
