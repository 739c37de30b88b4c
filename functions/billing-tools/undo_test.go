package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/localstack/billing"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// ledgerOf returns a ledger in memory and a guard on it.
func ledgerOf(t *testing.T) (*memledger.Store, *once.Guard) {
	t.Helper()
	store, err := memledger.New()
	if err != nil {
		t.Fatal(err)
	}
	guard, err := once.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	return store, guard
}

// askUndo lets ann ask for the next undo of a call, once no request of it can
// be on its way, and says that she knows if it is unknown.
func askUndo(t *testing.T, store *memledger.Store, key ledger.Key) once.Request {
	t.Helper()
	rec, err := store.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	d := ledger.Decision{ID: fmt.Sprintf("ask%d", rec.Undo.N+1), Actor: "ann", Reason: "a mistake", Version: rec.Version}
	move, err := rec.AskUndo(ledger.Stamp{At: time.Now().Add(time.Hour), WriteID: d.ID}, d, true)
	if err == nil {
		_, err = store.Apply(t.Context(), move)
	}
	if err != nil {
		t.Fatal(err)
	}
	return once.Request{Tenant: key.Tenant, RunID: key.RunID, CallID: key.Undo(rec.Undo.N + 1).CallID}
}

// Each row is a way in which a void goes, and what the undo and its repeat are
// answered; the service's own database counts.
//
// Proves: R111
func TestEveryWayAVoidCanGoVoidsAtMostOnceAndIsTold(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	for name, tt := range map[string]struct {
		account string // of the credit
		op      billing.Operation
		fault   billing.Fault
		status  once.Status
		code    string
		says    string
		voids   int
	}{
		"it lands":                              {"V1", "", "", once.Completed, "", "", 1},
		"the answer is lost":                    {"V2", billing.OpVoid, billing.FaultLoseAnswer, once.Indeterminate, "outcome_unknown", "", 1},
		"the request is lost":                   {"V3", billing.OpVoid, billing.FaultDropRequest, once.Indeterminate, "outcome_unknown", "", 0},
		"an error after the effect":             {"V4", billing.OpVoid, billing.FaultError500After, once.Indeterminate, "outcome_unknown", "", 1},
		"an error before the effect":            {"V5", billing.OpVoid, billing.FaultError500Before, once.Indeterminate, "outcome_unknown", "", 0},
		"no answer":                             {"V6", billing.OpVoid, billing.FaultHangAfter, once.Indeterminate, "timeout", "", 1},
		"the service is away":                   {"V7", billing.OpVoid, billing.FaultUnavailable503, once.Indeterminate, "outcome_unknown", "", 0},
		"refused":                               {"V8", billing.OpVoid, billing.FaultRefuse422, once.Failed, "rejected", "billing refused it (refused)", 0},
		"credentials have expired":              {"V9", billing.OpSession, billing.FaultExpired401, once.Failed, "not_attempted", "credentials have expired", 0},
		"the credit's own outcome is unknown":   {"V10-lose-answer", "", "", once.Completed, "", "", 1},
		"the credit's request was lost":         {"V11-drop-request", "", "", once.Failed, "rejected", "nothing to void", 0},
		"unknown, and billing can't be asked":   {"V12-lose-answer-lookup-down", "", "", once.Failed, "not_attempted", "billing could not be asked for the credit", 0},
		"its id is known, and no look-up works": {"V13-lookup-down", "", "", once.Completed, "", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool := on(t, r.url).issueCredit()
			tool.Timeout = time.Second
			tool.Reconcile, tool.ReconcileByKey = nil, false // so that an unknown credit stays unknown
			store, guard := ledgerOf(t)
			issue, err := once.Bind(guard, tool)
			if err != nil {
				t.Fatal(err)
			}
			req := request(t)
			issue.Do(t.Context(), req, creditIn{AccountID: tt.account, AmountCents: 2500})
			undo := askUndo(t, store, req.Key())
			if tt.fault != "" {
				if _, err := r.Arm(t.Context(), billing.Rule{AccountID: tt.account, Operation: tt.op, Fault: tt.fault}); err != nil {
					t.Fatal(err)
				}
			}
			for n := range 3 {
				got := issue.Compensate(t.Context(), undo, creditIn{})
				if got.Status != tt.status || got.Code != tt.code || tt.says != "" && got.Message != tt.says || got.Replayed != (n > 0) {
					t.Errorf("%d: %+v", n, got)
				}
				if strings.Contains(fmt.Sprintf("%+v", got), "CANARY") {
					t.Errorf("a canary was told: %+v", got)
				}
			}
			effects, err := r.AccountEffects(t.Context(), tt.account)
			if err != nil || effects.Voids != tt.voids {
				t.Errorf("effects %+v, %v; want %d voids", effects, err, tt.voids)
			}
			if voids, err := r.VoidsByKey(t.Context(), undo.Key().String()); tt.voids == 1 && (err != nil && !strings.Contains(tt.account, "down") || err == nil && len(voids) != 1) {
				t.Errorf("voids under the undo's key: %+v, %v", voids, err)
			}
		})
	}
}

// A void that was called failed and landed all the same is not sent again under
// the next undo's key, since billing would void the credit a second time.
func TestUndoBeforeThisOneThatLandedIsNotRepeated(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	for name, tt := range map[string]struct {
		fault  billing.Fault
		lookup billing.Fault
		status once.Status
		code   string
		voids  int
	}{
		"it had landed":                     {billing.FaultLoseAnswer, "", once.Completed, "", 1},
		"it had not":                        {billing.FaultDropRequest, "", once.Completed, "", 1},
		"it had landed and nobody can tell": {billing.FaultLoseAnswer, billing.FaultUnavailable503, once.Failed, "not_attempted", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			account := "B-" + strings.ReplaceAll(name, " ", "-")
			store, guard := ledgerOf(t)
			issue, err := once.Bind(guard, on(t, r.url).issueCredit())
			if err != nil {
				t.Fatal(err)
			}
			req := request(t)
			issue.Do(t.Context(), req, creditIn{AccountID: account, AmountCents: 2500})
			undo := askUndo(t, store, req.Key())
			if _, err := r.Arm(t.Context(), billing.Rule{AccountID: account, Operation: billing.OpVoid, Fault: tt.fault}); err != nil {
				t.Fatal(err)
			}
			issue.Compensate(t.Context(), undo, creditIn{})
			giveUp(t, store, req.Key(), undo.Key())
			if tt.lookup != "" {
				if _, err := r.Arm(t.Context(), billing.Rule{KeyContains: undo.Key().String(), Operation: billing.OpLookup, Fault: tt.lookup}); err != nil {
					t.Fatal(err)
				}
			}
			got := issue.Compensate(t.Context(), askUndo(t, store, req.Key()), creditIn{})
			if effects, err := r.AccountEffects(t.Context(), account); got.Status != tt.status || got.Code != tt.code || err != nil || effects.Voids != tt.voids {
				t.Errorf("%+v; effects %+v, %v", got, effects, err)
			}
		})
	}
}

// giveUp settles an unknown undo as failed and closes it, by the word of a
// person who may be wrong.
func giveUp(t *testing.T, store *memledger.Store, owner, undo ledger.Key) {
	t.Helper()
	rec, err := store.Load(t.Context(), undo)
	if err != nil {
		t.Fatal(err)
	}
	move, err := rec.Resolve(ledger.Stamp{At: time.Now(), WriteID: "give up"}, ledger.Decision{ID: "give up", Actor: "ann", Reason: "looked", Version: rec.Version}, ledger.Settlement{Effect: ledger.NoEffect, Code: "resolved_failed", Message: "looked"})
	if err == nil {
		_, err = store.Apply(t.Context(), move)
	}
	if err != nil {
		t.Fatal(err)
	}
	rec, err = store.Load(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	move, err = rec.CloseUndo(ledger.Stamp{At: time.Now(), WriteID: "over"}, rec.Undo.N, ledger.NoEffect)
	if err == nil {
		_, err = store.Apply(t.Context(), move)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Proves: R18
func TestTheUndosOwnKeyTravelsWithTheVoid(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var keys []string
	url := answering(t, says(200, `{"credit_id":"cr_1","account_id":"A1","amount_cents":2500}`), says(200, `[]`), func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if r.Header.Get("Authorization") == "" || r.PathValue("id") != "cr_1" {
			t.Errorf("%s without a session, or for another credit", r.URL)
		}
		_, _ = w.Write([]byte(`{"void_id":"vo_1","credit_id":"cr_1"}`))
	})
	store, guard := ledgerOf(t)
	issue, err := once.Bind(guard, on(t, url).issueCredit())
	if err != nil {
		t.Fatal(err)
	}
	req := request(t)
	req.Tenant = "acme"
	issue.Do(t.Context(), req, creditIn{AccountID: "A1", AmountCents: 2500})
	got := issue.Compensate(t.Context(), askUndo(t, store, req.Key()), creditIn{})
	if got.Status != once.Completed || strings.Join(keys, " ") != "acme/"+req.RunID+":call_1~undo1" {
		t.Errorf("%+v, keys %q", got, keys)
	}
}

func TestGarbledAnswersToAVoidAreUnknown(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"no body": says(201, ``), "not JSON": says(201, `<html>`), "no id": says(201, `{"credit_id":"cr_1"}`),
		"another credit": says(201, `{"void_id":"vo_1","credit_id":"cr_2"}`), "a redirect": says(307, ``), "a conflict of no known kind": says(409, `{"code":"busy"}`),
	} {
		sends := 0
		url := answering(t, says(200, `{"credit_id":"cr_1","account_id":"A1","amount_cents":2500}`), says(200, `[]`), func(w http.ResponseWriter, r *http.Request) { sends++; answer(w, r) })
		store, guard := ledgerOf(t)
		issue, err := once.Bind(guard, on(t, url).issueCredit())
		if err != nil {
			t.Fatal(err)
		}
		req := request(t)
		issue.Do(t.Context(), req, creditIn{AccountID: "A1", AmountCents: 2500})
		if got := issue.Compensate(t.Context(), askUndo(t, store, req.Key()), creditIn{}); got.Status != once.Indeterminate || sends != 1 {
			t.Errorf("%s: %d sends, %+v", name, sends, got)
		}
	}
}

// The closing's look-up tells by the call's key, and not by the account.
func TestAClosingWhoseAnswerIsLostIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	for name, tt := range map[string]struct {
		fault  billing.Fault
		status once.Status
		code   string
		found  int
	}{
		"it lands":                 {"", once.Completed, "", 1},
		"the answer is lost":       {billing.FaultLoseAnswer, once.Completed, "", 1},
		"the request is lost":      {billing.FaultDropRequest, once.Indeterminate, "outcome_unknown", 0},
		"refused":                  {billing.FaultRefuse422, once.Failed, "rejected", 0},
		"an error after the close": {billing.FaultError500After, once.Completed, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			account := "C-" + strings.ReplaceAll(name, " ", "-")
			if tt.fault != "" {
				if _, err := r.Arm(t.Context(), billing.Rule{AccountID: account, Operation: billing.OpClose, Fault: tt.fault}); err != nil {
					t.Fatal(err)
				}
			}
			_, guard := ledgerOf(t)
			closing, err := once.Bind(guard, on(t, r.url).closeAccount())
			if err != nil {
				t.Fatal(err)
			}
			req := request(t)
			req.Permissions = []string{"accounts:close"}
			closing.Do(t.Context(), req, accountIn{AccountID: account})
			again := closing.Do(t.Context(), req, accountIn{AccountID: account})
			if again.Status != tt.status || again.Code != tt.code {
				t.Errorf("again: %+v", again.Report)
			}
			found, err := r.ClosuresByKey(t.Context(), req.Key().String())
			if effects, effectsErr := r.AccountEffects(t.Context(), account); err != nil || effectsErr != nil || len(found) != tt.found || effects.Sends != 1 {
				t.Errorf("closings %+v, effects %+v, %v", found, effects, errors.Join(err, effectsErr))
			}
			req.Permissions = nil
			if out := closing.Do(t.Context(), req, accountIn{AccountID: account}); out.Status != once.Refused || out.Code != "not_authorised" {
				t.Errorf("without the permission: %+v", out.Report)
			}
		})
	}
	_, guard := ledgerOf(t)
	tool := on(t, r.url).closeAccount()
	tool.Compensate = func(context.Context, ledger.Record, accountIn) error { return nil }
	if _, err := once.Bind(guard, tool); err == nil {
		t.Error("a closing that can be undone was bound")
	}
}
