package memledger_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/onceward/onceward/middleware/ledger/memledger"
)

// Proves: R37
func TestSandboxGetsNoLedgerInMemoryAndNoFunctionAsksForOne(t *testing.T) {
	t.Setenv("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")
	if store, err := memledger.New(); store != nil || !errors.Is(err, memledger.ErrInLambda) {
		t.Errorf("inside Lambda: %v, %v", store, err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "../../../functions/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	found := map[string]bool{}
	for _, dep := range deps {
		found[dep] = true
	}
	if durable, memory := "github.com/onceward/onceward/middleware/ledger/dynamoledger", "github.com/onceward/onceward/middleware/ledger/memledger"; !found[durable] || found[memory] {
		t.Errorf("the functions are linked with dynamoledger: %t, with memledger: %t", found[durable], found[memory])
	}
}
