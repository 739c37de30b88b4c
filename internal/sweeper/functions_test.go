package sweeper_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/internal/sweeper"
)

// toolbox counts how many functions run at once.
type toolbox struct {
	mu           sync.Mutex
	now, most, n int
}

// Invoke implements toolcall.Functions.
func (x *toolbox) Invoke(context.Context, string, []byte) ([]byte, error) {
	x.mu.Lock()
	x.now++
	x.n++
	x.most = max(x.most, x.now)
	x.mu.Unlock()
	<-time.After(time.Second)
	x.mu.Lock()
	x.now--
	x.mu.Unlock()
	return []byte("{}"), nil
}

func TestFunctionsOfToolsAreInvokedAFewAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tools := &toolbox{}
		bounded := sweeper.AtMost(3, tools)
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		var group sync.WaitGroup
		var late sync.Map
		for n := range 12 {
			group.Go(func() {
				if _, err := bounded.Invoke(ctx, "issue_credit", nil); err != nil {
					late.Store(n, err)
				}
			})
		}
		group.Wait()
		missed := 0
		late.Range(func(_, err any) bool {
			missed++
			if !errors.Is(err.(error), context.DeadlineExceeded) {
				t.Error(err)
			}
			return true
		})
		if tools.most != 3 || tools.n != 9 || missed != 3 {
			t.Errorf("%d at once, %d invoked, %d not", tools.most, tools.n, missed)
		}
	})
}
