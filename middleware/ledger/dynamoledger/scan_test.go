package dynamoledger_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
)

// whole scans everything and returns what is of the tenants, with what can't be
// read of anybody.
func whole(t *testing.T, s *dynamoledger.Store, limit int, tenants ...string) (calls, waits []string, broken []error, pages int) {
	t.Helper()
	q := ledger.Query{Limit: limit}
	for {
		page, err := s.Scan(t.Context(), q)
		if err != nil && !errors.Is(err, ledger.ErrCorrupt) {
			t.Fatal(err)
		}
		if err != nil {
			broken = append(broken, err)
		}
		for _, r := range page.Records {
			if slices.Contains(tenants, r.Key.Tenant) {
				calls = append(calls, r.Key.String())
			}
		}
		for _, w := range page.Waits {
			if slices.Contains(tenants, w.Key.Tenant) {
				waits = append(waits, w.Key.String()+"#"+w.ID)
			}
		}
		pages++
		if q.Cursor = page.Next; q.Cursor == "" {
			slices.Sort(calls)
			slices.Sort(waits)
			return calls, waits, broken, pages
		}
	}
}

// Runs keep themselves in partitions of the same index, whichever tenant's they
// are: a page may hold nothing else and is not the last one.
func TestScanPassesOverRuns(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			endpoint := startTable(t, kind)
			s := newStore(t, newClient(endpoint, nil), nil)
			key := freshKey()
			for i := range 30 {
				it := itemKey(ledger.Key{Tenant: key.Tenant, RunID: fmt.Sprint("run-", i)}, "RUN")
				it[names.AttrIndexPartition] = &types.AttributeValueMemberS{Value: fmt.Sprintf("%s#run#%d", key.Tenant, i%8)}
				it[names.AttrIndexSort] = &types.AttributeValueMemberS{Value: fmt.Sprintf("%013d#run-%d", i, i)}
				putRaw(t, endpoint, it)
			}
			apply(t, s, start(t, key))
			calls, _, broken, pages := whole(t, s, 2, key.Tenant)
			for _, err := range broken { // other tests break items of their own
				if strings.Contains(err.Error(), key.Tenant) {
					t.Errorf("broken: %v", err)
				}
			}
			if !slices.Equal(calls, []string{key.String()}) || pages < 2 {
				t.Errorf("got %v in %d pages, want %s alone", calls, pages, key)
			}
		})
	}
}

func TestScanNamesWhatCannotBeReadByItsCallAndHidesNoOther(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			endpoint := startTable(t, kind)
			s := newStore(t, newClient(endpoint, nil), nil)
			good, bad := freshKey(), freshKey()
			alone := ledger.Key{RunID: good.Tenant, CallID: "call-1"} // of the tenant without a name
			for _, key := range []ledger.Key{good, bad, alone} {
				apply(t, s, start(t, key))
			}
			for _, id := range []string{"w1", "w2"} {
				w := ledger.Wait{Key: good, ID: id, Token: "token-" + ledger.Secret(id), Execution: "x", ParkedAt: noon}
				if err := s.SaveWait(t.Context(), w); err != nil {
					t.Fatal(err)
				}
			}
			for key, sort := range map[ledger.Key]string{bad: "CALL#" + bad.CallID, alone: "CALL#" + alone.CallID, good: "WAIT#" + good.CallID + "#w2"} {
				if key.Tenant == "" {
					key.Tenant = "."
				}
				it := itemOf(t, endpoint, key, sort)
				it["schema"] = &types.AttributeValueMemberN{Value: "2"}
				putRaw(t, endpoint, it)
			}
			calls, waits, broken, _ := whole(t, s, 500, good.Tenant, bad.Tenant, "")
			calls = slices.DeleteFunc(calls, func(c string) bool { return c != alone.String() && !strings.Contains(c, "/") })
			if !slices.Equal(calls, []string{good.String()}) || !slices.Equal(waits, []string{good.String() + "#w1"}) {
				t.Errorf("got %v and %v", calls, waits)
			}
			var named []ledger.Key
			for _, err := range broken {
				if strings.Contains(err.Error(), "token-") {
					t.Errorf("the error holds a token: %v", err)
				}
				named = append(named, unreadables(t, err)...)
			}
			for _, key := range []ledger.Key{good, bad, alone} {
				if !slices.Contains(named, key) {
					t.Errorf("%s is not named", key)
				}
			}
		})
	}
}

type onlyNeeded struct{ dynamoledger.Client }

func TestScanNeedsAClientThatCanScan(t *testing.T) {
	t.Parallel()
	s := newStore(t, onlyNeeded{newClient("http://127.0.0.1:1", nil)}, nil)
	if _, err := s.Scan(t.Context(), ledger.Query{}); !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
}

func TestScanGoesOnOnlyFromItsOwnCursor(t *testing.T) {
	t.Parallel()
	endpoint := startTable(t, dynoxide)
	s := newStore(t, newClient(endpoint, nil), nil)
	key := freshKey()
	for i := range 3 {
		next := key
		next.CallID = fmt.Sprint("call-", i)
		apply(t, s, start(t, next))
	}
	page, err := s.Unsettled(t.Context(), ledger.Query{Tenant: key.Tenant, Limit: 1})
	if err != nil || page.Next == "" {
		t.Fatalf("%v, next %q", err, page.Next)
	}
	if _, err := s.Scan(t.Context(), ledger.Query{Cursor: page.Next}); !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
}
