package enginetest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/localstack/dynamodb/enginetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(enginetest.Wrap(m)) }

// verdict is a test that is asked for an engine; it keeps how that ended.
type verdict struct {
	testing.TB
	skipped, failed string
}

func (v *verdict) Helper() {}

func (v *verdict) Skipf(format string, args ...any) {
	v.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (v *verdict) Fatalf(format string, args ...any) {
	v.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func ask(t *testing.T, kind string) *verdict {
	t.Helper()
	v := &verdict{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		enginetest.Start(v, kind)
	}()
	<-done
	return v
}

func TestMissingEngineSkipsTheTestButFailsTheBuild(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	t.Setenv("CI", "")
	if v := ask(t, "dynoxide"); !strings.Contains(v.skipped, "no engine installed: dynoxide: ") || v.failed != "" {
		t.Errorf("%+v", v)
	}
	t.Setenv("CI", "1")
	if v := ask(t, "dynoxide"); !strings.Contains(v.failed, "no engine installed: dynoxide: ") || v.skipped != "" {
		t.Errorf("%+v", v)
	}
	if v := ask(t, "mongo"); !strings.Contains(v.failed, "unknown engine") {
		t.Errorf("%+v", v)
	}
}

func TestEngineIsSharedAndTableNamesAreNot(t *testing.T) {
	if a, b := enginetest.Start(t, "dynalite"), enginetest.Start(t, "dynalite"); a != b {
		t.Errorf("two engines: %s and %s", a, b)
	}
	if a, b := enginetest.Table(t), enginetest.Table(t); a == b {
		t.Error("one table name for two")
	}
}
