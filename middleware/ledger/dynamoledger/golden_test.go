package dynamoledger

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/ledgertest"
)

var updateGolden = flag.Bool("update", false, "write the golden files")

// The conditions of all rows, to be read by a person: a change of the table or
// of the builder shows here as text.
func TestConditionOfEachRowIsTheOneThatWasReviewed(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	ledgertest.EachRow(func(row ledger.Row, before ledger.Record, m ledger.Move) {
		cond := conditionOf(m, m.Rows(), before, false)
		fmt.Fprintf(&b, "%s\n  from    %s\n  proof   %s\n  if      %s\n", row.Name, before.State(), row.Proof, cond.text)
		if names := slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(cond.fixed)), cond.own))); len(names) > 0 {
			fmt.Fprintf(&b, "  values  %s\n", strings.Join(names, " "))
		}
		if row.Proof != ledger.ByAbsence {
			next, err := m.On(before)
			if err != nil {
				t.Fatal(err)
			}
			in := testStore(t).updateOf(m, before, next.Kept(), false)
			fmt.Fprintf(&b, "  then    %s\n", *in.UpdateExpression)
		}
		b.WriteByte('\n')
	})
	golden(t, "testdata/conditions.golden", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *updateGolden {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; look at it, then run with -update (-want +got):\n%s", name, diff)
	}
}

func testStore(tb testing.TB) *Store {
	tb.Helper()
	options, err := (*Options)(nil).withDefaults()
	if err != nil {
		tb.Fatal(err)
	}
	return &Store{options: options}
}

// The rows of one move must agree in what they write, since the store can't know
// by which of them the stored record moves.
func TestRowsOfOneMoveWriteTheSame(t *testing.T) {
	t.Parallel()
	ledgertest.EachRow(func(_ ledger.Row, _ ledger.Record, m ledger.Move) {
		rows := m.Rows()
		for _, row := range rows[1:] {
			first := rows[0]
			if row.Set != first.Set || row.Clear != first.Clear || row.To != first.To || row.Same || first.Same {
				t.Errorf("%q and %q write different states", first.Name, row.Name)
			}
		}
	})
}
