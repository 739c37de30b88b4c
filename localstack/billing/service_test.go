package billing_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceward/onceward/localstack/billing"
)

// service is a service inside the test's own process.
type service struct {
	*billing.Client
	url  string
	file string
	stop func()
}

func newService(t *testing.T, adjust ...func(*billing.Config)) *service {
	t.Helper()
	return openService(t, filepath.Join(t.TempDir(), "billing.db"), adjust...)
}

func openService(t *testing.T, file string, adjust ...func(*billing.Config)) *service {
	t.Helper()
	cfg := billing.Config{DataFile: file}
	for _, f := range adjust {
		f(&cfg)
	}
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := billing.Run(ctx, cfg, write)
		write.CloseWithError(errors.Join(err, io.EOF))
		done <- err
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatalf("no ready line: %v", err)
	}
	s := &service{url: strings.TrimSpace(strings.TrimPrefix(line, billing.ReadyPrefix)), file: file}
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("service ended with: %v", err)
		}
	}
	t.Cleanup(s.stop)
	s.Client = billing.NewClient(s.url, nil)
	if _, err := s.SignIn(t.Context(), "tests", ""); err != nil {
		t.Fatalf("signing in: %v", err)
	}
	return s
}

func wantEffects(t *testing.T, c *billing.Client, account string, credits, sends int) {
	t.Helper()
	got, err := c.AccountEffects(t.Context(), account)
	if err != nil {
		t.Fatalf("asking for effects: %v", err)
	}
	if got.Credits != credits || got.Sends != sends {
		t.Errorf("effects on %s: %d credits of %d sends, want %d of %d", account, got.Credits, got.Sends, credits, sends)
	}
}

func wantStatus(t *testing.T, err error, status int, code string) {
	t.Helper()
	got, ok := errors.AsType[*billing.StatusError](err)
	if !ok || got.Status != status || got.Code != code {
		t.Errorf("error is %v, want %d %s", err, status, code)
	}
}
