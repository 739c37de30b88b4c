package billing_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/localstack/billing"
)

// envDataFile makes the test binary be the billing service instead of running tests.
const envDataFile = "BILLING_TEST_DATA_FILE"

// envParent makes it start that service as its own child and announce it.
const envParent = "BILLING_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(envParent) != "" {
		os.Exit(beParent())
	}
	if file := os.Getenv(envDataFile); file != "" {
		os.Exit(serve(file))
	}
	goleak.VerifyTestMain(m)
}

func serve(file string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := billing.Run(ctx, billing.Config{DataFile: file}, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func beParent() int {
	exe, err := os.Executable()
	if err == nil {
		var p *billing.Process
		p, err = billing.Command{Exe: exe, Env: []string{envParent + "="}}.Start(context.Background())
		if err == nil {
			if _, err = fmt.Fprintln(os.Stdout, billing.ReadyPrefix+p.URL()); err == nil {
				<-p.Exited()
				return 0
			}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
