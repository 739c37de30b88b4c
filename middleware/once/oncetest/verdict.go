package oncetest

import (
	"fmt"
	"testing"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/once"
)

// verdict says each thing about a tool once.
type verdict struct {
	tool string
	said map[string]bool
}

func (v *verdict) fail(t testing.TB, format string, args ...any) {
	t.Helper()
	if text := v.text(format, args...); text != "" {
		t.Errorf("%s", text)
	}
}

func (v *verdict) note(t testing.TB, format string, args ...any) {
	t.Helper()
	if text := v.text(format, args...); text != "" {
		t.Logf("%s", text)
	}
}

func (v *verdict) text(format string, args ...any) string {
	text := v.tool + ": " + fmt.Sprintf(format, args...)
	if v.said[text] {
		return ""
	}
	v.said[text] = true
	return text
}

// speaker is whose word an answer is.
type speaker string

const (
	byRun       speaker = "Run"
	byReconcile speaker = "Reconcile"
)

// judge compares an answer with the effects that the receiver counted.
func (v *verdict) judge(t testing.TB, name string, fault Fault, r once.Report, effects int, by speaker) {
	t.Helper()
	switch {
	case r.Effect == ledger.NoEffect && effects > 0:
		v.fail(t, "%s: the outcome says effect none, and an effect stands: %s", name, denies(r.Code))
	case r.Effect == ledger.Happened && effects == 0:
		v.fail(t, "%s: the outcome says completed, and no effect stands: %s", name, claims(fault, by))
	case r.Effect == ledger.Unknown && fault == Refuse && effects == 0:
		v.note(t, "%s: a definite refusal (422) stays unknown, so a person has to look; return once.Rejected for what the receiver refuses for good", name)
	case r.Effect == ledger.Unknown && fault == 0 && by == byRun:
		v.note(t, "%s: the receiver answered and the outcome is unknown; does the tool understand the receiver's answers? See Receiver.Serve. It was %s, %s", name, r.Status, r.Code)
	}
}

// denies is why an outcome denies an effect that stands.
func denies(code string) string {
	switch code {
	case "not_attempted":
		return "Run returns NotAttempted although the request may have left"
	case "rejected":
		return "Run returns Rejected although the receiver did not refuse all of it for good"
	case "absent":
		return "Reconcile returns false although the effect is there, and Downstream.AbsenceIsProof calls that proof"
	}
	return "it was settled as " + code
}

// claims is why an outcome claims an effect that does not stand.
func claims(fault Fault, by speaker) string {
	switch {
	case by == byReconcile:
		return "Reconcile returns true although nothing is there"
	case fault == Refuse:
		return "Run returns success or Landed although the receiver refused; does it swallow an error, or not look at the status?"
	}
	return "Run returns success or Landed although its request did not arrive; does it swallow an error?"
}
