package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/middleware/once"
	"github.com/onceward/onceward/middleware/once/oncetest"
)

// signedIn answers the sign-in by itself and lets everything else through, so
// that the receiver sees the tool's own requests only.
type signedIn struct{ http.RoundTripper }

func (s signedIn) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/sessions" {
		return s.RoundTripper.RoundTrip(r)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"token":"t"}`)), Request: r}, nil
}

// books answers as the billing service does.
type books struct {
	mu    sync.Mutex
	byKey map[string]credit
}

func (b *books) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	type keyed struct {
		credit
		Key string `json:"key"`
	}
	key := r.URL.Query().Get("key")
	if r.Method == http.MethodPost {
		var in creditIn
		if json.NewDecoder(r.Body).Decode(&in) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		key = r.Header.Get(oncetest.KeyHeader)
		b.byKey[key] = credit{CreditID: "cr_1", AccountID: in.AccountID, AmountCents: in.AmountCents}
		_ = json.NewEncoder(w).Encode(keyed{b.byKey[key], key})
		return
	}
	found := []keyed{}
	if c, ok := b.byKey[key]; ok {
		found = append(found, keyed{c, key})
	}
	_ = json.NewEncoder(w).Encode(found)
}

func against(t *testing.T, r *oncetest.Receiver) *billingTools {
	t.Helper()
	r.Serve(&books{byKey: map[string]credit{}})
	b := on(t, r.URL)
	b.plain.Transport = signedIn{http.DefaultTransport}
	return b
}

// Proves: R140, R141, R142
func TestIssueCreditKeepsItsContract(t *testing.T) {
	t.Parallel()
	oncetest.AssertContract(t, func(r *oncetest.Receiver) once.Tool[creditIn, credit] {
		return against(t, r).issueCredit()
	}, creditIn{AccountID: "A1", AmountCents: 2500})
}

// Proves: R140, R142
func TestFindOrderKeepsItsContract(t *testing.T) {
	t.Parallel()
	oncetest.AssertContract(t, func(r *oncetest.Receiver) once.Tool[orderIn, order] {
		return against(t, r).findOrder()
	}, orderIn{OrderID: "o-1"})
}
