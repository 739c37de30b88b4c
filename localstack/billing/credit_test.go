package billing_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/localstack/billing"
)

// Proves: R18
func TestOneKeyFromManySendersGivesOneCredit(t *testing.T) {
	t.Parallel()
	const senders = 32
	s := newService(t)
	var wg sync.WaitGroup
	credits := make([]billing.Credit, senders)
	replays := make([]bool, senders)
	errs := make([]error, senders)
	for i := range senders {
		wg.Go(func() {
			credits[i], replays[i], errs[i] = s.Credit(t.Context(), "run-1:c1", billing.CreditRequest{AccountID: "A1", AmountCents: 2500})
		})
	}
	wg.Wait()
	fresh := 0
	for i := range senders {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if credits[i] != credits[0] {
			t.Errorf("two answers for one key: %+v and %+v", credits[0], credits[i])
		}
		if !replays[i] {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d answers were no replay, want 1", fresh)
	}
	wantEffects(t, s.Client, "A1", 1, senders)
	found, err := s.CreditsByKey(t.Context(), "run-1:c1")
	if diff := cmp.Diff([]billing.Credit{credits[0]}, found); err != nil || diff != "" {
		t.Errorf("look-up by key: %v (-want +got):\n%s", err, diff)
	}
}

func TestWithoutAKeyEachRequestIsACredit(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for range 3 {
		if _, replayed, err := s.Credit(t.Context(), "", billing.CreditRequest{AccountID: "A1", AmountCents: 1}); err != nil || replayed {
			t.Fatalf("replayed %v, %v", replayed, err)
		}
	}
	wantEffects(t, s.Client, "A1", 3, 3)
	credits, err := s.CreditsByAccount(t.Context(), "A1")
	if err != nil || len(credits) != 3 || credits[0].CreditID == credits[1].CreditID {
		t.Errorf("credits: %+v, %v", credits, err)
	}
}

func TestKeyBelongsToOneRequest(t *testing.T) {
	t.Parallel()
	s := newService(t)
	credit, _, err := s.Credit(t.Context(), "k", billing.CreditRequest{AccountID: "A1", AmountCents: 5})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Credit(t.Context(), "k", billing.CreditRequest{AccountID: "A1", AmountCents: 6})
	wantStatus(t, err, 409, billing.CodeKeyReused)
	_, _, err = s.Credit(t.Context(), "k", billing.CreditRequest{AccountID: "A2", AmountCents: 5})
	wantStatus(t, err, 409, billing.CodeKeyReused)
	_, _, err = s.Void(t.Context(), "k", credit.CreditID)
	wantStatus(t, err, 409, billing.CodeKeyReused)
	_, _, err = s.CloseAccount(t.Context(), "k", "A1")
	wantStatus(t, err, 409, billing.CodeKeyReused)
	wantEffects(t, s.Client, "A1", 1, 4)
}

func TestVoidsAreKeyedAndCounted(t *testing.T) {
	t.Parallel()
	s := newService(t)
	credit, _, err := s.Credit(t.Context(), "run-1:c1", billing.CreditRequest{AccountID: "A1", AmountCents: 5})
	if err != nil {
		t.Fatal(err)
	}
	first, replayed, err := s.Void(t.Context(), "run-1:c1~undo1", credit.CreditID)
	if err != nil || replayed {
		t.Fatalf("void: replayed %v, %v", replayed, err)
	}
	again, replayed, err := s.Void(t.Context(), "run-1:c1~undo1", credit.CreditID)
	if err != nil || !replayed || again != first {
		t.Errorf("same key again: %+v, replayed %v, %v; want %+v", again, replayed, err, first)
	}
	if _, _, err := s.Void(t.Context(), "", credit.CreditID); err != nil {
		t.Errorf("without a key: %v", err)
	}
	_, _, err = s.Void(t.Context(), "other", "cr_99999999")
	wantStatus(t, err, 404, billing.CodeNotFound)
	got, err := s.AccountEffects(t.Context(), "A1")
	want := billing.Effects{Credits: 1, Voids: 2, Sends: 4, Keys: []string{"run-1:c1", "run-1:c1~undo1"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("effects: %v (-want +got):\n%s", err, diff)
	}
}

func TestKeyFindsWhatItMadeAndNothingElse(t *testing.T) {
	t.Parallel()
	s := newService(t)
	credit, _, err := s.Credit(t.Context(), "r:c1", billing.CreditRequest{AccountID: "A1", AmountCents: 5})
	if err != nil {
		t.Fatal(err)
	}
	void, _, err := s.Void(t.Context(), "r:c1~undo1", credit.CreditID)
	if err != nil {
		t.Fatal(err)
	}
	closure, _, err := s.CloseAccount(t.Context(), "r:c2", "A1")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"r:c1", "r:c1~undo1", "r:c2", "r:c3"} {
		credits, creditsErr := s.CreditsByKey(t.Context(), key)
		voids, voidsErr := s.VoidsByKey(t.Context(), key)
		closures, closuresErr := s.ClosuresByKey(t.Context(), key)
		if err := errors.Join(creditsErr, voidsErr, closuresErr); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		got := fmt.Sprint(credits, voids, closures)
		want := map[string]string{
			"r:c1":       fmt.Sprint([]billing.Credit{credit}, []billing.Void{}, []billing.Closure{}),
			"r:c1~undo1": fmt.Sprint([]billing.Credit{}, []billing.Void{void}, []billing.Closure{}),
			"r:c2":       fmt.Sprint([]billing.Credit{}, []billing.Void{}, []billing.Closure{closure}),
			"r:c3":       fmt.Sprint([]billing.Credit{}, []billing.Void{}, []billing.Closure{}),
		}[key]
		if got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
	if closure.Key != "r:c2" || void.Key != "r:c1~undo1" {
		t.Errorf("%+v, %+v", closure, void)
	}
}

func TestRefusalIsDefiniteAndDoesNotUseUpTheKey(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, amount := range []int64{0, -5, billing.MaxAmountCents + 1} {
		_, _, err := s.Credit(t.Context(), "k", billing.CreditRequest{AccountID: "A1", AmountCents: amount})
		wantStatus(t, err, 422, billing.CodeAmountInvalid)
	}
	if _, replayed, err := s.Credit(t.Context(), "k", billing.CreditRequest{AccountID: "A1", AmountCents: 5}); err != nil || replayed {
		t.Fatalf("replayed %v, %v", replayed, err)
	}
	if closure, _, err := s.CloseAccount(t.Context(), "close-1", "A1"); err != nil || !closure.Closed {
		t.Fatalf("closing: %+v, %v", closure, err)
	}
	if _, replayed, err := s.CloseAccount(t.Context(), "close-1", "A1"); err != nil || !replayed {
		t.Errorf("closing again: replayed %v, %v", replayed, err)
	}
	_, _, err := s.Credit(t.Context(), "k2", billing.CreditRequest{AccountID: "A1", AmountCents: 5})
	wantStatus(t, err, 422, billing.CodeAccountClosed)
	if _, replayed, err := s.Credit(t.Context(), "k", billing.CreditRequest{AccountID: "A1", AmountCents: 5}); err != nil || !replayed {
		t.Errorf("an earlier credit's key after closing: replayed %v, %v; want its first answer", replayed, err)
	}
	wantEffects(t, s.Client, "A1", 1, 8)
}

func TestKeyPrefixCountsWholeRunsOnly(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, key := range []string{"run-1:c1", "run-1:c2", "run-10:c1", "acme/run-1:c1", "acme/run-2:c1", "other"} {
		if _, _, err := s.Credit(t.Context(), key, billing.CreditRequest{AccountID: "A1", AmountCents: 5}); err != nil {
			t.Fatal(err)
		}
	}
	for prefix, want := range map[string]int{
		"run-1": 3, "run-1:": 3, "run-1:c1": 2, "run-10": 1, "acme/run-1": 1, "acme": 2, "acme/": 2, "run-": 5, "run": 0, "run-1:c": 0, "nobody": 0, "other": 1,
	} {
		got, err := s.KeyEffects(t.Context(), prefix)
		if err != nil || got.Credits != want || len(got.Keys) != want {
			t.Errorf("prefix %q: %d credits of keys %v, %v; want %d", prefix, got.Credits, got.Keys, err, want)
		}
	}
}

func TestEffectsNeverExceedKeysWhateverTheFaults(t *testing.T) {
	t.Parallel()
	s := newService(t)
	rapid.Check(t, func(t *rapid.T) {
		account := rapid.StringMatching(`A[a-z]{12}`).Draw(t, "account")
		answered, sends := map[string]billing.Credit{}, 0
		faults := append(billing.Faults(), billing.FaultNone, billing.FaultNone)
		for range rapid.IntRange(1, 8).Draw(t, "requests") {
			fault := rapid.SampledFrom(faults).Draw(t, "fault")
			if fault == billing.FaultHangAfter || fault == billing.FaultHangBefore {
				continue // proven one by one; they would only cost time here
			}
			key := account + ":" + rapid.SampledFrom([]string{"c1", "c2", "c3"}).Draw(t, "key")
			if fault != billing.FaultNone {
				if _, err := s.Arm(t.Context(), billing.Rule{Operation: billing.OpCredit, AccountID: account, Fault: fault}); err != nil {
					t.Fatal(err)
				}
			}
			credit, _, err := s.Credit(t.Context(), key, billing.CreditRequest{AccountID: account, AmountCents: 7})
			sends++
			if (err == nil) != (fault == billing.FaultNone) {
				t.Fatalf("fault %q was answered with %v", fault, err)
			}
			if before, ok := answered[key]; err == nil && ok && before != credit {
				t.Fatalf("key %s had two answers: %+v and %+v", key, before, credit)
			}
			if err == nil {
				answered[key] = credit
			}
		}
		got, err := s.AccountEffects(t.Context(), account)
		if err != nil || got.Sends != sends || got.Credits > len(got.Keys) || got.Credits < len(answered) {
			t.Fatalf("effects %+v, %v; %d sends and %d answered keys", got, err, sends, len(answered))
		}
	})
}
