package dynamoledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/dynamoledger"
	"github.com/onceward/onceward/middleware/once"
)

func TestGuardAcceptsNoLongerRetentionThanTheTables(t *testing.T) {
	t.Parallel()
	year := ledger.Retention{LongestRun: 365 * 24 * time.Hour}
	for _, c := range []struct {
		table time.Duration
		guard ledger.Retention
		ok    bool
	}{
		{0, ledger.Retention{}, true},
		{0, year, false},
		{year.Total(), year, true},
		{time.Hour, ledger.Retention{}, false},
	} {
		store, err := dynamoledger.New(dynamodb.New(dynamodb.Options{}), tableName, &dynamoledger.Options{Retention: c.table})
		if err != nil {
			t.Fatal(err)
		}
		_, err = once.New(store, &once.Options{Retention: c.guard})
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "Options.Retention") {
			t.Errorf("table %v, guard %v: %v", c.table, c.guard.Total(), err)
		}
	}
}
