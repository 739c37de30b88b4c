// Package enginetest gives tests a real DynamoDB engine. Each kind is started
// once for a test process and shared by its tests, so every test makes its own
// table. Where an engine is not installed the test is skipped with the command
// that installs it; with CI set in the environment it fails instead, so that
// no build is green for want of an engine. Start with [Table].
package enginetest

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/localstack/dynamodb"
)

var (
	mu      sync.Mutex
	running = make(map[dynamodb.Kind]*dynamodb.Engine)
)

// Start returns the endpoint of the shared engine of a kind, "dynoxide" or
// "dynalite", and starts it for the first caller. Data is kept in memory. The
// engine ends with the test process: on Linux by itself, elsewhere by [Wrap].
func Start(t testing.TB, kind string) (endpoint string) {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	k := dynamodb.Kind(kind)
	if e := running[k]; e != nil {
		select {
		case <-e.Exited():
			t.Fatalf("enginetest: %s died under the tests", kind)
		default:
			return e.Endpoint()
		}
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatalf("enginetest: %v", err)
	}
	program, err := dynamodb.FindKind(root, k)
	if errors.Is(err, dynamodb.ErrNotInstalled) && os.Getenv("CI") == "" {
		t.Skipf("skipped for want of an engine: %v", err)
	}
	if err != nil {
		t.Fatalf("enginetest: %v", err)
	}
	e, err := dynamodb.Start(t.Context(), program, dynamodb.Options{})
	if err != nil {
		t.Fatalf("enginetest: %v", err)
	}
	running[k] = e
	return e.Endpoint()
}

// Table returns a table name that no other test of this process uses, also
// when the test runs again.
func Table(t testing.TB) string {
	t.Helper()
	return "test-" + strings.ToLower(rand.Text())
}

// moduleRoot is the directory of go.mod above the test's own.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}

// Runner is what a TestMain runs, such as [testing.M].
type Runner interface{ Run() int }

// Wrap returns a runner that ends the engines after the tests, for a TestMain:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(enginetest.Wrap(m)) }
func Wrap(m Runner) Runner { return wrapped{m} }

type wrapped struct{ Runner }

// Run runs the tests and ends the engines.
func (w wrapped) Run() int {
	code := w.Runner.Run()
	mu.Lock()
	defer mu.Unlock()
	for kind, e := range running {
		e.Kill() // nothing in memory is worth a graceful end
		delete(running, kind)
	}
	return code
}
