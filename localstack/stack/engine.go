package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/onceward/onceward/localstack/dynamodb"
)

// installEngine runs npm ci where the local engine is not installed yet.
func (s *Stack) installEngine(ctx context.Context) error {
	if s.options.DynamoDB != "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(s.options.Root, "node_modules", "dynalite")); err == nil {
		return nil
	}
	s.options.Say("installing the local DynamoDB engine (npm ci)")
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = s.options.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("stack: npm ci: %w; it needs Node.js 20 or newer, or give --dynamodb URL\n%s", err, out)
	}
	return nil
}

func (s *Stack) findEngine() (dynamodb.Program, error) {
	if s.options.Engine != "" {
		return dynamodb.FindKind(s.options.Root, dynamodb.Kind(s.options.Engine))
	}
	return dynamodb.Find(s.options.Root)
}

// engineKind names the engine whose data this is.
func (s *Stack) engineKind() (string, error) {
	if s.options.DynamoDB != "" {
		return externalEngine, nil
	}
	program, err := s.findEngine()
	return string(program.Kind()), err
}

// startEngine returns the URL of the DynamoDB engine.
func (s *Stack) startEngine(ctx context.Context) (string, error) {
	if s.options.DynamoDB != "" {
		if s.options.Data != "" {
			s.options.Say("what is in DynamoDB at " + s.options.DynamoDB + " is that engine's to keep")
		}
		return s.options.DynamoDB, nil
	}
	s.options.Say("starting the DynamoDB engine")
	program, err := s.findEngine()
	if err != nil {
		return "", err
	}
	file, err := s.data.engine(program.Kind())
	if err != nil {
		return "", err
	}
	engine, err := dynamodb.Start(ctx, program, dynamodb.Options{File: file})
	if err != nil {
		return "", err
	}
	s.onClose(engine.Stop)
	return engine.Endpoint(), nil
}
