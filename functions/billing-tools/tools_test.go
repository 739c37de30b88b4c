package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/localstack/billing"
	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
	"github.com/onceward/onceward/middleware/once/oncetest"
)

const clientID = "CANARY-client"

// receiver is the fake billing service in the test's own process, with its own
// database.
type receiver struct {
	*billing.Client
	url string
}

func newReceiver(t *testing.T) receiver {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := billing.Run(ctx, billing.Config{DataFile: filepath.Join(t.TempDir(), "billing.db")}, write)
		_ = write.CloseWithError(errors.Join(err, io.EOF))
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(strings.TrimPrefix(line, billing.ReadyPrefix))
	return receiver{Client: billing.NewClient(url, nil), url: url}
}

func (r receiver) effects(t *testing.T, account string) int {
	t.Helper()
	effects, err := r.AccountEffects(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	return effects.Credits
}

func on(t *testing.T, url string) *billingTools {
	t.Helper()
	b, err := newBilling(url, clientID)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func bound(t *testing.T, url string) *once.Bound[creditIn, credit] {
	t.Helper()
	issue, err := once.Bind(oncetest.NewGuard(t), on(t, url).issueCredit())
	if err != nil {
		t.Fatal(err)
	}
	return issue
}

func request(t *testing.T) once.Request {
	t.Helper()
	req := oncetest.NewRequest(t)
	req.Permissions = []string{"credits:write"}
	return req
}

// The accounts' names make the service misbehave; the database counts.
//
// Proves: R25, R45, R63, R92, R157
func TestEveryWayACreditCanGoPaysAtMostOnceAndIsTold(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	tests := map[string]struct {
		account      string
		first, again once.Status
		effect       ledger.Effect
		code         string
		effects      int
	}{
		"it lands":                               {"A1", once.Completed, once.Completed, ledger.Happened, "", 1},
		"the answer is lost":                     {"A1-lose-answer", once.Completed, once.Completed, ledger.Happened, "", 1},
		"the answer is lost and nobody can tell": {"A1-lose-answer-lookup-down", once.Indeterminate, once.Indeterminate, ledger.Unknown, "outcome_unknown", 1},
		"the request is lost":                    {"A1-drop-request", once.Indeterminate, once.Indeterminate, ledger.Unknown, "outcome_unknown", 0},
		"an error after the effect":              {"A1-error-500", once.Completed, once.Completed, ledger.Happened, "", 1},
		"an error before the effect":             {"A1-error-500-before", once.Indeterminate, once.Indeterminate, ledger.Unknown, "outcome_unknown", 0},
		"the service is away":                    {"A1-unavailable", once.Indeterminate, once.Indeterminate, ledger.Unknown, "outcome_unknown", 0},
		"refused":                                {"A1-refuse", once.Failed, once.Failed, ledger.NoEffect, "rejected", 0},
		"credentials have expired":               {"A1-expired-credentials", once.Failed, once.Failed, ledger.NoEffect, "not_attempted", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issue, req := bound(t, r.url), request(t)
			in := creditIn{AccountID: tt.account, AmountCents: 2500}
			first := issue.Do(t.Context(), req, in)
			if first.Status != once.Indeterminate && first.Status != tt.first {
				t.Errorf("first: %+v", first.Report)
			}
			again := issue.Do(t.Context(), req, in)
			if again.Status != tt.again || again.Effect != tt.effect || again.Code != tt.code {
				t.Errorf("again: %+v", again.Report)
			}
			if n := r.effects(t, tt.account); n != tt.effects {
				t.Errorf("effects = %d, want %d", n, tt.effects)
			}
			value, err := again.Value()
			if tt.again == once.Completed && (err != nil || value.AccountID != tt.account || again.ExternalID != value.CreditID || value.CreditID == "") {
				t.Errorf("value %+v of %q, %v", value, again.ExternalID, err)
			}
			if told := fmt.Sprintf("%+v %+v", first.Report, again.Report); strings.Contains(told, "CANARY") {
				t.Errorf("a canary was told: %s", told)
			}
		})
	}
}

// Proves: R66, R160
func TestExpiredCredentialsMeanThatNothingWasSent(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	out := bound(t, r.url).Do(t.Context(), request(t), creditIn{AccountID: "A1-expired-credentials", AmountCents: 1})
	if out.Status != once.Failed || out.Code != "not_attempted" || out.Message != "credentials have expired" || out.Effect != ledger.NoEffect {
		t.Errorf("got %+v", out.Report)
	}
	effects, err := r.AccountEffects(t.Context(), "A1-expired-credentials")
	if err != nil || effects.Sends != 0 || effects.Credits != 0 {
		t.Errorf("the service saw %+v, %v", effects, err)
	}
}

func TestATimeoutIsUnknownAndTheLookUpFindsTheCredit(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	tool := on(t, r.url).issueCredit()
	tool.Timeout = 300 * time.Millisecond
	issue, err := once.Bind(oncetest.NewGuard(t), tool)
	if err != nil {
		t.Fatal(err)
	}
	req, in := request(t), creditIn{AccountID: "A1-hang", AmountCents: 2500}
	if first := issue.Do(t.Context(), req, in); first.Status != once.Indeterminate {
		t.Errorf("first: %+v", first.Report)
	}
	if again := issue.Do(t.Context(), req, in); again.Status != once.Completed || r.effects(t, in.AccountID) != 1 {
		t.Errorf("again: %+v, %d effects", again.Report, r.effects(t, in.AccountID))
	}
}

// answering is a service that gives one answer to every credit and look-up, and
// to every void if it is given one.
func answering(t *testing.T, credits, lookups http.HandlerFunc, voids ...http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /sessions", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"token":"CANARY-session"}`) })
	mux.HandleFunc("POST /credits", credits)
	mux.HandleFunc("GET /credits", lookups)
	for _, void := range voids {
		mux.HandleFunc("POST /credits/{id}/void", void)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/credits")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Proves: R67
func TestOnlyDeclaredRefusalsCountAsNothingHappened(t *testing.T) {
	t.Parallel()
	for status := 200; status <= 599; status++ {
		for _, body := range []string{`{"code":"key_reused","message":"CANARY"}`, `{"code":"CANARY"}`, `<html>`} {
			err := refused(&statusError{status: status, code: codeIn([]byte(body))})
			want := status == 400 || status == 401 || status == 403 || status == 404 || status == 422 || status == 409 && strings.Contains(body, "key_reused")
			issue, req := boundTo(t, err), request(t)
			out := issue.Do(t.Context(), req, creditIn{AccountID: "A1", AmountCents: 1})
			if (out.Effect == ledger.NoEffect) != want || out.Effect == ledger.Happened {
				t.Errorf("%d %s: %+v", status, body, out.Report)
			}
			if strings.Contains(out.Message, "CANARY") {
				t.Errorf("%d: told %s", status, out.Message)
			}
		}
	}
}

// boundTo binds a tool that always fails with err.
func boundTo(t *testing.T, err error) *once.Bound[creditIn, credit] {
	t.Helper()
	issue, bindErr := once.Bind(oncetest.NewGuard(t), once.Tool[creditIn, credit]{
		Name: "issue_credit", Class: once.External, Run: func(context.Context, creditIn) (credit, error) { return credit{}, err },
	})
	if bindErr != nil {
		t.Fatal(bindErr)
	}
	return issue
}

func TestGarbledAnswersAreUnknown(t *testing.T) {
	t.Parallel()
	nothing := says(200, `[]`)
	for name, answer := range map[string]http.HandlerFunc{
		"no body":         says(201, ``),
		"not JSON":        says(201, `<html>`),
		"no id":           says(201, `{"account_id":"A1","amount_cents":2500}`),
		"another account": says(201, `{"credit_id":"cr_1","account_id":"A2","amount_cents":2500}`),
		"another amount":  says(201, `{"credit_id":"cr_1","account_id":"A1","amount_cents":25}`),
		"a redirect":      says(307, ``),
		"half an answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"credit_id":`)
		},
	} {
		sends := 0
		url := answering(t, func(w http.ResponseWriter, r *http.Request) { sends++; answer(w, r) }, nothing)
		out := bound(t, url).Do(t.Context(), request(t), creditIn{AccountID: "A1", AmountCents: 2500})
		if out.Status != once.Indeterminate || sends != 1 {
			t.Errorf("%s: %d sends, %+v", name, sends, out.Report)
		}
	}
}

func TestALookUpThatAnswersNonsenseCannotTell(t *testing.T) {
	t.Parallel()
	lost := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, lookup := range map[string]http.HandlerFunc{
		"unavailable": says(503, ``), "not found": says(404, ``), "not JSON": says(200, `x`), "no id": says(200, `[{"key":"k"}]`),
		"another key": says(200, `[{"credit_id":"cr_1","key":"another"}]`), "two": says(200, `[{"credit_id":"a"},{"credit_id":"b"}]`), "nothing": says(200, `[]`),
	} {
		issue, req := bound(t, answering(t, lost, lookup)), request(t)
		in := creditIn{AccountID: "A1", AmountCents: 2500}
		issue.Do(t.Context(), req, in)
		if out := issue.Do(t.Context(), req, in); out.Status != once.Indeterminate || out.Effect != ledger.Unknown {
			t.Errorf("%s: %+v", name, out.Report)
		}
	}
}

// Proves: R18, R81
func TestTheKeyTravelsWithTheCreditAndNotWithTheSignIn(t *testing.T) {
	t.Parallel()
	var key, session string
	mux := http.NewServeMux()
	mux.HandleFunc("POST /sessions", func(w http.ResponseWriter, r *http.Request) {
		session = r.Header.Get("Idempotency-Key")
		var in struct {
			ClientID string `json:"client_id"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.ClientID != clientID {
			t.Errorf("client %q, %v", in.ClientID, err)
		}
		_, _ = io.WriteString(w, `{"token":"t"}`)
	})
	mux.HandleFunc("POST /credits", func(w http.ResponseWriter, r *http.Request) {
		key = r.Header.Get("Idempotency-Key")
		if r.Header.Get("Authorization") != "Bearer t" {
			t.Error("no session")
		}
		_, _ = io.WriteString(w, `{"credit_id":"cr_1","account_id":"A1","amount_cents":2500}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	req := request(t)
	req.Tenant = "acme"
	out := bound(t, server.URL).Do(t.Context(), req, creditIn{AccountID: "A1", AmountCents: 2500})
	if out.Status != once.Completed || key != "acme/"+req.RunID+":call_1" || session != "" {
		t.Errorf("key %q, session's %q, %+v", key, session, out.Report)
	}
}

func TestFindOrderReadsAgainAndRefusesWhatIsNotThere(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	find, err := once.Bind(oncetest.NewGuard(t), on(t, r.url).findOrder())
	if err != nil {
		t.Fatal(err)
	}
	got, err := find.Do(t.Context(), request(t), orderIn{OrderID: "o-1"}).Value()
	want, wantErr := r.Order(t.Context(), "o-1")
	if err != nil || wantErr != nil || got != order(want) {
		t.Errorf("got %+v, %v; want %+v, %v", got, err, want, wantErr)
	}
	if out := find.Do(t.Context(), request(t), orderIn{OrderID: "missing-1"}); out.Status != once.Failed || out.Message != "there is no such order" {
		t.Errorf("missing: %+v", out.Report)
	}
}

func TestArgumentsThatMakeNoSenseAreRefusedBeforeAnythingIsRecorded(t *testing.T) {
	t.Parallel()
	issue := bound(t, "http://127.0.0.1:1")
	for name, in := range map[string]creditIn{
		"nothing": {}, "no account": {AmountCents: 1}, "no amount": {AccountID: "A1"}, "negative": {AccountID: "A1", AmountCents: -1}, "path in the account": {AccountID: "../x", AmountCents: 1},
	} {
		if out := issue.Do(t.Context(), request(t), in); out.Status != once.Refused || out.Effect != ledger.NoEffect {
			t.Errorf("%s: %+v", name, out.Report)
		}
	}
}

func TestSettingsAreCheckedTogether(t *testing.T) {
	t.Parallel()
	_, err := newHandler(t.Context(), func(string) string { return "" }, io.Discard)
	for _, name := range []string{"ONCEWARD_TABLE", "BILLING_URL", "BILLING_CLIENT"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
	for _, url := range []string{"", "localhost:80", "ftp://x", "http://", "://"} {
		if _, err := newBilling(url, clientID); err == nil {
			t.Errorf("%q was accepted", url)
		}
	}
}
