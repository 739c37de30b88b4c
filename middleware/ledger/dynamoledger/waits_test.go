package dynamoledger_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
)

// Proves: R131
func TestWaitStaysUntilItsBellIsConfirmedAndThenAsLongAsARecordWithoutItsToken(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		endpoint := startTable(t, kind)
		const retention = 100 * time.Hour
		s := newStore(t, newClient(endpoint, nil), &dynamoledger.Options{Retention: retention})
		key := freshKey()
		w := ledger.Wait{Key: key, ID: "w1", Token: "the-token", Execution: "x", ParkedAt: noon}
		if err := s.SaveWait(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if it := itemOf(t, endpoint, key, "WAIT#"+key.CallID+"#w1"); it["ttl"] != nil || it["bell"] == nil || it["upk"] == nil {
			t.Errorf("%s: a wait that was not confirmed is stored as %v", kind, it)
		}
		for range 2 {
			if err := s.ConfirmWait(t.Context(), w, "rung", noon.Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			it := itemOf(t, endpoint, key, "WAIT#"+key.CallID+"#w1")
			ttl, _ := it["ttl"].(*types.AttributeValueMemberN)
			want := strconv.FormatInt(noon.Add(time.Minute+retention+ledger.BroomDelay).Unix(), 10)
			if ttl == nil || ttl.Value != want || it["bell"] != nil || it["upk"] != nil || it["usk"] != nil {
				t.Errorf("%s: a confirmed wait is stored as %v, want it without token, unlisted, until %s", kind, it, want)
			}
		}
		waits, err := s.Waits(t.Context(), key)
		if err != nil || len(waits) != 1 || !waits[0].ParkedAt.Equal(noon) || !waits[0].RungAt.Equal(noon.Add(time.Minute)) {
			t.Errorf("%s: waits %+v, %v", kind, waits, err)
		}
	}
}
