package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/middleware/ledger"
)

// tornHistory holds an older entry that can't be read.
type tornHistory struct{}

func (tornHistory) History(context.Context, ledger.Key) ([]ledger.Entry, error) {
	return nil, fmt.Errorf("%w: unknown schema version", ledger.ErrCorrupt)
}

func TestAnOlderEntryThatCannotBeReadDoesNotHideTheCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.unknown(t, "c1")
	move, err := r.Note(b.stamp("note"), ledger.Entry{Kind: ledger.Note, By: "ada", Reason: "looked"})
	b.apply(t, move, err)
	whole, err := b.service.Show(t.Context(), ops, "run-1:c1")
	if err != nil || whole.HistoryIncomplete || whole.WhatToDo != "" {
		t.Fatalf("%+v, %v", whole, err)
	}
	b.service = b.serviceWith(t, func(cfg *operator.Config) { cfg.History = tornHistory{} })
	got, err := b.service.Show(t.Context(), ops, "run-1:c1")
	if err != nil || !got.HistoryIncomplete || !strings.Contains(got.WhatToDo, "can't read") || len(got.Evidence) != 1 || got.Status != "indeterminate" {
		t.Fatalf("%+v, %v", got, err)
	}
	clean(t, got)
	if !strings.Contains(b.log.String(), r.Key.Short()) {
		t.Error("the log does not say which call's")
	}

	// A decision is still possible, and a repeat of it is recognised.
	for n := range 2 {
		if got, err := b.service.Resolve(t.Context(), ops, failed(r, "k1")); err != nil || got.Replayed != (n == 1) {
			t.Errorf("request %d: %+v, %v", n, got, err)
		}
	}
	_, err = b.service.Resolve(t.Context(), other, failed(r, "k2"))
	if p := theProblem(t, err, operator.AlreadyDecided); !strings.Contains(p.Detail, "not known whether an earlier request") {
		t.Errorf("told %s", p.Detail)
	}
	_, err = b.service.Resolve(t.Context(), other, failed(r, ""))
	if p := theProblem(t, err, operator.AlreadyDecided); strings.Contains(p.Detail, "earlier request") {
		t.Errorf("without a key there is nothing to recognise: %s", p.Detail)
	}
}
