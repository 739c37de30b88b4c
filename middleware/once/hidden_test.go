package once_test

import (
	"context"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// card prints the same whatever its number is.
type card string

func (card) MarshalJSON() ([]byte, error) { return []byte(`"***"`), nil }

type charge struct {
	Card card   `json:"card"`
	Note string `json:"note,omitzero"`
}

func charger(runs *[]card) once.Tool[charge, string] {
	return once.Tool[charge, string]{Name: "issue_credit", Class: once.External, Run: func(_ context.Context, in charge) (string, error) {
		*runs = append(*runs, in.Card)
		return string(in.Card), nil
	}}
}

func TestArgumentsThatHideThemselvesAreStillOtherArguments(t *testing.T) {
	t.Parallel()
	var runs []card
	h := handlerOf(t, newGuard(t, newStore(t)), charger(&runs))
	payload := func(arguments string) string { return envelope("invoke", `{"account":"A1","cents":5}`, arguments) }
	ask(t.Context(), t, h, payload(`{"card":"1111","note":"x"}`))
	if a := ask(t.Context(), t, h, payload(`{"card":"2222","note":"x"}`)); a.Status != once.Conflict || a.Result != nil {
		t.Errorf("another card: %+v", a)
	}
	if a := ask(t.Context(), t, h, payload(`{"note":"x","card":"1111"}`)); a.Status != once.Completed || !a.Replayed || len(runs) != 1 {
		t.Errorf("the same card: %+v", a)
	}
}

func TestTypedCallRefusesWhatItsJSONDoesNotShow(t *testing.T) {
	t.Parallel()
	type base struct {
		ID string `json:"id"`
	}
	type hiding struct {
		Note   string `json:"-"`
		hidden int
		base
	}
	type generic = map[string]any
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("x", 7200))
	for name, c := range map[string]struct {
		in any
		ok bool
	}{
		"a card":                       {map[string]card{"a": "1111"}, false},
		"a card in an interface":       {generic{"a": struct{ Card card }{"1111"}}, false},
		"a field left out":             {hiding{Note: "x"}, false},
		"an unexported field":          {hiding{hidden: 1}, false},
		"nothing in such fields":       {hiding{base: base{"b"}}, true},
		"invalid UTF-8":                {generic{"a": "\xff"}, false},
		"a replacement character":      {generic{"a": "\uFFFD"}, true},
		"a secret in an interface":     {generic{"a": ledger.Secret("s")}, false},
		"numbers":                      {generic{"a": 5, "b": int8(5), "c": 1.5, "d": []int{1}}, true},
		"a time with a monotonic part": {generic{"a": time.Now(), "b": noon}, true},
		"raw JSON and a number":        {generic{"a": json.RawMessage(`{"b": 1.0}`), "c": json.Number("1.0")}, true},
		"nil and empty":                {generic{"a": []string{}, "b": []string(nil), "c": map[string]int(nil)}, true},
		"a big number":                 {generic{"a": big.NewInt(7)}, true},
		"bytes":                        {generic{"a": []byte("x"), "b": [2]bool{true}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			bound := bind(t, newGuard(t, store), once.Tool[any, int]{Name: "t", Class: once.Write, Run: func(context.Context, any) (int, error) { return 1, nil }})
			out := bound.Do(t.Context(), call1, c.in)
			if c.ok {
				want(t, out.Report, once.Completed, ledger.Happened, ledger.Done, "")
				return
			}
			want(t, out.Report, once.Refused, ledger.NoEffect, ledger.Done, "bad_arguments")
			if record(t, store, call1.Key()).Exists() {
				t.Error("something is recorded")
			}
		})
	}
	var runs []card
	bound := bind(t, newGuard(t, newStore(t)), charger(&runs))
	want(t, bound.Do(t.Context(), call1, charge{Card: "1111"}).Report, once.Refused, ledger.NoEffect, ledger.Done, "bad_arguments")
	plain := bind(t, newGuard(t, newStore(t)), (&bank{}).tool())
	want(t, plain.Do(t.Context(), call1, creditIn{Account: "\xff"}).Report, once.Refused, ledger.NoEffect, ledger.Done, "bad_arguments")
}

func TestSecretInTheArgumentsIsRefusedWhenTheToolIsBound(t *testing.T) {
	t.Parallel()
	type inner struct{ Pins map[string][]*ledger.Secret }
	type loop struct {
		Next  *loop
		Inner inner
	}
	_, err := once.Bind(newGuard(t, newStore(t)), once.Tool[loop, int]{
		Name: "t", Class: once.Write, Schema: json.RawMessage(`{"type":"object"}`), Run: func(context.Context, loop) (int, error) { return 0, nil },
	})
	if err == nil || !strings.Contains(err.Error(), `tool "t": In: In.Inner.Pins is a ledger.Secret`) {
		t.Errorf("got %v", err)
	}
}
