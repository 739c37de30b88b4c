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

// nothingStands is what a person is told of an undo that has nothing of its own
// to void.
const nothingStands = "nothing stands under this call's key; undo it by hand"

// askUndo lets ann ask for the next undo of a call, once no request of it can
// be on its way, and says that she knows if it is unknown.
func askUndo(t *testing.T, store *memledger.Store, key ledger.Key) once.Request {
	t.Helper()
	rec, err := store.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	d := ledger.Decision{ID: fmt.Sprintf("ask%d", rec.Undo.N+1), Actor: "ann", Reason: "a mistake", Version: rec.Version}
	move, err := rec.AskUndo(ledger.Stamp{At: time.Now().Add(time.Hour), WriteID: d.ID}, d, ledger.UndoAsk{KnowsUnknown: true})
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
		"the credit's request was lost":         {"V11-drop-request", "", "", once.Failed, "rejected", nothingStands, 0},
		"unknown, and billing can't be asked":   {"V12-lose-answer-lookup-down", "", "", once.Failed, "not_attempted", "billing could not be asked for the credit", 0},
		"its id is known, and no look-up works": {"V13-lookup-down", "", "", once.Failed, "not_attempted", "billing could not be asked for the credit", 0},
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

// A person settles an unknown credit by an id that is somebody else's, or of
// nobody. An undo voids what came under the call's own key, if it is what the
// record names, and otherwise asks billing for no void at all.
//
// Proves: R111
func TestUndoTrustsTheCallsKeyAndNotAnIDThatAPersonTyped(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	const differs = "another credit stands under this call's key than the record names; undo it by hand"
	for name, tt := range map[string]struct {
		fault  string // by the account's name
		typed  func(own, others string) string
		status once.Status
		code   string
		says   string
		voids  int // of the call's own credit
	}{
		"the right id":                      {"lose-answer", func(own, _ string) string { return own }, once.Completed, "", "", 1},
		"no id":                             {"lose-answer", func(string, string) string { return "" }, once.Completed, "", "", 1},
		"somebody else's, and its own":      {"lose-answer", func(_, others string) string { return others }, once.Failed, "rejected", differs, 0},
		"somebody else's, and none of its":  {"drop-request", func(_, others string) string { return others }, once.Failed, "rejected", nothingStands, 0},
		"nobody's":                          {"lose-answer", func(string, string) string { return "cr_none" }, once.Failed, "rejected", differs, 0},
		"no id, and nothing of its own":     {"drop-request", func(string, string) string { return "" }, once.Failed, "rejected", nothingStands, 0},
		"somebody else's, and nobody tells": {"lose-answer-lookup-down", func(_, others string) string { return others }, once.Failed, "not_attempted", "billing could not be asked for the credit", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			word := strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(name)
			others, own := "Other-"+word, "Own-"+word+"-"+tt.fault
			tool := on(t, r.url).issueCredit()
			tool.Reconcile, tool.ReconcileByKey = nil, false // so that an unknown credit stays unknown
			store, guard := ledgerOf(t)
			issue, err := once.Bind(guard, tool)
			if err != nil {
				t.Fatal(err)
			}
			theirs := request(t)
			theirs.Tenant = "globex"
			issued := issue.Do(t.Context(), theirs, creditIn{AccountID: others, AmountCents: 2500})
			req := request(t)
			req.Tenant = "acme"
			issue.Do(t.Context(), req, creditIn{AccountID: own, AmountCents: 2500})
			ownID := ""
			if found, err := r.CreditsByKey(t.Context(), req.Key().String()); err == nil && len(found) == 1 {
				ownID = found[0].CreditID
			}
			settle(t, store, req.Key(), ledger.Settlement{Effect: ledger.Happened, ExternalID: tt.typed(ownID, issued.ExternalID)})
			undo := askUndo(t, store, req.Key())
			for range 2 {
				if got := issue.Compensate(t.Context(), undo, creditIn{}); got.Status != tt.status || got.Code != tt.code || got.Message != tt.says {
					t.Errorf("%+v", got)
				}
			}
			for account, voids := range map[string]int{others: 0, own: tt.voids} {
				effects, err := r.AccountEffects(t.Context(), account)
				if sends := 1 + voids; err != nil || effects.Voids != voids || effects.Sends != sends {
					t.Errorf("%s: effects %+v, %v; want %d voids, and %d writes sent", account, effects, err, voids, sends)
				}
			}
		})
	}
}

// settle lets ann settle an unknown call.
func settle(t *testing.T, store *memledger.Store, key ledger.Key, what ledger.Settlement) {
	t.Helper()
	rec, err := store.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	move, err := rec.Resolve(ledger.Stamp{At: time.Now(), WriteID: "settle"}, ledger.Decision{ID: "settle", Actor: "ann", Reason: "looked", Version: rec.Version}, what)
	if err == nil {
		_, err = store.Apply(t.Context(), move)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// keeps answers a look-up by the credit that stands under whatever key.
func keeps(id string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `[{"key":%q,"credit_id":%q,"account_id":"A1","amount_cents":2500}]`, r.URL.Query().Get("key"), id)
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
	settle(t, store, undo, ledger.Settlement{Effect: ledger.NoEffect, Code: "resolved_failed", Message: "looked"})
	rec, err := store.Load(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	move, err := rec.CloseUndo(ledger.Stamp{At: time.Now(), WriteID: "over"}, rec.Undo.N, ledger.NoEffect)
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
	url := answering(t, says(200, `{"credit_id":"cr_1","account_id":"A1","amount_cents":2500}`), keeps("cr_1"), func(w http.ResponseWriter, r *http.Request) {
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
		url := answering(t, says(200, `{"credit_id":"cr_1","account_id":"A1","amount_cents":2500}`), keeps("cr_1"), func(w http.ResponseWriter, r *http.Request) { sends++; answer(w, r) })
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
