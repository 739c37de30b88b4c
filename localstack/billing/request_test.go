package billing_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/localstack/billing"
)

// send makes a raw request, signed in unless the headers say otherwise.
func send(t *testing.T, s *service, method, path, body string, headers ...string) (int, billing.StatusError) {
	t.Helper()
	session, err := s.SignIn(t.Context(), "raw", "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	r.Header.Set("Authorization", "Bearer "+session.Token)
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Del(pair[0])
		if pair[1] != "" {
			r.Header.Set(pair[0], pair[1])
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out billing.StatusError
	if resp.StatusCode >= 300 {
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Errorf("%d with a body that is no JSON error: %s", resp.StatusCode, raw)
		}
	}
	return resp.StatusCode, out
}

func TestMalformedRequestsAreRefusedBeforeAnythingChanges(t *testing.T) {
	s := newService(t)
	const good = `{"account_id":"A1","amount_cents":5}`
	tests := map[string]struct {
		method, path, body string
		headers            []string
		status             int
		code               string
	}{
		"no token":              {"POST", "/credits", good, []string{"Authorization", ""}, 401, billing.CodeSessionInvalid},
		"forged token":          {"POST", "/credits", good, []string{"Authorization", "Bearer dGVzdHM.9999999999.00"}, 401, billing.CodeSessionInvalid},
		"void without token":    {"POST", "/credits/cr_00000001/void", "", []string{"Authorization", "x"}, 401, billing.CodeSessionInvalid},
		"close without token":   {"POST", "/accounts/A1/close", "", []string{"Authorization", ""}, 401, billing.CodeSessionInvalid},
		"not JSON":              {"POST", "/credits", `{`, nil, 400, billing.CodeBadRequest},
		"no body":               {"POST", "/credits", ``, nil, 400, billing.CodeBadRequest},
		"trailing data":         {"POST", "/credits", good + `{}`, nil, 400, billing.CodeBadRequest},
		"unknown field":         {"POST", "/credits", `{"account_id":"A1","amount_cents":5,"note":""}`, nil, 400, billing.CodeBadRequest},
		"duplicate field":       {"POST", "/credits", `{"account_id":"A1","amount_cents":5,"amount_cents":500}`, nil, 400, billing.CodeBadRequest},
		"other case":            {"POST", "/credits", `{"Account_ID":"A1","amount_cents":5}`, nil, 400, billing.CodeBadRequest},
		"fraction":              {"POST", "/credits", `{"account_id":"A1","amount_cents":5.5}`, nil, 400, billing.CodeBadRequest},
		"too large a number":    {"POST", "/credits", `{"account_id":"A1","amount_cents":9223372036854775808}`, nil, 400, billing.CodeBadRequest},
		"amount as text":        {"POST", "/credits", `{"account_id":"A1","amount_cents":"5"}`, nil, 400, billing.CodeBadRequest},
		"no account":            {"POST", "/credits", `{"amount_cents":5}`, nil, 400, billing.CodeBadRequest},
		"account with slash":    {"POST", "/credits", `{"account_id":"A/1","amount_cents":5}`, nil, 400, billing.CodeBadRequest},
		"account too long":      {"POST", "/credits", `{"account_id":"` + strings.Repeat("A", 65) + `","amount_cents":5}`, nil, 400, billing.CodeBadRequest},
		"key with space":        {"POST", "/credits", good, []string{"Idempotency-Key", "a b"}, 400, billing.CodeBadRequest},
		"key too long":          {"POST", "/credits", good, []string{"Idempotency-Key", strings.Repeat("k", 256)}, 400, billing.CodeBadRequest},
		"body too large":        {"POST", "/credits", strings.Repeat(" ", billing.MaxBodyBytes) + good, nil, 413, billing.CodeTooLarge},
		"void with a body":      {"POST", "/credits/cr_00000001/void", good, nil, 400, billing.CodeBadRequest},
		"session without id":    {"POST", "/sessions", `{}`, nil, 400, billing.CodeBadRequest},
		"session two accounts":  {"POST", "/sessions", `{"client_id":"c","account_id":"A1"}`, []string{"X-Account-Id", "A2"}, 400, billing.CodeBadRequest},
		"session header fault":  {"POST", "/sessions", `{"client_id":"c"}`, []string{"X-Account-Id", "a-expired-credentials"}, 401, billing.CodeCredentialsExpired},
		"look-up of nothing":    {"GET", "/credits", "", nil, 400, billing.CodeBadRequest},
		"look-up of both":       {"GET", "/credits?key=k&account_id=A1", "", nil, 400, billing.CodeBadRequest},
		"look-up twice":         {"GET", "/credits?key=k&key=l", "", nil, 400, billing.CodeBadRequest},
		"look-up with more":     {"GET", "/credits?key=k&limit=1", "", nil, 400, billing.CodeBadRequest},
		"voids of nothing":      {"GET", "/voids", "", nil, 400, billing.CodeBadRequest},
		"voids of an account":   {"GET", "/voids?account_id=A1", "", nil, 400, billing.CodeBadRequest},
		"closures of nothing":   {"GET", "/closures?key=", "", nil, 400, billing.CodeBadRequest},
		"closures with more":    {"GET", "/closures?key=k&limit=1", "", nil, 400, billing.CodeBadRequest},
		"effects of all":        {"GET", "/_effects", "", nil, 400, billing.CodeBadRequest},
		"fault of no operation": {"POST", "/_faults", `{"fault":"lose_answer"}`, nil, 400, billing.CodeBadRequest},
		"unknown fault":         {"POST", "/_faults", `{"operation":"credit","fault":"explode"}`, nil, 400, billing.CodeBadRequest},
		"negative times":        {"POST", "/_faults", `{"operation":"credit","fault":"lose_answer","times":-1}`, nil, 400, billing.CodeBadRequest},
		"fault with a count":    {"POST", "/_faults", `{"operation":"credit","fault":"lose_answer","struck":1}`, nil, 400, billing.CodeBadRequest},
		"missing order":         {"GET", "/orders/missing-1", "", nil, 404, billing.CodeNotFound},
		"no such path":          {"GET", "/refunds", "", nil, 404, billing.CodeNotFound},
		"no such method":        {"DELETE", "/credits", "", nil, 404, billing.CodeNotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status, got := send(t, s, test.method, test.path, test.body, test.headers...)
			if status != test.status || got.Code != test.code || got.Message == "" {
				t.Errorf("answer is %d %+v, want %d %s", status, got, test.status, test.code)
			}
		})
	}
	wantEffects(t, s.Client, "A1", 0, 0)
	if rules, err := s.Armed(t.Context()); err != nil || len(rules) != 0 {
		t.Errorf("rules armed: %v, %v", rules, err)
	}
}

func TestAnOrderIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first, err := s.Order(t.Context(), "O-17")
	if err != nil || first.OrderID != "O-17" || first.AccountID == "" || first.TotalCents <= 0 || first.Status == "" {
		t.Fatalf("order %+v, %v", first, err)
	}
	other := newService(t)
	again, err := other.Order(t.Context(), "O-17")
	if diff := cmp.Diff(first, again); err != nil || diff != "" {
		t.Errorf("the same id from another service: %v (-want +got):\n%s", err, diff)
	}
}

func TestTokenExpiresButOutlivesARestart(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	clock := func(cfg *billing.Config) {
		cfg.Now = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return now
		}
		cfg.SessionLifetime = time.Minute
	}
	s := newService(t, clock)
	session, err := s.SignIn(t.Context(), "tests", "")
	if err != nil || !session.ExpiresAt.Equal(now.Add(time.Minute)) {
		t.Fatalf("session until %v, %v", session.ExpiresAt, err)
	}
	s.stop()
	s = openService(t, s.file, clock)
	body := `{"account_id":"A1","amount_cents":5}`
	if status, got := send(t, s, "POST", "/credits", body, "Authorization", "Bearer "+session.Token); status != 201 {
		t.Errorf("after a restart: %d %+v", status, got)
	}
	mu.Lock()
	now = now.Add(time.Minute)
	mu.Unlock()
	if status, got := send(t, s, "POST", "/credits", body, "Authorization", "Bearer "+session.Token); status != 401 || got.Code != billing.CodeSessionInvalid {
		t.Errorf("after its time: %d %+v", status, got)
	}
	wantEffects(t, s.Client, "A1", 1, 1)
}

func TestLogsCarryNeitherTokensNorArguments(t *testing.T) {
	t.Parallel()
	var logs bytes.Buffer
	s := newService(t, func(cfg *billing.Config) {
		cfg.Logger = slog.New(slog.NewJSONHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	session, err := s.SignIn(t.Context(), "canary-client", "canary-account")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Credit(t.Context(), "canary-key", billing.CreditRequest{AccountID: "canary-account", AmountCents: 987654}); err != nil {
		t.Fatal(err)
	}
	checkSeen(t, s.Client, "canary-lose-answer", "canary-key-2", seen{})
	s.stop()
	if !strings.Contains(logs.String(), `"operation":"credit"`) {
		t.Fatalf("nothing was logged: %s", logs.String())
	}
	for _, secret := range []string{"canary", "987654", session.Token} {
		if strings.Contains(logs.String(), secret) {
			t.Errorf("logs carry %q:\n%s", secret, logs.String())
		}
	}
}

func TestRunRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "billing.db")
	busy := newService(t)
	tests := map[string]billing.Config{
		"no data file":      {},
		"all interfaces":    {DataFile: file, Listen: ":0"},
		"another interface": {DataFile: file, Listen: "10.0.0.1:80"},
		"no port":           {DataFile: file, Listen: "127.0.0.1"},
		"negative lifetime": {DataFile: file, SessionLifetime: -1},
		"file in use":       {DataFile: busy.file},
		"port in use":       {DataFile: file, Listen: strings.TrimPrefix(busy.url, "http://")},
	}
	for name, cfg := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := billing.Run(t.Context(), cfg, &out)
			if err == nil || !strings.HasPrefix(err.Error(), "billing: ") || out.Len() > 0 {
				t.Errorf("error is %v, output %q", err, out.String())
			}
		})
	}
}
