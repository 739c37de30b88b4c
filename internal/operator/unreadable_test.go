package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

// newer is a store some of whose items a newer version wrote.
type newer struct {
	*memledger.Store
	records []ledger.Key
	waits   []string // ids
	foreign *ledger.Key
}

type itemError struct {
	key   ledger.Key
	since time.Time
}

func (e *itemError) Error() string { return "an item is of schema 2" }
func (e *itemError) Unwrap() error { return ledger.ErrCorrupt }
func (e *itemError) Unreadable() (ledger.Key, time.Time) {
	return e.key, e.since
}

func (n newer) Load(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	if slices.Contains(n.records, key) {
		return ledger.Record{}, fmt.Errorf("load: %w", ledger.ErrCorrupt)
	}
	return n.Store.Load(ctx, key)
}

func (n newer) split(waits []ledger.Wait) (good []ledger.Wait, errs []error) {
	for _, w := range waits {
		if slices.Contains(n.waits, w.ID) {
			errs = append(errs, &itemError{w.Key, w.ParkedAt})
		} else {
			good = append(good, w)
		}
	}
	return good, errs
}

func (n newer) Waits(ctx context.Context, key ledger.Key) ([]ledger.Wait, error) {
	all, err := n.Store.Waits(ctx, key)
	good, errs := n.split(all)
	return good, errors.Join(append(errs, err)...)
}

func (n newer) Unsettled(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	page, err := n.Store.Unsettled(ctx, q)
	if err != nil {
		return page, err
	}
	var errs []error
	page.Waits, errs = n.split(page.Waits)
	page.Records = slices.DeleteFunc(page.Records, func(r ledger.Record) bool {
		broken := slices.Contains(n.records, r.Key)
		if broken {
			errs = append(errs, &itemError{r.Key, r.WaitsSince})
		}
		return broken
	})
	if n.foreign != nil {
		errs = append(errs, &itemError{key: *n.foreign}, &itemError{})
	}
	return page, errors.Join(errs...)
}

// over makes the bench's service read through n.
func (b *bench) over(t *testing.T, n newer) {
	t.Helper()
	n.Store = b.store
	b.service = b.serviceWith(t, func(cfg *operator.Config) { cfg.Store, cfg.Waits = n, n })
}

func TestARecordThatCannotBeReadIsListedByItsKeyAndHidesNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.unknown(t, "c1")
	b.now = b.now.Add(time.Minute)
	broken := b.unknown(t, "c2")
	b.now = b.now.Add(time.Minute)
	b.unknown(t, "c3")
	b.over(t, newer{records: []ledger.Key{broken.Key}, foreign: &ledger.Key{Tenant: "evil", RunID: "run-1", CallID: "c9"}})
	for _, filter := range []operator.Filter{{}, {Limit: 1}, {Status: "indeterminate"}} {
		var items []operator.Item
		for {
			list, err := b.service.List(t.Context(), ops, filter)
			if err != nil {
				t.Fatal(err)
			}
			clean(t, list)
			items = append(items, list.Items...)
			if filter.Cursor = list.NextCursor; filter.Cursor == "" {
				break
			}
		}
		want := []string{"c1 unknown_outcome", "c2 unreadable", "c3 unknown_outcome"}
		if diff := cmp.Diff(want, keys(operator.List{Items: items})); diff != "" {
			t.Fatalf("%+v (-want +got):\n%s", filter, diff)
		}
		if got := items[1]; got.Key != "acme/run-1:c2" || got.Effect != "unknown" || got.Tool != "" || got.WaitingSince != "2026-11-29T12:01:00Z" || got.WaitingSeconds != 60 ||
			!strings.Contains(got.WhatToDo, "have the item repaired") {
			t.Errorf("listed as %+v", got)
		}
	}
	if !strings.Contains(b.log.String(), broken.Key.Short()) || !strings.Contains(b.log.String(), "schema 2") {
		t.Errorf("the log does not say what is wrong: %s", b.log)
	}
	_, err := b.service.Show(t.Context(), ops, "run-1:c2")
	wantProblem(t, err, operator.CorruptRecord)
}

func TestAWaitThatCannotBeReadKeepsNoOtherSilent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.park(t, r, "newer")
	b.park(t, r, "w1")
	b.over(t, newer{waits: []string{"newer"}})
	shown, err := b.service.Show(t.Context(), ops, "run-1:c1")
	if err != nil || len(shown.Waits) != 1 || shown.Why != operator.WhyUnknown || !strings.Contains(shown.WhatToDo, "can't read") {
		t.Errorf("shown %+v, %q, %q, %v", shown.Waits, shown.Why, shown.WhatToDo, err)
	}
	got, err := b.service.Resolve(t.Context(), ops, failed(r, ""))
	if err != nil || got.RunWaiting != operator.Woken || b.bell.times() != 1 {
		t.Errorf("run waiting %q after %d bells, %v", got.RunWaiting, b.bell.times(), err)
	}
	list, err := b.service.List(t.Context(), ops, operator.Filter{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Why != operator.WhyUnreadable || list.Items[0].Status != "failed" || !strings.Contains(list.Items[0].WhatToDo, "POST reconcile wakes") {
		t.Errorf("list %+v, %v", list, err)
	}
	shown, err = b.service.Show(t.Context(), ops, "run-1:c1")
	if err != nil || shown.Why != operator.WhyUnreadable {
		t.Errorf("shown as %q, %v", shown.Why, err)
	}
}

func TestACallWhoseOnlyWaitCannotBeReadIsNotSaidToHaveNone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	b.park(t, r, "newer")
	b.over(t, newer{waits: []string{"newer"}})
	got, err := b.service.Resolve(t.Context(), ops, failed(r, ""))
	if err != nil || got.RunWaiting != operator.NotWokenYet || b.bell.times() != 0 {
		t.Errorf("run waiting %q after %d bells, %v", got.RunWaiting, b.bell.times(), err)
	}
}

func TestASleepingRunIsListedBesideAWaitThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sleepers(t, 1)
	b.over(t, newer{waits: []string{"w1"}})
	list, err := b.service.List(t.Context(), ops, operator.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"u-c000 unknown_outcome", "c000 run_not_woken"}, sorted(keys(list))); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

func sorted(words []string) []string {
	slices.Sort(words)
	slices.Reverse(words)
	return words
}
