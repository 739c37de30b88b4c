package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/plain/machine"
)

// plain is the folder, below localstack, of the unguarded function that the demo
// compares with.
const plain = "plain"

// FindRoot returns the repository that dir is in.
func FindRoot(dir string) (string, error) {
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.Contains(text, []byte("module github.com/onceward/onceward\n")) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("stack: not inside the onceward repository")
		}
		dir = parent
	}
}

// build compiles the functions for this machine, below .local in the
// repository, and returns the program of each. The Go build cache makes it quick
// when nothing changed.
func build(ctx context.Context, o Options) (map[string]string, error) {
	o.Say("building the functions (the first time this takes a minute)")
	dir := filepath.Join(o.Root, ".local", "bin", "functions")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("stack: %w", err)
	}
	// All in one go: it loads the packages once. Each program is named after its folder.
	args := []string{"build", "-trimpath", "-buildvcs=false", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o", dir + string(filepath.Separator), "./localstack/" + plain}
	built := map[string]string{machine.Function: filepath.Join(dir, plain)}
	for _, name := range names.Functions() {
		args = append(args, "./functions/"+name)
		built[name] = filepath.Join(dir, name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = o.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("stack: building the functions: %w\n%s", err, out)
	}
	return built, nil
}
