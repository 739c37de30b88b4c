package once_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// fingerprints makes a call with the arguments and returns what was recorded.
func fingerprints(t *testing.T, tool once.Tool[creditIn, credit], arguments string) (fingerprint, received ledger.Digest) {
	t.Helper()
	store := newStore(t)
	a := ask(t.Context(), t, handlerOf(t, newGuard(t, store), tool), envelope("invoke", `{"account":"A1","cents":5}`, arguments))
	if a.Status != once.Completed {
		t.Fatalf("%s: %+v", arguments, a)
	}
	rec := record(t, store, call1.Key())
	return rec.Fingerprint, rec.Received
}

// Proves: R48, R52, R53, R54
func TestEqualMeaningsHaveOneFingerprint(t *testing.T) {
	t.Parallel()
	tool := (&bank{}).tool(func(t *once.Tool[creditIn, credit]) {
		t.Normalize = func(in *creditIn) error {
			if in.Cents == 0 {
				in.Cents = 100
			}
			in.Account = strings.ToUpper(in.Account)
			return nil
		}
	})
	base, baseReceived := fingerprints(t, tool, `{"account":"A1","cents":100}`)
	for arguments, sameReceived := range map[string]bool{
		`{"cents":100,"account":"A1"}`:                     true,
		` { "account" : "\u0041\u0031" , "cents" : 1e2 } `: true,
		`{"account":"A1","cents":100.0}`:                   true,
		`{"account":"A1"}`:                                 false,
		`{"account":"a1","cents":0,"note":""}`:             false,
	} {
		fp, received := fingerprints(t, tool, arguments)
		if fp != base || (received == baseReceived) != sameReceived {
			t.Errorf("%s: fingerprint equal %t, received equal %t", arguments, fp == base, received == baseReceived)
		}
	}
	fp, _ := fingerprints(t, tool, `{"account":"A1","cents":100}`)
	if fp != base {
		t.Error("the fingerprint is not steady")
	}
}

// Proves: R48, R55
func TestDifferentRequestsNeverShareAFingerprint(t *testing.T) {
	t.Parallel()
	seen := map[ledger.Digest]string{}
	for _, arguments := range []string{
		`{"account":"A1","cents":5}`, `{"account":"A1","cents":6}`, `{"account":"A2","cents":5}`, `{"account":"A1"}`,
		`{"account":"A1","note":"5"}`, `{"account":"é"}`, `{"account":"e\u0301"}`, `{"account":"A1\",\"note\":\"5"}`,
	} {
		fp, _ := fingerprints(t, (&bank{}).tool(), arguments)
		if other, ok := seen[fp]; ok {
			t.Errorf("%s and %s share one", arguments, other)
		}
		seen[fp] = arguments
	}
	newer := (&bank{}).tool(func(t *once.Tool[creditIn, credit]) { t.Version = 1 })
	if fp, _ := fingerprints(t, newer, `{"account":"A1","cents":5}`); seen[fp] != "" {
		t.Error("a newer version shares the fingerprint of an older one")
	}
}

func TestCallInThisProcessAndByEnvelopeAreOneCall(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	g := newGuard(t, store)
	ask(t.Context(), t, handlerOf(t, g, b.tool()), envelope("invoke"))
	out := bind(t, g, b.tool()).Do(t.Context(), call1, five)
	want(t, out.Report, once.Completed, ledger.Happened, ledger.Done, "")
	if !out.Replayed || b.runs.Load() != 1 {
		t.Errorf("got %+v", out.Report)
	}
}

func TestNormalizeRefusesArgumentsBeforeAnythingIsRecorded(t *testing.T) {
	t.Parallel()
	store, b := newStore(t), &bank{}
	tool := b.tool(func(t *once.Tool[creditIn, credit]) {
		t.Normalize = func(in *creditIn) error {
			if in.Cents <= 0 {
				return errors.New("cents: want more than 0")
			}
			if in.Cents > 1000 {
				panic("canary")
			}
			return nil
		}
	})
	bound := bind(t, newGuard(t, store), tool)
	for cents, says := range map[int64]string{-1: "cents: want more than 0", 2000: "arguments: the tool could not check them"} {
		out := bound.Do(t.Context(), call1, creditIn{Account: "A1", Cents: cents})
		want(t, out.Report, once.Refused, ledger.NoEffect, ledger.Done, "bad_arguments")
		if out.Message != says || record(t, store, call1.Key()).Exists() || b.runs.Load() != 0 {
			t.Errorf("message %q", out.Message)
		}
	}
}

func TestInputThatJSONCantHoldIsRefused(t *testing.T) {
	t.Parallel()
	bound := bind(t, newGuard(t, newStore(t)), once.Tool[any, int]{Name: "t", Class: once.Write, Run: func(context.Context, any) (int, error) { return 0, nil }})
	for _, in := range []any{make(chan int), int64(9007199254740993), strings.Repeat("x", once.MaxArguments)} {
		if out := bound.Do(t.Context(), call1, in); out.Status != once.Refused || out.Effect != ledger.NoEffect {
			t.Errorf("%T: %+v", in, out.Report)
		}
	}
}
