// Package startup holds what each function does before it serves: it reads its
// settings from the environment, gets ready to speak to AWS, and says why it
// can't start. Start with [Setting] and [AWS]; [Must] is for main.
package startup

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
)

// TryTimeout bounds each try of a request to AWS, so that one that hangs is tried
// again, and given up on long before the function is stopped. A client whose
// requests may take longer, such as one that invokes functions, sets its own.
const TryTimeout = 3 * time.Second

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

// AWS returns the environment's configuration, with each try of a request
// bounded by [TryTimeout]. It sends nothing.
func AWS(ctx context.Context) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(TryTimeout)))
	if err != nil {
		return aws.Config{}, fmt.Errorf("startup: AWS configuration: %w", err)
	}
	return cfg, nil
}
