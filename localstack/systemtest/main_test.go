// Package systemtest holds the whole system to its promise, from outside: real
// function binaries, a real engine, real processes, one port. It has no code of
// its own. All tests share one stack; each uses run ids and accounts of its own.
package systemtest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/onceward/onceward/localstack/billing"
	"github.com/onceward/onceward/localstack/demo"
	"github.com/onceward/onceward/localstack/stack"
)

var (
	system *stack.Stack
	root   string    // the repository
	logs   logBuffer // of all functions
	ids    atomic.Int64
)

// TestMain starts the stack once; it is also the billing service's process.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "billing" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := billing.Run(ctx, billing.Config{DataFile: os.Args[2]}, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.Getwd()
	if err == nil {
		root, err = stack.FindRoot(dir)
	}
	exe, exeErr := os.Executable()
	if err != nil || exeErr != nil {
		fmt.Fprintln(os.Stderr, err, exeErr)
		return 1
	}
	// A test here waits most of its time, for processes other than its own.
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if scratch, err = os.MkdirTemp("", "onceward-systemtest-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	ctx := context.Background()
	system, err = stack.Start(ctx, stack.Options{Root: root, Exe: exe, BillingArgs: []string{"billing"}, WaitScale: demo.WaitScale, Logs: &logs})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	closeRowDesk()
	if err := system.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "close:", err)
		code = 1
	}
	return code
}

// ownRun returns a run id that no other test's begins with, so that a rule for it
// strikes nobody else: most tests run beside each other.
func ownRun(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("run-%d-own", ids.Add(1))
}

// logBuffer collects what the functions log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) contains(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}
