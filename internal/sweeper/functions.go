package sweeper

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/internal/toolcall"
)

// AtMost returns the functions with at most n of their invocations at once: a
// sweep finds many calls that need the same function, which also serves runs.
func AtMost(n int, functions toolcall.Functions) toolcall.Functions {
	return bounded{functions: functions, slots: make(chan struct{}, n)}
}

type bounded struct {
	functions toolcall.Functions
	slots     chan struct{}
}

// Invoke implements [toolcall.Functions]. Who waits for its turn until the
// context is over has invoked nothing.
func (b bounded) Invoke(ctx context.Context, tool string, payload []byte) ([]byte, error) {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
		return b.functions.Invoke(ctx, tool, payload)
	case <-ctx.Done():
		return nil, fmt.Errorf("sweeper: %s was not invoked: %w", tool, ctx.Err())
	}
}
