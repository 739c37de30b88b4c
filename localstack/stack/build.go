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
// repository, and returns the folder of each. The Go build cache makes it quick
// when nothing changed.
func build(ctx context.Context, o Options) (map[string]string, error) {
	o.Say("building the functions (the first time this takes a minute)")
	packages := map[string]string{machine.Function: "./localstack/plain"}
	for _, name := range names.Functions() {
		packages[name] = "./functions/" + name
	}
	built := map[string]string{}
	for name, pkg := range packages {
		dir := filepath.Join(o.Root, ".local", "functions", name)
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o", filepath.Join(dir, "bootstrap"), pkg)
		cmd.Dir = o.Root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("stack: build %s: %w\n%s", pkg, err, out)
		}
		built[name] = dir
	}
	return built, nil
}

// installEngine runs npm ci where the local engine is not installed yet.
func installEngine(ctx context.Context, o Options) error {
	if o.DynamoDB != "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(o.Root, "node_modules", "dynalite")); err == nil {
		return nil
	}
	o.Say("installing the local DynamoDB engine (npm ci)")
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = o.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("stack: npm ci: %w; it needs Node.js 20 or newer, or give --dynamodb URL\n%s", err, out)
	}
	return nil
}
