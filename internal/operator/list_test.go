package operator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
)

func keys(list operator.List) []string {
	var all []string
	for _, item := range list.Items {
		all = append(all, item.CallID+" "+string(item.Why))
	}
	return all
}

// queue makes one call of every kind, a minute apart.
func (b *bench) queue(t *testing.T) {
	t.Helper()
	b.start(t, "overdue")
	b.now = b.now.Add(time.Minute)
	b.unknown(t, "unknown")
	b.now = b.now.Add(time.Minute)
	b.reserve(t, "asked")
	b.now = b.now.Add(time.Minute)
	r := b.unknown(t, "granted")
	move, err := r.Resolve(b.stamp("grant"), ledger.Decision{ID: "d", Actor: "ada", Reason: "r", Version: r.Version}, ledger.Settlement{Effect: ledger.NoEffect, Retryable: true})
	b.apply(t, move, err)
	b.now = b.now.Add(time.Minute)
	r = b.start(t, "denied-by-fact")
	move, err = r.Settle(b.stamp("reject"), r.Attempt.Token, ledger.Settlement{Effect: ledger.NoEffect})
	r = b.apply(t, move, err)
	move, err = r.Settle(b.stamp("late"), r.Attempt.Token, ledger.Settlement{Effect: ledger.Happened, ExternalID: "cr_1"})
	b.apply(t, move, err)
	b.now = b.now.Add(time.Minute)
	r = b.start(t, "done")
	move, err = r.Settle(b.stamp("done"), r.Attempt.Token, ledger.Settlement{Effect: ledger.Happened})
	b.apply(t, move, err)
	b.start(t, "running")
	b.park(t, r, "w-unconfirmed")
	b.now = b.now.Add(5*time.Second + 500*time.Millisecond)
}

// Proves: R101, R102
func TestListHoldsWhatNeedsSomebodyLongestWaitingFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.queue(t)
	tests := map[string]struct {
		filter operator.Filter
		want   []string
	}{
		"all":       {operator.Filter{}, []string{"overdue executor_overdue", "unknown unknown_outcome", "asked awaiting_approval", "granted unused_grant", "denied-by-fact contradicted", "done run_not_woken"}},
		"unknown":   {operator.Filter{Status: "indeterminate"}, []string{"unknown unknown_outcome"}},
		"started":   {operator.Filter{Status: "started"}, []string{"overdue executor_overdue", "running in_flight"}},
		"failed":    {operator.Filter{Status: "failed"}, []string{"granted unused_grant", "denied-by-fact contradicted"}},
		"completed": {operator.Filter{Status: "completed"}, []string{"done run_not_woken"}},
		"tool":      {operator.Filter{Tool: "issue_credit", Status: "reserved"}, []string{"asked awaiting_approval"}},
		"no match":  {operator.Filter{Tool: "find_order"}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, err := b.service.List(t.Context(), ops, tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			clean(t, list)
			if diff := cmp.Diff(tt.want, keys(list)); diff != "" || list.NextCursor != "" {
				t.Errorf("list (-want +got), next %q:\n%s", list.NextCursor, diff)
			}
		})
	}
	list, _ := b.service.List(t.Context(), ops, operator.Filter{Status: "indeterminate"})
	want := operator.Item{
		Key: "acme/run-1:unknown", RunID: "run-1", CallID: "unknown", Tool: "issue_credit", Agent: "billing-assistant", Status: "indeterminate", State: "indeterminate",
		Effect: "unknown", Turn: 1, Summary: "2500 cents to A1", WaitingSince: "2026-11-29T12:01:00Z", WaitingSeconds: 245, Why: "unknown_outcome", Version: 2,
	}
	if diff := cmp.Diff([]operator.Item{want}, list.Items); diff != "" {
		t.Errorf("item (-want +got):\n%s", diff)
	}
}

func TestListPagesMeetEveryCallOnceWhateverTheLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var want []string
	for i := range 23 {
		id := fmt.Sprintf("c%02d", i)
		r := b.unknown(t, id)
		b.park(t, r, "w") // waits share the index with records and are not listed
		b.now = b.now.Add(time.Second)
		want = append(want, id+" unknown_outcome")
	}
	for _, limit := range []int{1, 2, 5, 23, 24, 200} {
		var got []string
		filter := operator.Filter{Limit: limit}
		for {
			list, err := b.service.List(t.Context(), ops, filter)
			if err != nil || len(list.Items) > limit {
				t.Fatalf("limit %d: %d calls, %v", limit, len(list.Items), err)
			}
			got = append(got, keys(list)...)
			if filter.Cursor = list.NextCursor; filter.Cursor == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

func TestListRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 3 {
		b.unknown(t, fmt.Sprint("c", i))
	}
	page, err := b.service.List(t.Context(), ops, operator.Filter{Limit: 1})
	if err != nil || page.NextCursor == "" {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		id     operator.Identity
		filter operator.Filter
		want   operator.Code
	}{
		"status":                  {ops, operator.Filter{Status: "follows"}, operator.InvalidRequest},
		"limit":                   {ops, operator.Filter{Limit: 201}, operator.InvalidRequest},
		"negative limit":          {ops, operator.Filter{Limit: -1}, operator.InvalidRequest},
		"garbled cursor":          {ops, operator.Filter{Cursor: "%%"}, operator.InvalidCursor},
		"foreign cursor":          {operator.Identity{Tenant: "evil", Actor: "eve", Scopes: ops.Scopes}, operator.Filter{Cursor: page.NextCursor}, operator.InvalidCursor},
		"cursor of another query": {ops, operator.Filter{Tool: "find_order", Cursor: page.NextCursor}, operator.InvalidCursor},
	} {
		_, err := b.service.List(t.Context(), tt.id, tt.filter)
		t.Log(name)
		wantProblem(t, err, tt.want)
	}
	b.store.Arm(memledger.Fault{Op: memledger.Unsettled})
	_, err = b.service.List(t.Context(), ops, operator.Filter{})
	wantProblem(t, err, operator.Unavailable)
}

// leaky answers another tenant's records, as a broken index would.
type leaky struct{ *memledger.Store }

func (l leaky) Unsettled(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	q.Tenant = "acme"
	return l.Store.Unsettled(ctx, q)
}

// Proves: R103
func TestListHoldsOnlyTheCallersTenantWhateverTheIndexSays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.unknown(t, "c1")
	service, err := operator.New(operator.Config{Store: leaky{b.store}, Waits: b.store, Runs: b.runs, Bell: b.bell, Tools: b.tools, Launcher: noLauncher{}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := service.List(t.Context(), operator.Identity{Tenant: "evil", Actor: "eve", Scopes: ops.Scopes}, operator.Filter{})
	if err != nil || len(list.Items) != 0 {
		t.Errorf("list = %+v, %v", list, err)
	}
}

func TestNewNamesEverythingThatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := operator.New(operator.Config{})
	if err == nil {
		t.Fatal("no error")
	}
	joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	if !ok || len(joined.Unwrap()) != 5 {
		t.Errorf("got %v, want 5 errors", err)
	}
}
