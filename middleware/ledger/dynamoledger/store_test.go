package dynamoledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/internal/table"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
)

func TestNewRefusesOptionsOutsideTheirBounds(t *testing.T) {
	t.Parallel()
	c := newClient("http://127.0.0.1:1", nil)
	for name, o := range map[string]dynamoledger.Options{
		"negative limit": {InlineLimit: -1}, "limit above an item's": {InlineLimit: 65 << 10}, "negative shards": {Shards: -1},
		"too many shards": {Shards: 65}, "negative retention": {Retention: -1}, "negative wait": {ResultWait: -1},
	} {
		if _, err := dynamoledger.New(c, tableName, &o); !errors.Is(err, ledger.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	if _, err := dynamoledger.New(nil, tableName, nil); !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("no client: got %v, want ErrInvalid", err)
	}
	if _, err := dynamoledger.New(c, "", nil); !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("no table: got %v, want ErrInvalid", err)
	}
}

func TestTableThatExistsIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		endpoint := startTable(t, kind)
		s := newStore(t, newClient(endpoint, nil), nil)
		r := apply(t, s, start(t, freshKey()))
		if err := table.Create(t.Context(), newClient(endpoint, nil), tableName); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if got, err := s.Load(t.Context(), r.Key); err != nil || !got.Exists() {
			t.Errorf("%s: the record is gone: %v", kind, err)
		}
	}
}

// vanishing refuses the first puts as if a record stood there that is gone when
// somebody looks.
type vanishing struct {
	*dynamodb.Client
	mu   sync.Mutex
	left int
}

func (v *vanishing) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.left > 0 {
		v.left--
		return nil, fmt.Errorf("put: %w", &types.ConditionalCheckFailedException{})
	}
	return v.Client.PutItem(ctx, in, o...)
}

func TestReservationIsTriedAgainWhenWhatRefusedItIsGone(t *testing.T) {
	t.Parallel()
	endpoint := startTable(t, dynoxide)
	s := newStore(t, &vanishing{Client: newClient(endpoint, nil), left: 2}, nil)
	if r := apply(t, s, start(t, freshKey())); r.Status != ledger.Started {
		t.Errorf("it is %s, want started", r.State())
	}
	restless := newStore(t, &vanishing{Client: newClient(endpoint, nil), left: 100}, nil)
	if _, err := restless.Apply(t.Context(), start(t, freshKey())); !errors.Is(err, dynamoledger.ErrRestless) || errors.Is(err, ledger.ErrStale) {
		t.Errorf("got %v, want ErrRestless", err)
	}
}

// putRaw stores an item as somebody else might have.
func putRaw(t *testing.T, endpoint string, it map[string]types.AttributeValue) {
	t.Helper()
	if _, err := newClient(endpoint, nil).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(tableName), Item: it}); err != nil {
		t.Fatal(err)
	}
}

func TestNothingIsDecidedOnACorruptItem(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		endpoint := startTable(t, kind)
		s := newStore(t, newClient(endpoint, nil), nil)
		r := apply(t, s, start(t, freshKey()))
		it := storedItem(t, endpoint, r.Key)
		it["schema"] = &types.AttributeValueMemberN{Value: "2"}
		putRaw(t, endpoint, it)
		if _, err := s.Load(t.Context(), r.Key); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("%s: load: got %v, want ErrCorrupt", kind, err)
		}
		if got, err := s.Apply(t.Context(), start(t, r.Key)); !errors.Is(err, ledger.ErrCorrupt) || errors.Is(err, ledger.ErrStale) || got.Exists() {
			t.Errorf("%s: start: got %v, want ErrCorrupt", kind, err)
		}
	}
}

func TestListShowsWhatItCanReadAndSaysWhatItCant(t *testing.T) {
	t.Parallel()
	endpoint := startTable(t, dynoxide)
	s := newStore(t, newClient(endpoint, nil), nil)
	good, bad := freshKey(), freshKey()
	bad.Tenant, bad.CallID = good.Tenant, "toolu_02"
	apply(t, s, start(t, good))
	apply(t, s, start(t, bad))
	it := storedItem(t, endpoint, bad)
	it["schema"] = &types.AttributeValueMemberN{Value: "2"}
	putRaw(t, endpoint, it)
	page, err := s.Unsettled(t.Context(), ledger.Query{Tenant: good.Tenant})
	if !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), bad.String()) {
		t.Errorf("got %v, want ErrCorrupt with the key", err)
	}
	if len(page.Records) != 1 || page.Records[0].Key != good {
		t.Errorf("the page holds %d records, want the one that can be read", len(page.Records))
	}
}

// unreadables returns the calls that an error names as those whose items can't
// be read.
func unreadables(t *testing.T, err error) (found []ledger.Key) {
	t.Helper()
	if !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("got %v, want ErrCorrupt", err)
		return nil
	}
	all, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	if !ok {
		t.Fatalf("%v joins nothing", err)
	}
	for _, one := range all.Unwrap() {
		item, ok := errors.AsType[*dynamoledger.CorruptItemError](one)
		if !ok {
			t.Fatalf("got %T, want a CorruptItemError", one)
		}
		key, since := item.Unreadable()
		if key != (ledger.Key{}) && since.IsZero() {
			t.Errorf("%s does not say since when it waits", key)
		}
		found = append(found, key)
	}
	return found
}

func TestItemsThatCannotBeReadAreNamedByTheirCallAndHideNoOther(t *testing.T) {
	t.Parallel()
	endpoint := startTable(t, dynoxide)
	s := newStore(t, newClient(endpoint, nil), nil)
	key := freshKey()
	apply(t, s, start(t, key))
	for _, id := range []string{"w1", "w2", "w3"} {
		if err := s.SaveWait(t.Context(), ledger.Wait{Key: key, ID: id, Token: "token-" + ledger.Secret(id), Execution: "x", ParkedAt: noon}); err != nil {
			t.Fatal(err)
		}
	}
	broken := func(sort string) map[string]types.AttributeValue {
		it := itemOf(t, endpoint, key, sort)
		it["schema"] = &types.AttributeValueMemberN{Value: "2"}
		return it
	}
	putRaw(t, endpoint, broken("WAIT#"+key.CallID+"#w2"))
	waits, err := s.Waits(t.Context(), key)
	if got := unreadables(t, err); !slices.Equal(got, []ledger.Key{key}) {
		t.Errorf("named %v", got)
	}
	if len(waits) != 2 || waits[0].ID != "w1" || waits[1].ID != "w3" {
		t.Errorf("%d waits, want the two that can be read", len(waits))
	}
	foreign := broken("CALL#" + key.CallID) // lies in this tenant's part of the index
	foreign[names.AttrPartition] = &types.AttributeValueMemberS{Value: "another#" + key.RunID}
	putRaw(t, endpoint, foreign)
	page, err := s.Unsettled(t.Context(), ledger.Query{Tenant: key.Tenant})
	got := unreadables(t, err)
	slices.SortFunc(got, func(a, b ledger.Key) int { return strings.Compare(a.String(), b.String()) })
	if !slices.Equal(got, []ledger.Key{{}, key}) {
		t.Errorf("named %v, want the call of the wait, and not another tenant's", got)
	}
	if len(page.Records) != 1 || len(page.Waits) != 2 {
		t.Errorf("the page holds %d records and %d waits", len(page.Records), len(page.Waits))
	}
	if strings.Contains(err.Error(), "token-") {
		t.Errorf("the error holds a token: %v", err)
	}
}

// Runs keep themselves in the same index; they are not the ledger's to show, and
// must neither end a page early nor hide what comes after them.
func TestListPassesOverOthersItems(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		endpoint := startTable(t, kind)
		s := newStore(t, newClient(endpoint, nil), &dynamoledger.Options{Shards: 1})
		key := freshKey()
		for i := range 12 {
			it := itemKey(ledger.Key{Tenant: key.Tenant, RunID: fmt.Sprint("run-", i)}, "RUN")
			it[names.AttrIndexPartition] = &types.AttributeValueMemberS{Value: key.Tenant + "#0"}
			it[names.AttrIndexSort] = &types.AttributeValueMemberS{Value: fmt.Sprintf("%013d#run-%d", i, i)}
			putRaw(t, endpoint, it)
		}
		apply(t, s, start(t, key))
		page, err := s.Unsettled(t.Context(), ledger.Query{Tenant: key.Tenant, Limit: 2})
		if err != nil || len(page.Records) != 1 || page.Next != "" {
			t.Errorf("%s: got %d records, next %q, %v, want the one call", kind, len(page.Records), page.Next, err)
		}
	}
}

func TestTextThatWouldFillTheItemIsRefusedOrCut(t *testing.T) {
	t.Parallel()
	s := newStore(t, newClient(startTable(t, dynoxide), nil), nil)
	r := apply(t, s, start(t, freshKey()))
	settlement := ledger.Settlement{Effect: ledger.Happened, ExternalID: strings.Repeat("x", 500_000)}
	r = apply(t, s, must(t)(r.Settle(stamp(), r.Attempt.Token, settlement)))
	if r.Status != ledger.Completed || len(r.Outcome.ExternalID) > 1024 {
		t.Errorf("it is %s with an external id of %d bytes", r.State(), len(r.Outcome.ExternalID))
	}
	d := decision(r)
	d.Reason = strings.Repeat("because ", 5000)
	if _, err := s.Apply(t.Context(), must(t)(r.AskUndo(stamp(), d, ledger.UndoAsk{}))); !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("a reason of 40 KB: got %v, want ErrInvalid", err)
	}
}

func TestInlineLimitIsTheUsers(t *testing.T) {
	t.Parallel()
	s := newStore(t, newClient(startTable(t, dynoxide), nil), &dynamoledger.Options{InlineLimit: 8000})
	for size, inline := range map[int]bool{8000: true, 8001: false} {
		r := apply(t, s, complete(t, apply(t, s, start(t, freshKey())), make([]byte, size)))
		if got := r.Outcome.Result != nil; got != inline {
			t.Errorf("%d bytes: in the record %t, want %t", size, got, inline)
		}
	}
}

func TestNoErrorNamesATokenOrAResult(t *testing.T) {
	t.Parallel()
	secret := []byte("canary-result")
	s := newStore(t, newClient("http://127.0.0.1:1", nil, quickRetries), nil)
	r := ledger.Record{Key: freshKey(), Status: ledger.Started, Version: 1, Attempt: ledger.Attempt{Number: 1, Token: "canary-token"}}
	_, err := s.Apply(t.Context(), complete(t, r, secret))
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v, want an error without what was written", err)
	}
}
