package systemtest

import (
	"fmt"
	"testing"

	"github.com/onceward/onceward/localstack/faults"
)

// atEachRequest plays a full run for each request that one sends, with the fault
// there, and checks what everybody was told.
func atEachRequest(t *testing.T, places []place, effects []faults.Effect, also func(t *testing.T, r *fullRun)) {
	t.Helper()
	counts := counted(t, places)
	for i, p := range places {
		t.Logf("%s: %d requests", p.name, counts[i])
		if counts[i] == 0 {
			t.Errorf("%s: no request of a run is known as one of these", p.name)
		}
		for _, nth := range each(counts[i]) {
			for _, effect := range effects {
				t.Run(fmt.Sprintf("%s %d of %d %s", p.name, nth, counts[i], effect), func(t *testing.T) {
					t.Parallel()
					r := &fullRun{id: ownRun(t)}
					seen := armAt(t, r, p, nth, effect)
					r.play(t)
					if saw := seen(); !struckOnce(saw.Hits, saw.Matches, nth) {
						t.Errorf("the fault struck %d times at %d requests", saw.Hits, saw.Matches)
					}
					r.holds(t)
					also(t, r)
				})
			}
		}
	}
}

// struckOnce reports whether the fault at the nth request did its work. A run may
// have sent fewer than were counted, of which some were sent again on a busy
// machine, or belonged to a list that looked at the run; then it had none to strike.
func struckOnce(hits, matches, nth int) bool {
	return hits == 1 || hits == 0 && nth > 1 && matches < nth
}

// Proves: R45, R63, R84, R147, R150
func TestLosingAnyOneRequestOrAnswerOfARunPaysOnceAndTellsNothingWrong(t *testing.T) {
	t.Parallel()
	atEachRequest(t, lossPlaces(), []faults.Effect{faults.DropRequest, faults.DropAnswer}, func(t *testing.T, r *fullRun) {
		t.Helper()
		for _, call := range credited {
			if n := keyEffects(t, r.key(call)).Credits; n != 1 {
				t.Errorf("%s: %d credits, want 1: nobody died", call, n)
			}
		}
	})
}

// Proves: R106, R119, R144, R145, R146
func TestKillingAnyFunctionAtAnyOfItsRequestsPaysAtMostOnceAndTellsNothingWrong(t *testing.T) {
	t.Parallel()
	atEachRequest(t, killPlaces(), []faults.Effect{faults.KillCallerBefore, faults.KillCallerAfter}, func(*testing.T, *fullRun) {})
}
