package billing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/localstack/billing"
)

// seen is what the client of a faulty request sees, and what is true.
type seen struct {
	status  int    // 0: no answer
	code    string // of the answer
	hangs   bool   // no answer until the client gives up
	credits int    // that took effect
}

var faults = map[billing.Fault]seen{
	billing.FaultNone:           {status: 201, credits: 1},
	billing.FaultLoseAnswer:     {credits: 1},
	billing.FaultDropRequest:    {},
	billing.FaultError500After:  {status: 500, code: billing.CodeServerError, credits: 1},
	billing.FaultError500Before: {status: 500, code: billing.CodeServerError},
	billing.FaultRefuse422:      {status: 422, code: billing.CodeRefused},
	billing.FaultHangAfter:      {hangs: true, credits: 1},
	billing.FaultHangBefore:     {hangs: true},
	billing.FaultUnavailable503: {status: 503, code: billing.CodeUnavailable},
	billing.FaultExpired401:     {status: 401, code: billing.CodeCredentialsExpired},
}

func TestEachFaultLooksAndActsAsItsNameSays(t *testing.T) {
	t.Parallel()
	for _, fault := range billing.Faults() {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			want, ok := faults[fault]
			if !ok {
				t.Fatal("this test does not know the fault")
			}
			s := newService(t)
			if _, err := s.Arm(t.Context(), billing.Rule{Operation: billing.OpCredit, Fault: fault}); err != nil {
				t.Fatal(err)
			}
			checkSeen(t, s.Client, "A1", "run-1:c1", want)
			wantEffects(t, s.Client, "A1", want.credits, 1)

			// The rule has struck once, so the same key now tells the truth.
			_, replayed, err := s.Credit(t.Context(), "run-1:c1", billing.CreditRequest{AccountID: "A1", AmountCents: 5})
			if err != nil {
				t.Fatalf("same key again: %v", err)
			}
			if replayed != (want.credits == 1) {
				t.Errorf("replayed is %v with %d credits before", replayed, want.credits)
			}
			wantEffects(t, s.Client, "A1", 1, 2)
		})
	}
}

// checkSeen sends one credit and compares what comes back.
func checkSeen(t *testing.T, c *billing.Client, account, key string, want seen) {
	t.Helper()
	ctx := t.Context()
	if want.hangs {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
	}
	_, _, err := c.Credit(ctx, key, billing.CreditRequest{AccountID: account, AmountCents: 5})
	if want.status != 0 {
		wantStatus(t, err, want.status, want.code)
		return
	}
	if _, answered := errors.AsType[*billing.StatusError](err); err == nil || answered {
		t.Fatalf("error is %v, want no answer", err)
	}
	if got := errors.Is(err, context.DeadlineExceeded); got != want.hangs {
		t.Errorf("error is %v; hanging is %v, want %v", err, got, want.hangs)
	}
}

func TestTestAccountStrikesByItsNameAlone(t *testing.T) {
	t.Parallel()
	s := newService(t)
	table, err := s.TestAccounts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(billing.TestAccounts(), table); diff != "" {
		t.Errorf("served table differs (-package +served):\n%s", diff)
	}
	for _, account := range table {
		t.Run(account.Word, func(t *testing.T) {
			t.Parallel()
			id := "acct-" + account.Word + "-7"
			switch account.Operation {
			case billing.OpCredit:
				want := faults[account.Fault]
				checkSeen(t, s.Client, id, "k-"+id, want)
				wantEffects(t, s.Client, id, want.credits, 1)
				_, _, err := s.Credit(t.Context(), "k-"+id, billing.CreditRequest{AccountID: id, AmountCents: 5})
				if (err != nil) != account.Always {
					t.Errorf("same key again: %v; always is %v", err, account.Always)
				}
			case billing.OpLookup:
				_, err := s.CreditsByAccount(t.Context(), id)
				wantStatus(t, err, 503, billing.CodeUnavailable)
			case billing.OpSession:
				_, err := billing.NewClient(s.url, nil).SignIn(t.Context(), "tests", id)
				wantStatus(t, err, 401, billing.CodeCredentialsExpired)
			case billing.OpVoid, billing.OpOrder, billing.OpClose:
				t.Fatalf("no test account strikes %s", account.Operation)
			}
		})
	}
}

func TestLookupDownHidesWhetherTheCreditLanded(t *testing.T) {
	t.Parallel()
	for word, credits := range map[string]int{"lose-answer": 1, "drop-request": 0} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			account := word + "-lookup-down"
			checkSeen(t, s.Client, account, "run-1:c1", seen{})
			s.stop()

			// Also a dropped request's account is remembered over a restart.
			s = openService(t, s.file)
			_, err := s.CreditsByKey(t.Context(), "run-1:c1")
			wantStatus(t, err, 503, billing.CodeUnavailable)
			wantEffects(t, s.Client, account, credits, 1)

			found, err := s.CreditsByKey(t.Context(), "run-2:c1")
			if err != nil || len(found) != 0 {
				t.Errorf("a key that never came: %v, %v; want none", found, err)
			}
		})
	}
}

func TestRuleStrikesOnlyWhatItNamesAndAsOftenAsItSays(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rule billing.Rule
		want []bool // strikes on five credits of A1 under keys k0..k4
	}{
		"once by default":      {billing.Rule{}, []bool{true, false, false, false, false}},
		"twice":                {billing.Rule{Times: new(2)}, []bool{true, true, false, false, false}},
		"for ever":             {billing.Rule{Times: new(0)}, []bool{true, true, true, true, true}},
		"after three":          {billing.Rule{After: 3}, []bool{false, false, false, true, false}},
		"another account":      {billing.Rule{AccountID: "A2"}, []bool{false, false, false, false, false}},
		"this account":         {billing.Rule{AccountID: "A1"}, []bool{true, false, false, false, false}},
		"a key":                {billing.Rule{KeyContains: "k2"}, []bool{false, false, true, false, false}},
		"another operation":    {billing.Rule{Operation: billing.OpVoid}, []bool{false, false, false, false, false}},
		"two after one":        {billing.Rule{After: 1, Times: new(2)}, []bool{false, true, true, false, false}},
		"part of keys, always": {billing.Rule{KeyContains: "k", Times: new(0), After: 4}, []bool{false, false, false, false, true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			test.rule.Fault = billing.FaultRefuse422
			if test.rule.Operation == "" {
				test.rule.Operation = billing.OpCredit
			}
			if _, err := s.Arm(t.Context(), test.rule); err != nil {
				t.Fatal(err)
			}
			var got []bool
			for _, key := range []string{"k0", "k1", "k2", "k3", "k4"} {
				_, _, err := s.Credit(t.Context(), key, billing.CreditRequest{AccountID: "A1", AmountCents: 5})
				got = append(got, err != nil)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("strikes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRulesAreListedCountedAndCleared(t *testing.T) {
	t.Parallel()
	s := newService(t)
	armed, err := s.Arm(t.Context(), billing.Rule{Operation: billing.OpOrder, Fault: billing.FaultUnavailable503})
	if err != nil || armed.ID == 0 || armed.Times == nil || *armed.Times != 1 {
		t.Fatalf("armed %+v, %v; want an id and times 1", armed, err)
	}
	_, err = s.Order(t.Context(), "o-1")
	wantStatus(t, err, 503, billing.CodeUnavailable)
	if _, err := s.Order(t.Context(), "o-1"); err != nil {
		t.Errorf("the rule struck twice: %v", err)
	}
	armed.Matched, armed.Struck = 2, 1
	list, err := s.Armed(t.Context())
	if diff := cmp.Diff([]billing.Rule{armed}, list); err != nil || diff != "" {
		t.Errorf("listed rules: %v (-want +got):\n%s", err, diff)
	}
	if err := s.Disarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := s.Armed(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("after clearing: %v, %v", list, err)
	}
}

func TestStoppingReleasesHangingRequests(t *testing.T) {
	t.Parallel()
	s := newService(t)
	hung := make(chan error, 1)
	go func() {
		_, _, err := s.Credit(t.Context(), "run-1:c1", billing.CreditRequest{AccountID: "acct-hang", AmountCents: 5})
		hung <- err
	}()
	for {
		effects, err := s.AccountEffects(t.Context(), "acct-hang")
		if err != nil {
			t.Fatal(err)
		}
		if effects.Credits == 1 {
			break
		}
	}
	s.stop()
	if err := <-hung; err == nil {
		t.Error("the hanging request was answered")
	}
}
