// Package runstest holds what every store of runs must do, as tests. A store's
// own test calls [Exercise] with a way to open it; each check uses runs of its
// own, so that one store may serve them all. It needs no network and no clock.
package runstest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// Exercise checks that store keeps runs as [runs.Store] says.
func Exercise(t *testing.T, store runs.Store) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, runs.Store){
		"what was saved is loaded whole":                      savedIsLoaded,
		"no run is the zero run":                              noRunIsZero,
		"of many first drivers one begins the run":            oneBegins,
		"a write of an older version is stale":                olderIsStale,
		"a repeated write is recognised as one's own":         ownWriteIsRecognised,
		"one's own first write, overtaken since, is stale":    overtakenIsStale,
		"a turn is put once, and whoever comes later adopts":  turnIsPutOnce,
		"what was heard is fixed once":                        heardIsFixedOnce,
		"a turn without calls is heard once, too":             emptyTurnIsHeard,
		"what was heard of a missing turn is refused":         missingTurnIsNotHeard,
		"turns come in their order, from the one asked for":   turnsComeInOrder,
		"turns end with the one asked for":                    turnsEndWhereAsked,
		"runs that have not ended are listed, page by page":   unendedAreListed,
		"runs of all tenants are listed":                      unendedOfAllTenantsAreListed,
		"where no run is under way none is listed":            noneIsListed,
		"a cursor that is none is refused":                    strangeCursorIsRefused,
		"large turns come whole":                              largeTurnsComeWhole,
		"another tenant's run of the same name is not this":   tenantsAreApart,
		"the turns of an ended run may be let go, repeatedly": expiryRepeats,
	} {
		t.Run(name, func(t *testing.T) { check(t, store) })
	}
}

func begin(tenant string) runs.Run {
	id := runs.ID{Tenant: tenant, Run: "run-" + strings.ToLower(rand.Text()[:10])}
	return runs.Begin(runs.Start{
		ID: id, Agent: "billing-assistant", Subject: "user-1", Policy: ledger.Tell, Input: json.RawMessage(`{"run_id": "x", "n": 9007199254740993}`),
		Execution: "first", Machine: "arn:aws:states:eu-west-1:111122223333:stateMachine:m:7", At: time.Date(2026, 11, 29, 10, 0, 0, 123e6, time.UTC),
	}, rand.Text())
}

func mustSave(t *testing.T, store runs.Store, r runs.Run) runs.Run {
	t.Helper()
	saved, err := store.Save(t.Context(), r)
	if err != nil {
		t.Fatalf("save version %d: %v", r.Version, err)
	}
	return saved
}

func savedIsLoaded(t *testing.T, store runs.Store) {
	t.Helper()
	r := begin("acme")
	mustSave(t, store, r)
	turn := runs.Turn{Number: 1, Calls: []runs.Call{{ID: "a"}, {ID: "b"}}}
	next := r.Advanced(turn).Issued([]int{1}, rand.Text())
	next.Step.Plan, next.Step.Maps, next.Step.Broken, next.Step.Events = 4, 2, 1, 77
	next.Step.IssuedAt, next.WrittenAt = r.StartedAt.Add(time.Minute), r.StartedAt.Add(time.Minute+time.Millisecond)
	next.Active, next.ActiveLimit = 90*time.Second+time.Millisecond, 24*time.Hour
	next.Progress[0] = runs.Progress{Issued: true, Answers: 2, Status: "refused", Code: "too_late"}
	mustSave(t, store, next)
	end := next.MovedOn(rand.Text())
	mustSave(t, store, end)
	end = end.Done(runs.Failure{Error: "Onceward.CallUnresolved", Cause: "because"}, r.StartedAt.Add(time.Hour), rand.Text())
	for _, want := range []runs.Run{mustSave(t, store, end), load(t, store, r.Key())} {
		if diff := cmp.Diff(end, want); diff != "" {
			t.Errorf("saved and loaded differ (-saved +loaded):\n%s", diff)
		}
	}
}

func load(t *testing.T, store runs.Store, id runs.ID) runs.Run {
	t.Helper()
	r, err := store.Load(t.Context(), id)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return r
}

func noRunIsZero(t *testing.T, store runs.Store) {
	t.Helper()
	id := runs.ID{Run: "nobody-" + rand.Text()}
	if r := load(t, store, id); r.Exists() {
		t.Errorf("loaded %+v, want none", r)
	}
	if turns, err := store.Turns(t.Context(), id, 1, 0); err != nil || len(turns) != 0 {
		t.Errorf("turns = %v, %v; want none", turns, err)
	}
}

func oneBegins(t *testing.T, store runs.Store) {
	t.Helper()
	r := begin("")
	var won atomic.Int32
	var drivers sync.Map
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			mine := r
			mine.Driver, mine.LastWrite = fmt.Sprint("execution-", i), rand.Text()
			stands, err := store.Save(context.WithoutCancel(t.Context()), mine)
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, runs.ErrStale) {
				t.Errorf("save: %v", err)
			}
			drivers.Store(stands.Driver, true)
		})
	}
	wg.Wait()
	var names int
	drivers.Range(func(_, _ any) bool { names++; return true })
	if won.Load() != 1 || names != 1 {
		t.Errorf("%d of 16 began the run, %d drivers were seen; want 1 and 1", won.Load(), names)
	}
}

func olderIsStale(t *testing.T, store runs.Store) {
	t.Helper()
	r := mustSave(t, store, begin("acme"))
	turn := runs.Turn{Number: 1}
	mustSave(t, store, r.Advanced(turn).Issued(nil, rand.Text()))
	stands, err := store.Save(t.Context(), r.MovedOn(rand.Text()))
	if !errors.Is(err, runs.ErrStale) || stands.Turn != 1 || stands.Generation != 1 {
		t.Errorf("save of an older version = generation %d, turn %d, %v; want the run that stands and ErrStale", stands.Generation, stands.Turn, err)
	}
}

func ownWriteIsRecognised(t *testing.T, store runs.Store) {
	t.Helper()
	r := begin("acme")
	next := r.MovedOn(rand.Text())
	for _, write := range []runs.Run{r, r, next, next} {
		if stands, err := store.Save(t.Context(), write); err != nil || stands.LastWrite != write.LastWrite {
			t.Errorf("save of version %d = %v; want it recognised", write.Version, err)
		}
	}
}

func overtakenIsStale(t *testing.T, store runs.Store) {
	t.Helper()
	r := begin("acme")
	mustSave(t, store, r)
	next := mustSave(t, store, r.MovedOn(rand.Text()))
	stands, err := store.Save(t.Context(), r)
	if !errors.Is(err, runs.ErrStale) || stands.LastWrite != next.LastWrite {
		t.Errorf("save = version %d, %v; want what stands and ErrStale", stands.Version, err)
	}
}

func turnOf(n int, says string) runs.Turn {
	return runs.Turn{
		Number: n, Says: says, At: time.Date(2026, 11, 29, 10, 0, n, 0, time.UTC),
		Calls: []runs.Call{{ID: "toolu_01", ProviderID: "toolu_01", Tool: "issue_credit", Arguments: `{"note": "<&\"é\u0000", "cents": 9007199254740993}`}, {ID: "~t1-1", Tool: "find_order", Arguments: `{}`}},
	}
}

func putTurn(t *testing.T, store runs.Store, id runs.ID, turn runs.Turn) runs.Turn {
	t.Helper()
	stands, err := store.PutTurn(t.Context(), id, turn)
	if err != nil {
		t.Fatalf("put turn: %v", err)
	}
	return stands
}

func turnIsPutOnce(t *testing.T, store runs.Store) {
	t.Helper()
	id := begin("acme").Key()
	first := turnOf(1, "first")
	for _, turn := range []runs.Turn{first, turnOf(1, "second"), first} {
		if diff := cmp.Diff(first, putTurn(t, store, id, turn)); diff != "" {
			t.Errorf("turn that stands (-want +got):\n%s", diff)
		}
	}
}

func heardIsFixedOnce(t *testing.T, store runs.Store) {
	t.Helper()
	id := begin("acme").Key()
	putTurn(t, store, id, turnOf(1, "says"))
	first := []runs.Heard{{CallID: "toolu_01", Status: "completed", Says: "This call took effect. \"<é>\""}, {CallID: "~t1-1", Status: "unresolved", Says: "…"}}
	second := []runs.Heard{{CallID: "toolu_01", Status: "failed", Says: "no"}, {CallID: "~t1-1", Status: "failed", Says: "no"}}
	for _, heard := range [][]runs.Heard{first, second, first} {
		got, err := store.Hear(t.Context(), id, 1, heard)
		if diff := cmp.Diff(first, got); err != nil || diff != "" {
			t.Errorf("heard: %v (-want +got):\n%s", err, diff)
		}
	}
	turn := putTurn(t, store, id, turnOf(1, "other"))
	if diff := cmp.Diff(first, turn.Heard); diff != "" || !turn.Closed() {
		t.Errorf("a turn that is adopted brings what was heard (-want +got):\n%s", diff)
	}
}

func emptyTurnIsHeard(t *testing.T, store runs.Store) {
	t.Helper()
	id := begin("").Key()
	putTurn(t, store, id, runs.Turn{Number: 1, Says: "done", Final: true})
	if heard, err := store.Hear(t.Context(), id, 1, nil); err != nil || len(heard) != 0 {
		t.Errorf("hear = %v, %v", heard, err)
	}
}

func missingTurnIsNotHeard(t *testing.T, store runs.Store) {
	t.Helper()
	id := begin("").Key()
	if _, err := store.Hear(t.Context(), id, 3, []runs.Heard{{CallID: "a"}}); !errors.Is(err, runs.ErrCorrupt) {
		t.Errorf("hear = %v, want ErrCorrupt", err)
	}
	if turns, err := store.Turns(t.Context(), id, 1, 0); err != nil || len(turns) != 0 {
		t.Errorf("turns = %v, %v; want none made", turns, err)
	}
}

func turnsComeInOrder(t *testing.T, store runs.Store) {
	t.Helper()
	id := begin("acme").Key()
	for n := 12; n > 0; n-- {
		putTurn(t, store, id, turnOf(n, fmt.Sprint("turn ", n)))
	}
	turns, err := store.Turns(t.Context(), id, 3, 0)
	if err != nil || len(turns) != 10 {
		t.Fatalf("turns = %d, %v; want 10", len(turns), err)
	}
	for i, turn := range turns {
		if turn.Number != i+3 {
			t.Errorf("turns[%d] is number %d, want %d", i, turn.Number, i+3)
		}
	}
}

func largeTurnsComeWhole(t *testing.T, store runs.Store) {
	t.Helper()
	id := begin("acme").Key()
	for n := 1; n <= 6; n++ {
		turn := turnOf(n, strings.Repeat("w", runs.MaxSays-2))
		for i := range turn.Calls {
			turn.Calls[i].Arguments = fmt.Sprintf(`{"x":%q}`, strings.Repeat("y", 90<<10))
		}
		putTurn(t, store, id, turn)
	}
	turns, err := store.Turns(t.Context(), id, 1, 0)
	if err != nil || len(turns) != 6 {
		t.Fatalf("turns = %d, %v; want all 6", len(turns), err)
	}
}

func tenantsAreApart(t *testing.T, store runs.Store) {
	t.Helper()
	r := begin("acme")
	mustSave(t, store, r)
	putTurn(t, store, r.Key(), turnOf(1, "mine"))
	for _, tenant := range []string{"", "acme2"} {
		other := runs.ID{Tenant: tenant, Run: r.ID}
		turns, err := store.Turns(t.Context(), other, 1, 0)
		if load(t, store, other).Exists() || err != nil || len(turns) != 0 {
			t.Errorf("tenant %q sees the run: %d turns, %v", tenant, len(turns), err)
		}
	}
}

func expiryRepeats(t *testing.T, store runs.Store) {
	t.Helper()
	r := begin("acme")
	mustSave(t, store, r)
	putTurn(t, store, r.Key(), turnOf(1, "mine"))
	r = r.Advanced(turnOf(1, "mine")).Done(runs.Failure{}, r.StartedAt, rand.Text())
	mustSave(t, store, r)
	for range 2 {
		if err := store.Expire(t.Context(), r); err != nil {
			t.Errorf("expire: %v", err)
		}
	}
	turns, err := store.Turns(t.Context(), r.Key(), 1, 0)
	if err != nil || len(turns) != 1 || turns[0].Says != "mine" {
		t.Errorf("turns = %v, %v; want the turn whole", turns, err)
	}
}
