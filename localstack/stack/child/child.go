// Package child runs a whole local stack as a child process, from its built
// program, so that everything can die at once as in a power failure and come
// back with its data. Tests and the demo use it; they reach the stack through
// its URL, its billing service and its control endpoints only. Start with
// [Start].
package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/onceward/onceward/localstack/process"
	"github.com/onceward/onceward/localstack/stack"
)

// Options says how the child runs. Exe and Data are required.
type Options struct {
	Exe          string        // the program of package localstack
	Args         []string      // more arguments of its up command, such as --wait-scale 0.1
	Data         string        // what its --data gets
	Dir          string        // the directory that it runs in, inside the repository; default the caller's
	Env          []string      // added to the caller's environment
	Stderr       io.Writer     // receives its progress and logs; default nobody
	ReadyTimeout time.Duration // bounds each start, builds included; default 3 min
	StopTimeout  time.Duration // bounds a polite stop; default 30 s
}

// Stack is a local stack in a child process that can be killed, stopped and
// started again on the same data. It is safe for concurrent use.
type Stack struct {
	options Options

	mu      sync.Mutex // guards the fields below, and one start or end at a time
	child   *process.Process
	url     string
	running bool
}

// gone bounds the wait for processes that were killed.
const gone = 10 * time.Second

// ErrRunning means that a stack was to be started which runs.
var ErrRunning = errors.New("child: the stack is running")

// Start starts a stack on a free port and waits until it is ready. ctx bounds
// the start only. On an error nothing is left running.
func Start(ctx context.Context, o Options) (*Stack, error) {
	if o.Exe == "" || o.Data == "" {
		return nil, errors.New("child: Exe and Data are required")
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = 3 * time.Minute
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = 30 * time.Second
	}
	s := &Stack{options: o}
	return s, s.Restart(ctx)
}

// Restart starts a stack that was killed or stopped, or that died, again on its
// data and waits until it is ready. Its URL is another one then. A stack that
// runs is left alone ([ErrRunning]).
func (s *Stack) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		select {
		case <-s.child.Exited():
		default:
			return ErrRunning
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.ReadyTimeout, fmt.Errorf("not ready within %v", s.options.ReadyTimeout))
	defer cancel()
	args := append([]string{"up", "--port", "0", "--data", s.options.Data}, s.options.Args...)
	cmd := exec.Command(s.options.Exe, args...) //nolint:noctx // it outlives the context of its start
	cmd.Dir = s.options.Dir
	cmd.Env = append(os.Environ(), s.options.Env...)
	cmd.Stderr = s.options.Stderr
	child, url, err := process.StartReady(ctx, cmd, stack.ReadyPrefix)
	if err != nil {
		return fmt.Errorf("child: starting the stack: %w", err)
	}
	s.child, s.url, s.running = child, url, true
	return nil
}

// URL serves DynamoDB, Step Functions, Lambda, the operator's API and the
// control endpoints under /_local/ of the stack as it was started last.
func (s *Stack) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url
}

// Config returns an AWS configuration for the stack as it was started last. Its
// credentials say nothing but that the caller is not one of the functions.
func (s *Stack) Config() aws.Config {
	return aws.Config{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(s.URL()),
		Credentials:  credentials.NewStaticCredentialsProvider("local", "local", ""),
	}
}

// About asks the stack for its names, machines and the billing service's URL.
func (s *Stack) About(ctx context.Context) (stack.About, error) {
	var about stack.About
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/_local/about", http.NoBody)
	if err != nil {
		return about, fmt.Errorf("child: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return about, fmt.Errorf("child: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return about, fmt.Errorf("child: about: %s", resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(&about); err != nil {
		return about, fmt.Errorf("child: about: %w", err)
	}
	return about, nil
}

// PID is the process id of the stack as it was started last.
func (s *Stack) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child.PID()
}

// Stop asks the stack to end in good order and waits. One that does not is
// killed, which is an error. Stopping one that does not run does nothing.
func (s *Stack) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		return nil
	}
	s.running = false
	family, err := process.Family(s.child.PID())
	ctx, cancel := context.WithTimeout(ctx, s.options.StopTimeout)
	defer cancel()
	err = errors.Join(err, s.child.Stop(ctx))
	if err != nil {
		err = fmt.Errorf("child: stopping the stack: %w", err)
	}
	return errors.Join(err, process.EndFamily(family, gone))
}

// Kill ends everything at once by SIGKILL, as a power failure would: the stack,
// its DynamoDB engine, its billing service and every sandbox. It returns when
// all of them are gone, or says which are not. Killing one that does not run
// does nothing.
func (s *Stack) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		return nil
	}
	s.running = false
	if err := s.child.KillFamily(gone); err != nil {
		return fmt.Errorf("child: killing the stack: %w", err)
	}
	return nil
}
