package billing_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/onceward/onceward/localstack/billing"
)

func TestServiceDiesWithAKilledParent(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "billing.db")
	parent, err := billing.Command{Exe: exe, Env: []string{envDataFile + "=" + file, envParent + "=1"}}.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := billing.NewClient(parent.URL(), nil).SignIn(t.Context(), "tests", ""); err != nil {
		t.Fatalf("the grandchild does not serve: %v", err)
	}
	parent.Kill()
	// The data file is locked for as long as the grandchild lives.
	startChild(t, file)
}
