package main

import (
	"encoding/json"
	"fmt"
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
	mu   sync.Mutex
	kept map[string]map[string]any // by path and key
	n    int
}

func (b *books) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	path, key := r.URL.Path, r.Header.Get(oncetest.KeyHeader)
	if r.Method == http.MethodGet {
		found := []map[string]any{}
		key = r.URL.Query().Get("key")
		if one, ok := b.kept[path+" "+key]; ok {
			found = append(found, one)
		}
		_ = json.NewEncoder(w).Encode(found)
		return
	}
	one := map[string]any{"key": key}
	_ = json.NewDecoder(r.Body).Decode(&one)
	b.n++
	id := strings.Split(path, "/")
	switch {
	case path == "/credits":
		one["credit_id"] = fmt.Sprintf("cr_%d", b.n)
	case strings.HasSuffix(path, "/void"):
		path, one["void_id"], one["credit_id"] = "/voids", fmt.Sprintf("vo_%d", b.n), id[2]
	case strings.HasSuffix(path, "/close"):
		path, one["account_id"], one["closed"] = "/closures", id[2], true
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	b.kept[path+" "+key] = one
	_ = json.NewEncoder(w).Encode(one)
}

func against(t *testing.T, r *oncetest.Receiver) *billingTools {
	t.Helper()
	r.Serve(&books{kept: map[string]map[string]any{}})
	b := on(t, r.URL)
	b.plain.Transport = signedIn{http.DefaultTransport}
	return b
}

// Proves: R111, R140, R141, R142
func TestIssueCreditKeepsItsContract(t *testing.T) {
	t.Parallel()
	oncetest.AssertContract(t, func(r *oncetest.Receiver) once.Tool[creditIn, credit] {
		return against(t, r).issueCredit()
	}, creditIn{AccountID: "A1", AmountCents: 2500})
}

// Proves: R140, R141, R142
func TestCloseAccountKeepsItsContract(t *testing.T) {
	t.Parallel()
	oncetest.AssertContract(t, func(r *oncetest.Receiver) once.Tool[accountIn, closure] {
		return against(t, r).closeAccount()
	}, accountIn{AccountID: "A1"})
}

// Proves: R140, R142
func TestFindOrderKeepsItsContract(t *testing.T) {
	t.Parallel()
	oncetest.AssertContract(t, func(r *oncetest.Receiver) once.Tool[orderIn, order] {
		return against(t, r).findOrder()
	}, orderIn{OrderID: "o-1"})
}
