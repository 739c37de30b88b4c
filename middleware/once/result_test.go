package once_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// twice runs a tool that returns v, and repeats it.
func twice[Out any](t *testing.T, v Out) (first, second once.Outcome[Out]) {
	t.Helper()
	runs := 0
	bound := bind(t, newGuard(t, newStore(t)), once.Tool[creditIn, Out]{Name: "t", Class: once.Write, Run: func(context.Context, creditIn) (Out, error) {
		runs++
		return v, nil
	}})
	first = bound.Do(t.Context(), call1, five)
	second = bound.Do(t.Context(), call1, five)
	if runs != 1 {
		t.Errorf("ran %d times", runs)
	}
	return first, second
}

func same[Out any](t *testing.T, v Out) {
	t.Helper()
	t.Run(reflect.TypeFor[Out]().String(), func(t *testing.T) {
		t.Helper()
		first, second := twice(t, v)
		for _, out := range []once.Outcome[Out]{first, second} {
			got, err := out.Value()
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(v, got); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func TestResultsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	same(t, 0)
	same(t, false)
	same(t, "")
	same(t, []string{})
	same(t, []string(nil))
	same(t, map[string]int{})
	same(t, (*credit)(nil))
	same(t, json.RawMessage(`null`))
	same(t, json.RawMessage(`{"a":9007199254740993}`))
	same(t, any(nil))
	same(t, struct{}{})
	same(t, int64(math.MaxInt64))
	same(t, strings.Repeat("long ", 1000))
	same(t, credit{ID: "<&>"})
}

type panicky struct{}

func (panicky) MarshalJSON() ([]byte, error) { panic("canary") }

type failing struct{}

func (failing) MarshalJSON() ([]byte, error) { return nil, errors.New("canary") }

// notKept checks a result that can't be kept: the effect stands all the same.
func notKept[Out any](t *testing.T, v Out) {
	t.Helper()
	first, second := twice(t, v)
	for _, out := range []once.Outcome[Out]{first, second} {
		want(t, out.Report, once.Completed, ledger.Happened, ledger.Done, "")
		if _, err := out.Value(); !errors.Is(err, once.Completed) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%T: error %v", v, err)
		}
		if out.ModelSays != "This call took effect. Its result was not kept." {
			t.Errorf("%T: the model hears %q", v, out.ModelSays)
		}
	}
}

func TestResultThatCantBeKeptNeverChangesWhatHappened(t *testing.T) {
	t.Parallel()
	notKept(t, math.NaN())
	notKept(t, func() {})
	notKept(t, make(chan int))
	notKept(t, panicky{})
	notKept(t, failing{})
	notKept(t, strings.Repeat("x", ledger.MaxResult+1))
}

func TestExternalIDThatPanicsLosesNothing(t *testing.T) {
	t.Parallel()
	b := &bank{}
	bound := bind(t, newGuard(t, newStore(t)), b.tool(func(t *once.Tool[creditIn, credit]) {
		t.ExternalID = func(credit) string { panic("canary") }
	}))
	out := bound.Do(t.Context(), call1, five)
	if c, err := out.Value(); err != nil || c.ID != "cr_A1" || out.ExternalID != "" {
		t.Errorf("got %v, %v, %+v", c, err, out.Report)
	}
}

func TestLargeResultIsNamedByItsDigest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size       int
		ref, heard bool
	}{{10, false, true}, {90 << 10, false, true}, {150 << 10, false, false}, {300 << 10, true, false}} {
		b := &bank{}
		store := newStore(t)
		h := handlerOf(t, newGuard(t, store), b.tool(func(t *once.Tool[creditIn, credit]) {
			t.Run = func(context.Context, creditIn) (credit, error) { return credit{ID: strings.Repeat("x", c.size)}, nil }
			t.ExternalID = nil
		}))
		first, second := ask(t.Context(), t, h, envelope("invoke")), ask(t.Context(), t, h, envelope("invoke"))
		for _, a := range []once.Answer{first, second} {
			if a.Status != once.Completed || (a.ResultRef != nil) != c.ref || (a.Result == nil) != c.ref || (len(a.ModelSays) > c.size) != c.heard {
				t.Errorf("%d bytes: result %d, ref %v, model hears %.80q", c.size, len(a.Result), a.ResultRef, a.ModelSays)
			}
			if rec := record(t, store, call1.Key()); c.ref && *a.ResultRef != (once.ResultRef{Digest: rec.Outcome.Ref.Digest, Bytes: rec.Outcome.Ref.Bytes}) {
				t.Errorf("ref %+v, stored %+v", a.ResultRef, rec.Outcome.Ref)
			}
		}
	}
}

func TestBriefAnswerIsShort(t *testing.T) {
	t.Parallel()
	b := &bank{after: func(context.Context) error { return once.Rejected(errors.New(strings.Repeat(`"`, 500))) }}
	h := handlerOf(t, newGuard(t, newStore(t)), b.tool(func(t *once.Tool[creditIn, credit]) { t.Name = strings.Repeat("t", 64) }))
	long := func(n int) string { return strings.Repeat("i", n) }
	payload := envelope("invoke", "issue_credit", strings.Repeat("t", 64), `"acme"`, `"`+long(40)+`"`, `"r1"`, `"`+long(60)+`"`, `"c1"`, `"`+long(128)+`"`, `"full"`, `"brief"`)
	out, err := h.Invoke(t.Context(), []byte(payload))
	if err != nil || len(out) > 2<<10 {
		t.Errorf("%d bytes, %v: %s", len(out), err, out)
	}
	b.after = nil
	long3k := b.tool(func(t *once.Tool[creditIn, credit]) { t.ExternalID = func(credit) string { return long(3000) } })
	out, err = handlerOf(t, newGuard(t, newStore(t)), long3k).Invoke(t.Context(), []byte(envelope("invoke", `"full"`, `"brief"`)))
	if err != nil || len(out) > 2<<10 || strings.Contains(string(out), "cr_A1") {
		t.Errorf("%d bytes, %v: %s", len(out), err, out)
	}
}

func TestHandlerThatChangesItsInputSettlesTheSameRecord(t *testing.T) {
	t.Parallel()
	type list struct {
		Items []string `json:"items"`
	}
	store, runs := newStore(t), 0
	h := handlerOf(t, newGuard(t, store), once.Tool[list, int]{Name: "issue_credit", Class: once.Write, Run: func(_ context.Context, in list) (int, error) {
		runs++
		in.Items[0] = "changed"
		return len(in.Items), nil
	}})
	payload := envelope("invoke", `{"account":"A1","cents":5}`, `{"items":["a","b"]}`)
	for range 2 {
		if a := ask(t.Context(), t, h, payload); a.Status != once.Completed || string(a.Result) != "2" {
			t.Errorf("got %+v", a)
		}
	}
	if runs != 1 {
		t.Errorf("ran %d times", runs)
	}
}
