package statemachines

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReferencePageIsUpToDate(t *testing.T) {
	t.Parallel()
	want, err := ReferencePage()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../docs/reference/agent-run.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("run `go generate ./statemachines` (-want +got):\n%s", diff)
	}
}
