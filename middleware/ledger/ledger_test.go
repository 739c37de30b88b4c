package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Proves: R2, R14, R18
func TestKeyReadsBackWhatItWrites(t *testing.T) {
	t.Parallel()
	for _, k := range []Key{
		{RunID: "run-7Q", CallID: "toolu_01"},
		{Tenant: "acme", RunID: "run-7Q", CallID: "call.1-x_2"},
		{RunID: "r", CallID: PlannedCallID(3, 0)},
		{Tenant: strings.Repeat("t", MaxTenant), RunID: strings.Repeat("r", MaxRunID), CallID: strings.Repeat("c", MaxCallID)},
		{RunID: "r", CallID: "toolu_01~undo2"},
		{RunID: "r", CallID: "~t1-2~undo1"},
	} {
		got, err := ParseKey(k.String())
		if err != nil || got != k {
			t.Errorf("%s: got %+v, %v", k, got, err)
		}
		if len(k.Short()) != 26 {
			t.Errorf("%s: short form %q; want 26 characters", k, k.Short())
		}
	}
}

func TestKeyOutsideItsCharsetIsRefusedByName(t *testing.T) {
	t.Parallel()
	for k, want := range map[Key]string{
		{}:                                                     "run id",
		{RunID: "r"}:                                           "call id",
		{RunID: "r/1", CallID: "c"}:                            "run id",
		{RunID: "r:1", CallID: "c"}:                            "run id",
		{RunID: "r", CallID: "c:1"}:                            "call id",
		{RunID: "r", CallID: "c d"}:                            "call id",
		{RunID: "r", CallID: "~t1"}:                            "call id",
		{RunID: "r", CallID: "~t1-x"}:                          "call id",
		{RunID: "r", CallID: "c~undo"}:                         "call id",
		{RunID: "r", CallID: "~undo1"}:                         "call id",
		{RunID: "r", CallID: "a~b"}:                            "call id",
		{RunID: "r", CallID: "c~undo0"}:                        "call id",
		{RunID: "r", CallID: "c~undo01"}:                       "call id",
		{RunID: "r", CallID: "c~undo1~undo2"}:                  "call id",
		{Tenant: "a#b", RunID: "r", CallID: "c"}:               "tenant",
		{RunID: strings.Repeat("r", MaxRunID+1), CallID: "c"}:  "run id",
		{RunID: "r", CallID: strings.Repeat("c", MaxCallID+1)}: "call id",
		{RunID: "r", CallID: "\u00e9"}:                         "call id",
	} {
		if err := k.Check(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q named", k, err, want)
		}
	}
}

// Proves: R112
func TestUndoOfACallIsACallWithAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"toolu_01", PlannedCallID(3, 0), strings.Repeat("c", MaxCallID)} {
		call := Key{Tenant: "acme", RunID: "run-7Q", CallID: id}
		undo := call.Undo(12)
		if err := undo.Check(); err != nil {
			t.Errorf("%s: %v", undo, err)
		}
		if owner, n, ok := undo.UndoOf(); !ok || owner != call || n != 12 {
			t.Errorf("%s: is undo %d of %s, %t", undo, n, owner, ok)
		}
		if _, _, ok := call.UndoOf(); ok {
			t.Errorf("%s: is taken for an undo", call)
		}
	}
	if got := (Key{RunID: "r", CallID: "c"}).Undo(2).CallID; got != "c~undo2" {
		t.Errorf("second undo of c is %s", got)
	}
}

// Two tenants may choose one run id and share a receiver.
func TestKeysOfTwoTenantsNeverMeet(t *testing.T) {
	t.Parallel()
	a, b := Key{Tenant: "a", RunID: "r", CallID: "c"}, Key{Tenant: "b", RunID: "r", CallID: "c"}
	if a.String() == b.String() || a.Short() == b.Short() {
		t.Errorf("%s and %s meet", a, b)
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	w := Wait{ID: "w", Token: "AQCcanary"}
	asJSON, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(w), fmt.Sprintf("%v %+v %#v %s %q", w, w, w, w.Token, w.Token), string(asJSON)} {
		if strings.Contains(text, "canary") {
			t.Errorf("printed: %s", text)
		}
	}
}

func started(t *testing.T) (Move, Record) {
	t.Helper()
	m, err := Record{}.Start(Stamp{At: storyBegan, WriteID: "w1"}, Call{Key: storyKey}, Executor{Token: "A", Deadline: storyBegan, QuietAfter: storyBegan})
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.On(Record{})
	if err != nil {
		t.Fatal(err)
	}
	return m, r
}

// The attempt token is no proof: our start may have been stored, orphaned and
// settled by a person while we waited for its answer.
func TestOwnStartIsRecognisedOnlyWhileItIsTheLastWord(t *testing.T) {
	t.Parallel()
	m, r := started(t)
	if !m.StoredIn(r) {
		t.Error("its own write is not recognised")
	}
	if m.StoredIn(Record{}) {
		t.Error("recognised where there is no record")
	}
	orphan, err := r.Orphan(Stamp{At: storyBegan.Add(time.Hour), WriteID: "w2"})
	if err != nil {
		t.Fatal(err)
	}
	r, err = orphan.On(r)
	if err != nil {
		t.Fatal(err)
	}
	if m.StoredIn(r) {
		t.Error("recognised after it was orphaned: it would run a call that somebody may have settled")
	}
	if !orphan.StoredIn(r) {
		t.Error("the orphaning itself is not recognised")
	}
}

// Proves: R106
func TestDecisionIsRecognisedByItsIDAfterTheRecordMovedOn(t *testing.T) {
	t.Parallel()
	_, r := started(t)
	later := storyBegan.Add(time.Hour)
	orphan, _ := r.Orphan(Stamp{At: later, WriteID: "w2"})
	r, _ = orphan.On(r)
	resolve, err := r.Resolve(Stamp{At: later, WriteID: "w3"}, Decision{ID: "d1", Actor: "ada", Reason: "looked", Version: 2}, Settlement{Effect: Happened})
	if err != nil {
		t.Fatal(err)
	}
	r, _ = resolve.On(r)
	undo, err := r.AskUndo(Stamp{At: later, WriteID: "w4"}, Decision{ID: "d2", Actor: "bob", Reason: "wrong customer", Version: 3}, UndoAsk{})
	if err != nil {
		t.Fatal(err)
	}
	r, _ = undo.On(r)
	if !resolve.StoredIn(r) || !undo.StoredIn(r) {
		t.Error("a decision on the record is not recognised")
	}
	if len(r.Decisions) != 2 || r.Decisions[0].By != "ada" || r.Decisions[0].Before != "indeterminate" || r.Decisions[0].After != "completed" {
		t.Errorf("decisions: %+v", r.Decisions)
	}
}

// Proves: R105
func TestDecisionWithoutWhatItNeedsIsRefusedByName(t *testing.T) {
	t.Parallel()
	_, r := started(t)
	_, err := r.Resolve(Stamp{At: storyBegan, WriteID: "w"}, Decision{Reason: " "}, Settlement{Effect: Happened})
	for _, want := range []string{"id", "actor", "reason", "version"} {
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s named", err, want)
		}
	}
}

// Proves: R130, R131
func TestOnlyWhatNobodyHasToLookAtExpires(t *testing.T) {
	t.Parallel()
	retention := 10 * time.Hour
	at := storyBegan.Add(time.Hour)
	want := at.Add(retention + BroomDelay)
	for _, c := range []struct {
		r       Record
		expires bool
	}{
		{Record{Status: Started}, false},
		{Record{Status: Indeterminate}, false},
		{Record{Status: Completed, Outcome: Outcome{At: at}}, true},
		{Record{Status: Failed, Outcome: Outcome{At: at}}, true},
		{Record{Status: Failed, Flags: Retryable, Outcome: Outcome{At: at}}, true},
		{Record{Status: Failed, Flags: Retryable | Granted, Outcome: Outcome{At: at}}, false},
		{Record{Status: Completed, Flags: UndoOpen, Outcome: Outcome{At: at}}, false},
		{Record{Status: Completed, Flags: Contradicted, Outcome: Outcome{At: at}}, false},
		{Record{Status: Compensated, Outcome: Outcome{At: at}}, true},
		{Record{Status: Reserved, Approval: Approval{ExpiresAt: at}}, true},
	} {
		got, ok := c.r.Expiry(retention)
		if ok != c.expires || ok && !got.Equal(want) {
			t.Errorf("%s: %v, %v; want %v, %v", c.r.State(), got, ok, want, c.expires)
		}
	}
}

// Proves: R120, R121, R122, R123
func TestModelHearsOneSentencePerEffectAndNeverFailedForUnknown(t *testing.T) {
	t.Parallel()
	result := []byte(`{"credit_id":"cr_9"}`)
	for _, c := range []struct {
		r      Record
		result []byte
		want   string
	}{
		{Record{Status: Completed}, result, `This call took effect. Result: {"credit_id":"cr_9"}`},
		{Record{Status: Completed}, nil, "This call took effect. Its result was not kept."},
		{Record{Status: Failed, Outcome: Outcome{Message: "the card was refused"}}, nil, "This call certainly did not take effect: the card was refused."},
		{Record{Status: Failed, Flags: Retryable}, nil, saysUnresolved},
		{Record{Status: Failed, Flags: Contradicted}, nil, saysUnresolved},
		{Record{Status: Failed, Flags: Acknowledged}, nil, saysHappenedAfter},
		{Record{Status: Started}, nil, saysUnresolved},
		{Record{Status: Indeterminate, Outcome: Outcome{Message: "timed out"}}, nil, saysUnresolved},
		{Record{Status: Compensated}, nil, saysUndone},
		{Record{Status: Reserved}, nil, saysAwaitsApproval},
	} {
		got := c.r.ModelSays(c.result)
		if got != c.want {
			t.Errorf("%s: %q; want %q", c.r.State(), got, c.want)
		}
		if c.r.Effect() == Unknown && (strings.Contains(got, "fail") || strings.Contains(got, "not take effect:")) {
			t.Errorf("%s: says that it failed: %q", c.r.State(), got)
		}
	}
	if got := RequestSays(Unknown, "no"); got != saysRequestOnly {
		t.Errorf("%q", got)
	}
}

func TestPolicyDecidesOnlyAboutTheUnknown(t *testing.T) {
	t.Parallel()
	for policy, want := range map[Policy]Next{"": Park, Pause: Park, Tell: Done, Fail: Done} {
		if got := (Record{Status: Indeterminate}).Next(storyBegan, false, policy); got != want {
			t.Errorf("%q: %s; want %s", policy, got, want)
		}
		if got := (Record{Status: Indeterminate}).Next(storyBegan, true, policy); got != Look {
			t.Errorf("%q: %s; want the look-up first", policy, got)
		}
		if got := (Record{Status: Reserved}).Next(storyBegan, false, policy); got != Park {
			t.Errorf("%q: an approval is %s", policy, got)
		}
	}
}

func TestShortenCutsAtARuneAndMarksTheCut(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "short", strings.Repeat("é", 200), strings.Repeat("x", 161), "a\xffb"} {
		got := Shorten(s, 160)
		if len(got) > 160 || !json.Valid([]byte(`"`+got+`"`)) {
			t.Errorf("%q became %q, %d bytes", s, got, len(got))
		}
	}
}
