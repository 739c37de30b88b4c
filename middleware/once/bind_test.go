package once_test

import (
	"context"
	"errors"
	"testing"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

func TestWrappedFunctionThatCantBeIdentifiedDoesNotRun(t *testing.T) {
	t.Parallel()
	b := &bank{}
	lost := errors.New("no execution id")
	guarded, err := once.Wrap(newGuard(t, newStore(t)), b.tool(), func(context.Context, creditIn) (once.Request, error) {
		return once.Request{}, lost
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = guarded(t.Context(), five)
	e, ok := errors.AsType[*once.Error](err)
	if !ok || !errors.Is(err, once.Refused) || !errors.Is(err, lost) || e.Code != "unidentified" || e.Effect != ledger.NoEffect || b.runs.Load() != 0 {
		t.Errorf("got %v, ran %d", err, b.runs.Load())
	}
}

func TestWrappedFunctionReplays(t *testing.T) {
	t.Parallel()
	b := &bank{}
	guarded, err := once.Wrap(newGuard(t, newStore(t)), b.tool(), func(context.Context, creditIn) (once.Request, error) { return call1, nil })
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if c, err := guarded(t.Context(), five); err != nil || c.ID != "cr_A1" {
			t.Errorf("got %v, %v", c, err)
		}
	}
	if b.effects.Load() != 1 {
		t.Errorf("effects %d", b.effects.Load())
	}
}

func TestWhatCantBeBoundSaysSo(t *testing.T) {
	t.Parallel()
	b := &bank{}
	if _, err := once.Bind(nil, b.tool()); err == nil {
		t.Error("bound to nothing")
	}
	if _, err := once.Wrap(newGuard(t, newStore(t)), b.tool(), nil); err == nil {
		t.Error("wrapped without a way to tell calls apart")
	}
	if _, err := once.Wrap(newGuard(t, newStore(t)), once.Tool[creditIn, credit]{}, func(context.Context, creditIn) (once.Request, error) { return call1, nil }); err == nil {
		t.Error("wrapped an empty tool")
	}
	if _, err := newGuard(t, newStore(t)).Handler(); err == nil {
		t.Error("a handler without tools")
	}
}

func TestRequestsWithoutAWellFormedKeyAreRefusedWithoutARead(t *testing.T) {
	t.Parallel()
	for code, req := range map[string]once.Request{
		"missing_id": {RunID: "r"},
		"bad_id":     {RunID: "r", CallID: "a b"},
	} {
		store, b := newStore(t), &bank{}
		bound := bind(t, newGuard(t, store), b.tool())
		for _, out := range []once.Outcome[credit]{bound.Do(t.Context(), req, five), bound.Reconcile(t.Context(), req, five), bound.Close(t.Context(), req)} {
			want(t, out.Report, once.Refused, ledger.NoEffect, ledger.Done, code)
		}
		if len(store.Log()) != 0 || b.runs.Load() != 0 {
			t.Errorf("%d requests, %d runs", len(store.Log()), b.runs.Load())
		}
	}
}

func TestUnknownPolicyIsRefused(t *testing.T) {
	t.Parallel()
	req := call1
	req.Policy = "retry"
	want(t, bind(t, newGuard(t, newStore(t)), (&bank{}).tool()).Do(t.Context(), req, five).Report, once.Refused, ledger.NoEffect, ledger.Done, "bad_field")
}

func TestCloseInThisProcessIsDoneOnce(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	bound := bind(t, newGuard(t, store), b.tool())
	for n := range 2 {
		out := bound.Close(t.Context(), call1)
		want(t, out.Report, once.Failed, ledger.NoEffect, ledger.Done, "closed")
		if out.Replayed != (n > 0) {
			t.Errorf("%d: replayed %t", n, out.Replayed)
		}
	}
	want(t, bound.Do(t.Context(), call1, five).Report, once.Failed, ledger.NoEffect, ledger.Done, "closed")
	if b.runs.Load() != 0 || record(t, store, call1.Key()).Version != 1 {
		t.Error("a closed call moved")
	}
}
