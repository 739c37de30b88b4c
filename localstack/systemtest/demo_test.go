package systemtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scratch holds what the tests build, until all of them are over.
var scratch string

// program returns the built program of the local stack.
func program(t *testing.T) string {
	t.Helper()
	path, err := buildProgram()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "localstack")
	cmd := exec.Command("go", "build", "-o", path, "./localstack")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// The demo runs where there is no network, with no account's keys and no
// database but the one that it brings along; and its stories hold.
// Proves: R92, R93, R119, R144, R145, R156, R157, R158, R159, R160, R161
func TestDemoStoriesHoldWithoutNetworkKeyOrDatabase(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("with -short: the demo is a program of its own, which the race detector does not see; make test runs it")
	}
	var said, logged bytes.Buffer
	cmd := demoCommand(t)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, &said, &logged
	cmd.Env = append(cmd.Env, "GOPROXY=off", "GOFLAGS=-mod=readonly")
	for _, keep := range os.Environ() {
		name, _, _ := strings.Cut(keep, "=")
		if !strings.HasPrefix(name, "AWS_") && !strings.Contains(strings.ToUpper(name), "PROXY") && name != "GOFLAGS" {
			cmd.Env = append(cmd.Env, keep)
		}
	}
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, logged.String())
	}
	var told struct {
		Stories []struct {
			Name string `json:"name"`
			OK   bool   `json:"ok"`
			Why  string `json:"why"`
		} `json:"stories"`
		Summary struct {
			Stories       int `json:"stories"`
			OK            int `json:"ok"`
			DoubleEffects int `json:"double_effects"`
		} `json:"summary"`
	}
	if err := json.Unmarshal(said.Bytes(), &told); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	var names []string
	for _, story := range told.Stories {
		names = append(names, story.Name)
		if !story.OK {
			t.Errorf("%s: %s", story.Name, story.Why)
		}
	}
	want := []string{
		"applied-before-timeout", "never-landed", "refused-before-sending", "killed-after-effect", "double-payout",
		"told-unresolved", "two-drivers", "compensated", "whole-stack-killed",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("stories (-want +got):\n%s", diff)
	}
	if n := len(want); told.Summary.Stories != n || told.Summary.OK != n || told.Summary.DoubleEffects != 0 {
		t.Errorf("%+v", told.Summary)
	}
}
