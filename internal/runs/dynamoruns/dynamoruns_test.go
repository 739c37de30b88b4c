package dynamoruns_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/internal/runs/dynamoruns"
	"github.com/onceward/onceward/internal/runs/runstest"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
)

func kinds() []string { return []string{"dynoxide", "dynalite"} }

func newStore(t *testing.T, api dynamoruns.API) *dynamoruns.Store {
	t.Helper()
	store, err := dynamoruns.New(api, tableName, ledger.Retention{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestKeepsTheContract(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			seen := &consistent{complain: t.Errorf, seen: map[string]int{}}
			runstest.Exercise(t, newStore(t, client(engine(t, kind), seen)))
			if seen.seen["GetItem"] == 0 || seen.seen["Query"] == 0 {
				t.Errorf("reads that were seen: %v", seen.seen)
			}
		})
	}
}

// link carries requests, and loses the answer of one, or the request itself.
// It is what a client's own retries have to get over.
type link struct {
	mu        sync.Mutex
	nth       int // of the writes, from 1
	delivered bool
	writes    []string
}

var errCut = errors.New("connection reset by peer")

func (l *link) RoundTrip(req *http.Request) (*http.Response, error) {
	operation := strings.TrimPrefix(req.Header.Get("X-Amz-Target"), "DynamoDB_20120810.")
	if operation != "PutItem" && operation != "UpdateItem" {
		return http.DefaultTransport.RoundTrip(req)
	}
	l.mu.Lock()
	l.writes = append(l.writes, operation)
	cut := len(l.writes) == l.nth
	l.mu.Unlock()
	if cut && !l.delivered {
		return nil, errCut
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if cut && err == nil {
		return nil, errors.Join(errCut, resp.Body.Close())
	}
	return resp, err
}

// story makes every kind of write once, as a planner does.
func story(t *testing.T, store runs.Store, id runs.ID, input string) (runs.Run, []runs.Turn) {
	t.Helper()
	at := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	turn := runs.Turn{Number: 1, Calls: []runs.Call{{ID: "a", Tool: "find_order", Arguments: "{}"}}, At: at}
	r := runs.Begin(runs.Start{ID: id, Execution: "e1", Input: json.RawMessage(input), At: at}, rand.Text())
	steps := []func() error{
		func() error { _, err := store.Save(t.Context(), r); return err },
		func() error { _, err := store.PutTurn(t.Context(), id, turn); return err },
		func() error {
			r = r.Advanced(turn).Issued([]int{0}, rand.Text())
			_, err := store.Save(t.Context(), r)
			return err
		},
		func() error {
			_, err := store.Hear(t.Context(), id, 1, []runs.Heard{{CallID: "a", Status: "completed", Says: "ok"}})
			return err
		},
		func() error {
			r = r.Done(runs.Failure{}, at.Add(time.Minute), rand.Text())
			_, err := store.Save(t.Context(), r)
			return err
		},
		func() error { return store.Expire(t.Context(), r) },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	stands, err := store.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	turns, err := store.Turns(t.Context(), id, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	stands.LastWrite = "" // random
	return stands, turns
}

// Proves: R36, R148
func TestLostAnswersAndRequestsAreMadeGoodByTheClientsOwnRetries(t *testing.T) {
	t.Parallel()
	long := `{"run_id":"` + strings.Repeat("x", 3000) + `"}`
	for _, kind := range kinds() {
		url := engine(t, kind)
		id := runs.ID{Tenant: "acme", Run: "calm-" + rand.Text()}
		calm := &link{}
		wantRun, wantTurns := story(t, newStore(t, client(url, calm)), id, long)
		for nth := range calm.writes {
			for _, delivered := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/write %d, stored %v", kind, nth+1, delivered), func(t *testing.T) {
					t.Parallel()
					bad := &link{nth: nth + 1, delivered: delivered}
					id := runs.ID{Tenant: "acme", Run: "lost-" + rand.Text()}
					gotRun, gotTurns := story(t, newStore(t, client(url, bad)), id, long)
					gotRun.ID = wantRun.ID
					if diff := cmp.Diff(wantRun, gotRun); diff != "" {
						t.Errorf("run (-calm +lossy):\n%s", diff)
					}
					if diff := cmp.Diff(wantTurns, gotTurns); diff != "" {
						t.Errorf("turns (-calm +lossy):\n%s", diff)
					}
					if len(bad.writes) != len(calm.writes)+1 {
						t.Errorf("%d writes were sent, want %d and one again", len(bad.writes), len(calm.writes))
					}
				})
			}
		}
	}
}

func raw(t *testing.T, db *dynamodb.Client, id runs.ID, sort string) map[string]types.AttributeValue {
	t.Helper()
	out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(tableName), ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{
		names.AttrPartition: &types.AttributeValueMemberS{Value: id.Tenant + "#" + id.Run}, names.AttrSort: &types.AttributeValueMemberS{Value: sort},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

func ttlOf(item map[string]types.AttributeValue) string {
	if n, ok := item[names.AttrTTL].(*types.AttributeValueMemberN); ok {
		return n.Value
	}
	return ""
}

// Proves: R131
func TestRunIsListedAndNeverExpiresUntilItHasEnded(t *testing.T) {
	t.Parallel()
	db := client(engine(t, "dynoxide"), nil)
	store := newStore(t, db)
	id := runs.ID{Tenant: "acme", Run: "listed-" + rand.Text()}
	r := runs.Begin(runs.Start{ID: id, Execution: "e1", At: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)}, rand.Text())
	if _, err := store.Save(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	item := raw(t, db, id, "RUN")
	part, _ := item[names.AttrIndexPartition].(*types.AttributeValueMemberS)
	sort, _ := item[names.AttrIndexSort].(*types.AttributeValueMemberS)
	if part == nil || sort == nil || !strings.HasPrefix(part.Value, "acme#run#") || sort.Value != "1795946400000#"+id.Run || ttlOf(item) != "" {
		t.Errorf("a running run is %v, want it listed without a ttl", item)
	}
	end := r.Done(runs.Failure{}, r.StartedAt, rand.Text())
	if _, err := store.Save(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	item = raw(t, db, id, "RUN")
	want := strconv.FormatInt(r.StartedAt.Add(ledger.DefaultRetention().Total()+ledger.BroomDelay).Unix(), 10)
	if item[names.AttrIndexPartition] != nil || item[names.AttrIndexSort] != nil || ttlOf(item) != want {
		t.Errorf("an ended run is %v, want it unlisted, with ttl %s", item, want)
	}
}

// Proves: R131
func TestTurnsAndInputExpireOnlyWithTheEndOfTheirRun(t *testing.T) {
	t.Parallel()
	db := client(engine(t, "dynoxide"), nil)
	store := newStore(t, db)
	id := runs.ID{Tenant: "acme", Run: "expiry-" + rand.Text()}
	input := json.RawMessage(`{"a":"` + strings.Repeat("x", 2000) + `"}`)
	r := runs.Begin(runs.Start{ID: id, Execution: "e1", Input: input, At: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)}, rand.Text())
	turn := runs.Turn{Number: 1, Final: true}
	if _, err := store.Save(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutTurn(t.Context(), id, turn); err != nil {
		t.Fatal(err)
	}
	sorts := []string{"TURN#000001", "INPUT#" + string(ledger.DigestOf(input))}
	for _, sort := range sorts {
		if item := raw(t, db, id, sort); len(item) == 0 || ttlOf(item) != "" {
			t.Errorf("%s of a running run is %v, want it there without a ttl", sort, item)
		}
	}
	if err := store.Expire(t.Context(), r.Advanced(turn).Done(runs.Failure{}, r.StartedAt, rand.Text())); err != nil {
		t.Fatal(err)
	}
	want := strconv.FormatInt(r.StartedAt.Add(ledger.DefaultRetention().Total()+ledger.BroomDelay).Unix(), 10)
	for _, sort := range sorts {
		if got := ttlOf(raw(t, db, id, sort)); got != want {
			t.Errorf("%s of an ended run has ttl %q, want %s", sort, got, want)
		}
	}
}

// queries counts what a list costs.
type queries struct {
	*dynamodb.Client
	asked, read atomic.Int64
}

func (q *queries) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := q.Client.Query(ctx, in, o...)
	if err == nil {
		q.asked.Add(1)
		q.read.Add(int64(out.ScannedCount))
	}
	return out, err
}

func TestListOfUnsettledCallsCostsTheSameHoweverManyRunsAreRunning(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db := client(engine(t, kind), nil)
			store := newStore(t, db)
			tenant := "t-" + strings.ToLower(rand.Text()[:12])
			for n := range 60 {
				r := runs.Begin(runs.Start{ID: runs.ID{Tenant: tenant, Run: fmt.Sprint("run-", n)}, Execution: "e1", At: time.Unix(1_790_000_000, 0)}, rand.Text())
				if _, err := store.Save(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			counted := &queries{Client: db}
			calls, err := dynamoledger.New(counted, tableName, nil)
			if err != nil {
				t.Fatal(err)
			}
			page, err := calls.Unsettled(t.Context(), ledger.Query{Tenant: tenant, Limit: 1})
			if err != nil || len(page.Records) != 0 || len(page.Waits) != 0 || page.Next != "" {
				t.Errorf("page = %+v, %v; want it empty", page, err)
			}
			if asked, read := counted.asked.Load(), counted.read.Load(); asked != 8 || read != 0 {
				t.Errorf("%d queries read %d items; want one of each of the 8 shards, and no run read", asked, read)
			}
		})
	}
}

// busy answers updates when as many are under way as it was told, and then every
// one but the named.
type busy struct {
	*dynamodb.Client
	full    sync.WaitGroup
	refuses string
}

func (b *busy) UpdateItem(_ context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	b.full.Done()
	b.full.Wait()
	if sort, ok := in.Key[names.AttrSort].(*types.AttributeValueMemberS); ok && sort.Value == b.refuses {
		return nil, errCut
	}
	return &dynamodb.UpdateItemOutput{}, nil
}

func TestTurnsOfAnEndedRunExpireManyAtATimeAndAFailureIsTold(t *testing.T) {
	t.Parallel()
	for _, refuses := range []string{"", "TURN#000007"} {
		db := &busy{refuses: refuses}
		db.full.Add(16) // with fewer at a time it would wait for ever
		r := runs.Begin(runs.Start{ID: runs.ID{Run: "run-1"}, Execution: "e1", At: time.Unix(1, 0)}, "w")
		r.Turn = 16
		err := newStore(t, db).Expire(t.Context(), r.Done(runs.Failure{}, r.StartedAt, "w2"))
		if errors.Is(err, errCut) != (refuses != "") || err != nil && !strings.Contains(err.Error(), refuses) {
			t.Errorf("refusing %q: err = %v", refuses, err)
		}
	}
}

func TestLongInputLiesBesideTheRunAndComesBackWhole(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds() {
		db := client(engine(t, kind), nil)
		store := newStore(t, db)
		id := runs.ID{Tenant: "acme", Run: "input-" + rand.Text()}
		input := json.RawMessage(`{"a":"` + strings.Repeat("é", 90<<10) + `"}`)
		r := runs.Begin(runs.Start{ID: id, Execution: "e1", Input: input, At: time.Unix(1_790_000_000, 0).UTC()}, rand.Text())
		other := runs.Begin(runs.Start{ID: id, Execution: "e2", Input: json.RawMessage(`{"b":"` + strings.Repeat("y", 9<<10) + `"}`), At: r.StartedAt}, rand.Text())
		if _, err := store.Save(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		stands, err := store.Save(t.Context(), other)
		if !errors.Is(err, runs.ErrStale) || string(stands.Input) != string(input) {
			t.Errorf("%s: another first driver sees an input of %d bytes, %v", kind, len(stands.Input), err)
		}
		loaded, err := store.Load(t.Context(), id)
		if diff := cmp.Diff(r, loaded); err != nil || diff != "" {
			t.Errorf("%s: loaded: %v\n%s", kind, err, diff)
		}
		if item := raw(t, db, id, "RUN"); item["input"] != nil {
			t.Errorf("%s: a long input lies in the run's item", kind)
		}
	}
}

func TestItemThatDoesNotSayWhatItMustIsRefused(t *testing.T) {
	t.Parallel()
	db := client(engine(t, "dynoxide"), nil)
	store := newStore(t, db)
	for attr, value := range map[string]types.AttributeValue{
		"schema":    &types.AttributeValueMemberN{Value: "2"},
		"status":    &types.AttributeValueMemberS{Value: "sleeping"},
		"driver":    &types.AttributeValueMemberS{Value: ""},
		"progress":  &types.AttributeValueMemberS{Value: "{"},
		"version":   &types.AttributeValueMemberS{Value: "1"},
		"kind":      &types.AttributeValueMemberS{Value: "call"},
		"active_ms": &types.AttributeValueMemberS{Value: "1"},
		"input_at":  &types.AttributeValueMemberS{Value: "INPUT#gone"},
	} {
		id := runs.ID{Tenant: "acme", Run: "corrupt-" + rand.Text()}
		if _, err := store.Save(t.Context(), runs.Begin(runs.Start{ID: id, Execution: "e1", At: time.Unix(1, 0)}, rand.Text())); err != nil {
			t.Fatal(err)
		}
		item := raw(t, db, id, "RUN")
		item[attr] = value
		if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(tableName), Item: item}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Load(t.Context(), id); !errors.Is(err, runs.ErrCorrupt) {
			t.Errorf("%s: err = %v, want ErrCorrupt", attr, err)
		}
	}
}

func TestStoreWithoutTableOrClientIsNotMade(t *testing.T) {
	t.Parallel()
	_, err := dynamoruns.New(nil, "", ledger.Retention{})
	if !errors.Is(err, dynamoruns.ErrOptions) || !strings.Contains(err.Error(), "client, table") {
		t.Errorf("err = %v", err)
	}
}

// Proves: R167
func TestPlansOfATurnCostFewRequests(t *testing.T) {
	t.Parallel()
	counted := &link{}
	story(t, newStore(t, client(engine(t, "dynoxide"), counted)), runs.ID{Tenant: "acme", Run: "cost-" + rand.Text()}, `{}`)
	want := []string{"PutItem", "PutItem", "PutItem", "UpdateItem", "PutItem", "UpdateItem"}
	if diff := cmp.Diff(want, slices.Clone(counted.writes)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}
