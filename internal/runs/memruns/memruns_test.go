package memruns_test

import (
	"testing"

	"github.com/onceward/onceward/internal/runs/memruns"
	"github.com/onceward/onceward/internal/runs/runstest"
)

func TestKeepsTheContract(t *testing.T) {
	t.Parallel()
	runstest.Exercise(t, memruns.New())
}
