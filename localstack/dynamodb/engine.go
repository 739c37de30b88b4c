package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/localstack/process"
)

// Options says how an engine runs. The zero value keeps data in memory.
type Options struct {
	// File is where data is kept: a file for dynoxide, a directory for
	// dynalite. Empty keeps it in memory. Acknowledged writes to a file survive
	// the engine's SIGKILL; those of dynoxide, which syncs each, also a power
	// failure.
	File string
	// Output receives what the engine prints; nil means nobody.
	Output io.Writer
	// StartTimeout bounds the wait for its first answer; zero means 30 s.
	StartTimeout time.Duration
	// StopTimeout bounds the wait between SIGTERM and SIGKILL; zero means 5 s.
	StopTimeout time.Duration
}

// Engine is a running engine. It is safe for concurrent use. It dies with this
// process where the system can do that (Linux); stop it all the same.
type Engine struct {
	address string
	options Options
	child   *process.Process

	stopOnce sync.Once
	stopErr  error
}

// ErrUnclean means that an engine had to be killed: it ignored SIGTERM.
var ErrUnclean = errors.New("dynamodb: engine did not stop in time and was killed")

// attempts is how often a port is tried: between finding a free one and its
// use by the engine another process may take it.
const attempts = 3

// Start starts an engine on a free port of 127.0.0.1 and returns once it
// answers. If it doesn't, or ctx ends first, nothing is left running and the
// error tells what the engine said.
func Start(ctx context.Context, program Program, options Options) (*Engine, error) {
	if program.path == "" {
		return nil, errors.New("dynamodb: no program: use Find")
	}
	if options.Output == nil {
		options.Output = io.Discard
	}
	if options.StartTimeout == 0 {
		options.StartTimeout = 30 * time.Second
	}
	if options.StopTimeout == 0 {
		options.StopTimeout = 5 * time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, options.StartTimeout,
		fmt.Errorf("no answer within %v", options.StartTimeout))
	defer cancel()
	var err error
	for range attempts {
		var e *Engine
		if e, err = startOnce(ctx, program, options); err == nil {
			return e, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("dynamodb: %s did not start: %w", program.kind, err)
}

func startOnce(ctx context.Context, program Program, options Options) (*Engine, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	said := &lastWords{}
	e := &Engine{address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), options: options}
	// The engine outlives the context of its start, so that isn't given to it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program.path, program.command(port, options.File)...)
	cmd.Stdout = io.MultiWriter(options.Output, said)
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = time.Second
	if e.child, err = process.Start(cmd); err != nil {
		return nil, err
	}
	if err := e.awaitAnswer(ctx); err != nil {
		e.child.Kill()
		return nil, fmt.Errorf("%w; it said: %s", err, said)
	}
	return e, nil
}

// freePort finds a port that nobody listens on at this moment.
func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("no TCP address: %v", l.Addr())
	}
	return addr.Port, nil
}

// awaitAnswer asks until DynamoDB's protocol is spoken at the address.
func (e *Engine) awaitAnswer(ctx context.Context) error {
	transport := newTransport()
	defer transport.CloseIdleConnections()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		if answers(ctx, transport, e.Endpoint()) {
			// The answer may be another process's that took the port first.
			select {
			case <-e.child.Exited():
			default:
				return nil
			}
		}
		select {
		case <-e.child.Exited():
			return fmt.Errorf("it ended at once (%w)", e.child.Err())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

func answers(ctx context.Context, transport http.RoundTripper, endpoint string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/", strings.NewReader("{}"))
	if err != nil {
		return false
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	r.Header.Set("Authorization",
		"AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	return err == nil && resp.StatusCode == http.StatusOK
}

// Endpoint is the URL at which clients reach the engine itself, without the
// proxy.
func (e *Engine) Endpoint() string { return "http://" + e.address }

// Exited is closed when the engine's process is gone, for whatever reason.
func (e *Engine) Exited() <-chan struct{} { return e.child.Exited() }

// Stop asks the engine to end, waits until its process is gone, so that its
// file can be used again, and kills it after the stop timeout, or when ctx ends
// ([ErrUnclean]). An engine without a file has nothing to lose and is killed at
// once. Further calls wait and answer the same.
func (e *Engine) Stop(ctx context.Context) error {
	e.stopOnce.Do(func() {
		if e.options.File == "" {
			e.Kill()
			return
		}
		ctx, cancel := context.WithTimeout(ctx, e.options.StopTimeout)
		defer cancel()
		if err := e.child.Stop(ctx); err != nil && ctx.Err() != nil {
			e.stopErr = ErrUnclean
		}
	})
	return e.stopErr
}

// Kill ends the engine by SIGKILL and waits until its process is gone, as a
// power failure would.
func (e *Engine) Kill() { e.child.Kill() }

// lastWords keeps the end of what an engine printed.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

func (l *lastWords) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if extra := len(l.text) - 2048; extra > 0 {
		l.text = append(l.text[:0], l.text[extra:]...)
	}
	return len(b), nil
}

func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.text) == 0 {
		return "nothing"
	}
	return strings.TrimSpace(string(l.text))
}
