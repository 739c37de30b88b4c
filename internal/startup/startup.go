// Package startup holds what each function does before it serves: it reads its
// settings from the environment, and says why it can't start.
package startup

import (
	"context"
	"fmt"
	"log/slog"
	"os"
)

// Setting returns the environment variable called name, or an error that names
// it if it is not set. Join several errors, so that all are named at once.
func Setting(env func(string) string, name string) (string, error) {
	if value := env(name); value != "" {
		return value, nil
	}
	return "", fmt.Errorf("startup: %s is not set", name)
}

// Must returns v, or logs err and ends the process, which Lambda reports as a
// failed start: nothing was invoked.
func Must[T any](v T, err error) T {
	if err != nil {
		slog.LogAttrs(context.Background(), slog.LevelError, "can't start", slog.Any("error", err))
		os.Exit(1)
	}
	return v
}
