package runs_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// at is a time after noon.
func at(hours float64) time.Time { return noon.Add(time.Duration(hours * float64(time.Hour))) }

// waited is a wait between hours after noon; until 0 it has not been rung.
func waited(from, until float64) ledger.Wait {
	w := ledger.Wait{ParkedAt: at(from)}
	if until != 0 {
		w.RungAt = at(until)
	}
	return w
}

func TestTimeAtWorkIsThatOfTheMapWithoutTheWaitsOfItsCalls(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		waits []ledger.Wait
		now   float64
		want  float64
	}{
		"no wait":                             {nil, 3, 3},
		"a wait of 20 days":                   {[]ledger.Wait{waited(1, 481)}, 482, 2},
		"two waits at the same time":          {[]ledger.Wait{waited(1, 4), waited(2, 3)}, 6, 3},
		"two waits that overlap":              {[]ledger.Wait{waited(2, 5), waited(1, 3)}, 6, 2},
		"two waits, one after the other":      {[]ledger.Wait{waited(4, 5), waited(1, 2)}, 6, 4},
		"two waits that touch":                {[]ledger.Wait{waited(1, 2), waited(2, 3)}, 6, 4},
		"a wait that nobody confirmed":        {[]ledger.Wait{waited(1, 0)}, 6, 1},
		"a wait of an earlier step":           {[]ledger.Wait{waited(-5, -3)}, 6, 6},
		"a wait that began in an earlier one": {[]ledger.Wait{waited(-5, 2)}, 6, 4},
		"a wait that was rung ahead of us":    {[]ledger.Wait{waited(4, 9)}, 6, 4},
		"a wait that begins ahead of us":      {[]ledger.Wait{waited(7, 9)}, 6, 6},
		"a clock that went back":              {[]ledger.Wait{waited(1, 2)}, -1, 0},
	} {
		r := runs.Run{Step: runs.Step{IssuedAt: noon}}
		if got, want := r.Worked(c.waits, at(c.now)), at(c.want).Sub(noon); got != want {
			t.Errorf("%s: %s at work, want %s", name, got, want)
		}
	}
	if got := (runs.Run{}).Worked(nil, noon); got != 0 {
		t.Errorf("without a step: %s at work", got)
	}
}

func TestNoMinuteOfWaitingIsCountedAndEachOfWorkIsCountedOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const length = 60
		now := rapid.IntRange(0, length).Draw(t, "now")
		var waits []ledger.Wait
		asleep := make([]bool, 3*length)
		for range rapid.IntRange(0, 5).Draw(t, "waits") {
			from := rapid.IntRange(-length, length).Draw(t, "from")
			w := ledger.Wait{ParkedAt: noon.Add(time.Duration(from) * time.Minute)}
			until := from + rapid.IntRange(0, length).Draw(t, "for")
			if rapid.IntRange(0, 3).Draw(t, "rung") > 0 {
				w.RungAt = noon.Add(time.Duration(until) * time.Minute)
			} else if until = now; until < from {
				until = from
			}
			for m := from; m < until; m++ {
				asleep[m+length] = true
			}
			waits = append(waits, w)
		}
		var want time.Duration
		for m := range now {
			if !asleep[m+length] {
				want += time.Minute
			}
		}
		before := slices.Clone(waits)
		got := runs.Run{Step: runs.Step{IssuedAt: noon}}.Worked(waits, noon.Add(time.Duration(now)*time.Minute))
		if got != want || !cmp.Equal(before, waits) {
			t.Fatalf("%s at work, want %s", got, want)
		}
	})
}

func TestWaitsAreReadOnlyOfCallsThatMayHaveWaited(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcomes []runs.Outcome
		want     []string
	}{
		"done at once":   {[]runs.Outcome{{ID: "b"}, {ID: "c"}}, nil},
		"one went round": {[]runs.Outcome{{ID: "b"}, {ID: "c", Rounds: 1}}, []string{"c"}},
		"the Map broke":  {nil, []string{"b", "c"}},
	} {
		if diff := cmp.Diff(c.want, issued().Waited(twoCalls, c.outcomes)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRunIsOverdueOnlyPastItsLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit, active time.Duration
		want          bool
	}{{0, time.Hour, false}, {time.Hour, time.Hour, false}, {time.Hour, time.Hour + 1, true}} {
		if got := (runs.Run{ActiveLimit: c.limit, Active: c.active}).Overdue(); got != c.want {
			t.Errorf("%s of %s: overdue = %v", c.active, c.limit, got)
		}
	}
}
