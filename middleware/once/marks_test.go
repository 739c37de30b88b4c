package once_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// Proves: R63, R65, R66, R67
func TestMarksComposeWithWrapping(t *testing.T) {
	t.Parallel()
	lost, declined := errors.New("connection reset"), errors.New("card declined")
	for _, mark := range []func(error) error{once.NotAttempted, once.Rejected, func(err error) error { return once.Landed("x", err) }} {
		if !errors.Is(mark(declined), declined) {
			t.Error("a mark hides its cause")
		}
		if mark(nil) != nil {
			t.Error("a mark of nil is no nil")
		}
	}
	for _, c := range []struct {
		name string
		err  error
		want once.Status
		code string
		says string
	}{
		{"mark inside %w", fmt.Errorf("issue canary: %w", once.Rejected(declined)), once.Failed, "rejected", "card declined"},
		{"mark outside", once.Rejected(fmt.Errorf("issue: %w", declined)), once.Failed, "rejected", "issue: card declined"},
		{"unmarked", lost, once.Indeterminate, "outcome_unknown", ""},
		{"joined with an unmarked one", errors.Join(once.NotAttempted(declined), lost), once.Indeterminate, "outcome_unknown", ""},
		{"joined, all say the same", errors.Join(once.Rejected(declined), once.Rejected(errors.New("twice"))), once.Failed, "rejected", "card declined; twice"},
		{"joined, nothing was sent or it was refused", errors.Join(once.NotAttempted(lost), once.Rejected(declined)), once.Failed, "rejected", "connection reset; card declined"},
		{"joined, one landed and one did not", errors.Join(once.Landed("a", lost), once.Rejected(declined)), once.Indeterminate, "outcome_unknown", ""},
		{"joined unknowns", errors.Join(lost, lost), once.Indeterminate, "outcome_unknown", ""},
		{"landed", once.Landed("cr_1", lost), once.Completed, "", ""},
		{"a status is no mark", once.Failed, once.Indeterminate, "outcome_unknown", ""},
		{"outermost mark wins", once.Landed("cr_1", once.Rejected(declined)), once.Completed, "", ""},
		{"two %w, one of them unmarked", fmt.Errorf("%w: %w", declined, once.Rejected(lost)), once.Indeterminate, "outcome_unknown", ""},
		{"it cancelled something of its own", context.Canceled, once.Indeterminate, "outcome_unknown", ""},
		{"a request of its own timed out", context.DeadlineExceeded, once.Indeterminate, "timeout", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := &bank{before: func(context.Context) error { return c.err }}
			out := bind(t, newGuard(t, newStore(t)), b.tool()).Do(t.Context(), call1, five)
			_, err := out.Value()
			if !errors.Is(err, c.want) || out.Code != c.code || c.says != "" && out.Message != c.says {
				t.Errorf("got %v; want %s, %s, %q", err, c.want, c.code, c.says)
			}
			if errors.Is(err, declined) || errors.Is(err, lost) || strings.Contains(err.Error(), "canary") {
				t.Errorf("the answer leaks what a replay could not: %v", err)
			}
		})
	}
}

func TestLandedKeepsTheExternalID(t *testing.T) {
	t.Parallel()
	b := &bank{after: func(context.Context) error { return once.Landed("cr_7", errors.New("can't read the answer")) }}
	bound := bind(t, newGuard(t, newStore(t)), b.tool())
	for range 2 {
		out := bound.Do(t.Context(), call1, five)
		_, err := out.Value()
		if out.Status != once.Completed || out.Effect != ledger.Happened || out.ExternalID != "cr_7" || !errors.Is(err, once.Completed) {
			t.Errorf("got %+v, %v", out.Report, err)
		}
		if out.ModelSays != "This call took effect. Its result was not kept." {
			t.Errorf("the model hears %q", out.ModelSays)
		}
	}
}

func TestLongReasonsAreCut(t *testing.T) {
	t.Parallel()
	b := &bank{before: func(context.Context) error { return once.Rejected(errors.New(strings.Repeat("ä", 500))) }}
	out := bind(t, newGuard(t, newStore(t)), b.tool()).Do(t.Context(), call1, five)
	if len(out.Message) > ledger.MaxMessage || !strings.HasSuffix(out.Message, "…") {
		t.Errorf("message of %d bytes", len(out.Message))
	}
}
