package memledger_test

import (
	"errors"
	"testing"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/ledgertest"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

func newStore(tb testing.TB) *memledger.Store {
	tb.Helper()
	s, err := memledger.New()
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func harness() ledgertest.Harness {
	return ledgertest.Harness{
		New: func(tb testing.TB) ledger.Store {
			tb.Helper()
			return newStore(tb)
		},
		Histories: 20,
	}
}

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	ledgertest.Exercise(t, harness())
}

func TestMemoryKeepsTheContractOfWaits(t *testing.T) {
	t.Parallel()
	ledgertest.ExerciseWaits(t, harness())
}

func TestNewRefusesInsideLambda(t *testing.T) {
	t.Setenv("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")
	if s, err := memledger.New(); !errors.Is(err, memledger.ErrInLambda) || s != nil {
		t.Fatalf("got %v, %v, want ErrInLambda", s, err)
	}
}
