package dynamoruns_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/runs"
)

func TestRunThatCannotBeReadIsNamedInTheListAndHidesNoOther(t *testing.T) {
	t.Parallel()
	db := client(engine(t, "dynoxide"), nil)
	store := newStore(t, db)
	tenant := "t-" + strings.ToLower(rand.Text()[:12])
	for _, run := range []string{"good-1", "bad", "good-2"} {
		id := runs.ID{Tenant: tenant, Run: run}
		if _, err := store.Save(t.Context(), runs.Begin(runs.Start{ID: id, Execution: "e1", At: time.Unix(1_790_000_000, 0)}, rand.Text())); err != nil {
			t.Fatal(err)
		}
	}
	item := raw(t, db, runs.ID{Tenant: tenant, Run: "bad"}, "RUN")
	item["status"] = &types.AttributeValueMemberS{Value: "sleeping"}
	if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(tableName), Item: item}); err != nil {
		t.Fatal(err)
	}
	var seen []string
	q, corrupt := runs.Query{Tenant: tenant, Limit: 1}, 0
	for range 5 {
		page, err := store.Unended(t.Context(), q)
		if err != nil {
			corrupt++
			if !errors.Is(err, runs.ErrCorrupt) || !strings.Contains(err.Error(), tenant+"/bad") {
				t.Errorf("err = %v, want ErrCorrupt that names the run", err)
			}
		}
		for _, r := range page.Runs {
			seen = append(seen, r.ID)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"good-1", "good-2"}, seen); diff != "" || corrupt != 1 {
		t.Errorf("%d errors; listed (-want +got):\n%s", corrupt, diff)
	}
}

func TestListOfATenantsRunsCostsOneRequestOfEachShardAndReadsNoCalls(t *testing.T) {
	t.Parallel()
	counted := &queries{Client: client(engine(t, "dynoxide"), nil)}
	store := newStore(t, counted)
	tenant := "t-" + strings.ToLower(rand.Text()[:12])
	for n := range 40 {
		r := runs.Begin(runs.Start{ID: runs.ID{Tenant: tenant, Run: fmt.Sprint("run-", n)}, Execution: "e1", At: time.Unix(1_790_000_000, 0)}, rand.Text())
		if _, err := store.Save(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	page, err := store.Unended(t.Context(), runs.Query{Tenant: tenant, Limit: 5})
	if asked, read := counted.asked.Load(), counted.read.Load(); err != nil || len(page.Runs) != 5 || asked != 8 || read > 8*6 {
		t.Errorf("%d runs, %v, for %d queries that read %d items; want 5 for 8 that read at most 6 each", len(page.Runs), err, asked, read)
	}
}
