package systemtest

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// Proves: R45
func TestHundredRunsAtOnceAllEndAndPayOnceEach(t *testing.T) {
	const n = 100
	for _, c := range []struct {
		name string
		lost int // every lost-th answer of the billing service
	}{{"no answer is lost", 0}, {"every tenth answer is lost", 10}} {
		t.Run(c.name, func(t *testing.T) {
			runs, accounts, executions := make([]string, n), make([]string, n), make([]string, n)
			var all sync.WaitGroup
			begun := time.Now()
			for i := range n {
				runs[i] = ownRun(t)
				accounts[i] = runs[i]
				if c.lost > 0 && i%c.lost == 0 {
					accounts[i] += "-lose-answer"
				}
				all.Go(func() { executions[i] = startRun(t, runs[i], runInput(t, runs[i], accounts[i], "pause")) })
			}
			all.Wait()
			if t.Failed() {
				return
			}
			settled := map[string]int{}
			for i, run := range runs {
				status, output := endOf(t, executions[i])
				if status != "SUCCEEDED" || !strings.Contains(output, heardWords["completed"]) {
					t.Errorf("%s: %s: %s", run, status, output)
				}
			}
			t.Logf("%d runs took %v", n, time.Since(begun))
			for i, run := range runs {
				s := show(t, run)
				settled[s.SettledBy.Kind]++
				if got := credits(t, accounts[i]); got != 1 || s.Status != "completed" {
					t.Errorf("%s: effects %d, %s", run, got, s.Status)
				}
				// On a machine that is too busy more answers than those come too late.
				if lost := accounts[i] != run; lost && s.SettledBy.Kind != "hook" {
					t.Errorf("%s: its answer was lost, and it was settled by %s", run, s.SettledBy.Kind)
				}
			}
			t.Logf("settled by %v", settled)
		})
	}
}
