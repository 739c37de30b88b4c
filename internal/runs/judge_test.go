package runs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/runs"
	"github.com/onceward/onceward/middleware/ledger"
)

// rec is a record of the call that the tests ask about.
func rec(status ledger.Status, flags ledger.Flags) ledger.Record {
	return ledger.Record{
		Key: ledger.Key{RunID: "run-1", CallID: "toolu_01"}, Tool: "issue_credit", Turn: 3, Status: status, Flags: flags, Fingerprint: "f",
		Attempt: ledger.Attempt{Number: 1}, Outcome: ledger.Outcome{Message: "the receiver said no"},
	}
}

func open(r ledger.Record, p runs.Progress, policy ledger.Policy) runs.Open {
	return runs.Open{Call: runs.Call{ID: "toolu_01", Tool: "issue_credit"}, Turn: 3, Known: true, Progress: p, Record: r, Policy: policy}
}

func closed() ledger.Record {
	return ledger.Record{
		Key: ledger.Key{RunID: "run-1", CallID: "toolu_01"}, Status: ledger.Failed,
		Outcome: ledger.Outcome{Code: "closed", Message: "nothing ran, and nothing can run any more"},
	}
}

// Proves: R29, R121, R123
func TestJudge(t *testing.T) {
	t.Parallel()
	back := func(status string, answers int) runs.Progress {
		return runs.Progress{Issued: true, Answers: answers, Status: status, Code: "code"}
	}
	never, cutOff := runs.Progress{}, runs.Progress{Issued: true}
	for name, c := range map[string]struct {
		record   ledger.Record
		progress runs.Progress
		policy   ledger.Policy
		want     runs.Verdict
	}{
		"never issued":                                 {ledger.Record{}, never, "", runs.Issue},
		"the Map broke, nothing is recorded":           {ledger.Record{}, cutOff, "", runs.Issue},
		"the Map broke, it completed":                  {rec(ledger.Completed, 0), cutOff, "", runs.Tell},
		"the Map broke, it is unknown":                 {rec(ledger.Indeterminate, 0), cutOff, ledger.Tell, runs.Issue},
		"refused, nothing is recorded":                 {ledger.Record{}, back("refused", 1), "", runs.Close},
		"expired, nothing is recorded":                 {ledger.Record{}, back("expired", 1), "", runs.Close},
		"rounds ran out, nothing is recorded":          {ledger.Record{}, back("unresolved", 1), "", runs.Issue},
		"rounds ran out for the third time":            {ledger.Record{}, back("unresolved", 3), "", runs.Close},
		"completed, they say; nothing is recorded":     {ledger.Record{}, back("completed", 1), "", runs.Issue},
		"completed, they keep saying":                  {ledger.Record{}, back("completed", 3), "", runs.Tell},
		"completed":                                    {rec(ledger.Completed, 0), back("completed", 1), "", runs.Tell},
		"completed, after the rounds ran out":          {rec(ledger.Completed, 0), back("unresolved", 1), "", runs.Tell},
		"undone":                                       {rec(ledger.Compensated, 0), back("compensated", 1), "", runs.Tell},
		"failed for good":                              {rec(ledger.Failed, 0), back("failed", 1), "", runs.Tell},
		"failed, might run again":                      {rec(ledger.Failed, ledger.Retryable), back("failed", 1), "", runs.Close},
		"failed, granted":                              {rec(ledger.Failed, ledger.Retryable|ledger.Granted), back("failed", 1), "", runs.Issue},
		"failed, granted, came back too often":         {rec(ledger.Failed, ledger.Retryable|ledger.Granted), back("unresolved", 3), "", runs.Tell},
		"still running":                                {rec(ledger.Started, 0), back("unresolved", 2), "", runs.Issue},
		"still running, came back too often":           {rec(ledger.Started, 0), back("unresolved", 3), "", runs.Tell},
		"unknown, pause":                               {rec(ledger.Indeterminate, 0), back("indeterminate", 1), ledger.Pause, runs.Issue},
		"unknown, pause by default":                    {rec(ledger.Indeterminate, 0), back("indeterminate", 1), "", runs.Issue},
		"unknown, tell":                                {rec(ledger.Indeterminate, 0), back("indeterminate", 1), ledger.Tell, runs.Tell},
		"unknown, fail":                                {rec(ledger.Indeterminate, 0), back("indeterminate", 1), ledger.Fail, runs.Tell},
		"unknown, tell, but the rounds ran out before": {rec(ledger.Indeterminate, 0), back("unresolved", 1), ledger.Tell, runs.Issue},
		"waits for approval":                           {rec(ledger.Reserved, 0), back("approval_required", 1), "", runs.Issue},
		"the key is another call's, says the guard":    {rec(ledger.Failed, ledger.Retryable), back("conflict", 1), "", runs.Tell},
		"closed before":                                {closed(), back("refused", 1), "", runs.Tell},
		"follows another":                              {rec(ledger.Follower, 0), back("unresolved", 3), "", runs.Tell},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := open(c.record, c.progress, c.policy).Judge(); got != c.want {
				t.Errorf("verdict = %s, want %s", got, c.want)
			}
		})
	}
}

func TestCallOfAnUnknownToolIsClosedAndToldSo(t *testing.T) {
	t.Parallel()
	o := open(ledger.Record{}, runs.Progress{}, "")
	o.Known = false
	if got := o.Judge(); got != runs.Close {
		t.Fatalf("verdict = %s, want close", got)
	}
	o.Record = closed()
	heard := o.Heard(nil, 1000)
	if o.Judge() != runs.Tell || heard.Status != "refused" || !strings.Contains(heard.Says, "there is no tool of that name") {
		t.Errorf("heard %+v", heard)
	}
}

func TestToolThatIsGoneSinceItWasIssuedIsToldByItsRecord(t *testing.T) {
	t.Parallel()
	o := open(rec(ledger.Indeterminate, 0), runs.Progress{Issued: true}, "")
	o.Known = false
	if heard := o.Heard(nil, 1000); o.Judge() != runs.Tell || heard.Status != runs.Unresolved {
		t.Errorf("verdict %s, heard %+v; want it told as unresolved", o.Judge(), heard)
	}
}

func TestRefusalIsToldByItsReasonAlsoWhenTheToolIsGoneSince(t *testing.T) {
	t.Parallel()
	o := open(closed(), runs.Progress{Issued: true, Answers: 1, Status: "refused", Code: "bad_number"}, "")
	o.Known = false
	if heard := o.Heard(nil, 1000); heard.Status != "refused" || !strings.Contains(heard.Says, "bad_number") {
		t.Errorf("heard %+v", heard)
	}
}

func TestRecordOfAnotherCallIsNotTold(t *testing.T) {
	t.Parallel()
	other := rec(ledger.Completed, 0)
	other.Tool = "delete_account"
	heard := open(other, runs.Progress{Issued: true, Answers: 1, Status: "completed"}, "").Heard([]byte(`{"secret":1}`), 1000)
	want := runs.Heard{CallID: "toolu_01", Status: "conflict", Says: ledger.RequestSays(ledger.Happened, "")}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
}

// Proves: R123
func TestRecordOfOtherArgumentsIsNotTold(t *testing.T) {
	t.Parallel()
	of := func(canonical string) ledger.Digest { return ledger.DigestOf([]byte(canonical)) }
	for name, c := range map[string]struct {
		received  ledger.Digest
		arguments string
		want      string
	}{
		"the same":                          {of(`{"cents":1,"to":"x"}`), `{"cents":1,"to":"x"}`, "completed"},
		"the same in another spelling":      {of(`{"cents":1,"to":"x"}`), ` {"to":"\u0078", "cents":1.0}`, "completed"},
		"others":                            {of(`{"cents":2,"to":"x"}`), `{"cents":1,"to":"x"}`, "conflict"},
		"that have no canonical form":       {of(`{"cents":1}`), `{"cents":1,"cents":1}`, "conflict"},
		"of a record that does not say":     {"", `{"cents":1}`, "completed"},
		"numbers that a guard would refuse": {of(`{"n":9007199254740992}`), `{"n":9007199254740993}`, "conflict"},
	} {
		r := rec(ledger.Completed, 0)
		r.Received = c.received
		o := open(r, runs.Progress{Issued: true, Answers: 1, Status: "completed"}, "")
		o.Call.Arguments = c.arguments
		heard := o.Heard([]byte(`{"secret":1}`), 1000)
		if o.Judge() != runs.Tell || heard.Status != c.want || strings.Contains(heard.Says, "secret") != (c.want == "completed") {
			t.Errorf("%s: verdict %s, heard %+v; want %s", name, o.Judge(), heard, c.want)
		}
	}
}

// Proves: R92, R120, R121, R122
func TestModelHearsTheFixedSentences(t *testing.T) {
	t.Parallel()
	back := func(status string) runs.Progress {
		return runs.Progress{Issued: true, Answers: 1, Status: status, Code: "bad_arguments"}
	}
	late := rec(ledger.Failed, ledger.Contradicted)
	for name, c := range map[string]struct {
		record ledger.Record
		status string
		result string
		want   runs.Heard
	}{
		"completed":       {rec(ledger.Completed, 0), "completed", `{"id":"cr_9"}`, runs.Heard{Status: "completed", Says: `This call took effect. Result: {"id":"cr_9"}`}},
		"result lost":     {rec(ledger.Completed, 0), "completed", "", runs.Heard{Status: "completed", Says: "This call took effect. Its result was not kept."}},
		"failed":          {rec(ledger.Failed, 0), "failed", "", runs.Heard{Status: "failed", Says: "This call certainly did not take effect: the receiver said no."}},
		"undone":          {rec(ledger.Compensated, 0), "compensated", "", runs.Heard{Status: "compensated", Says: "This call took effect and was undone."}},
		"unknown":         {rec(ledger.Indeterminate, 0), "indeterminate", "", runs.Heard{Status: "unresolved", Says: "This call is unresolved: it may or may not have taken effect. Do not repeat it."}},
		"contradicted":    {late, "failed", "", runs.Heard{Status: "unresolved", Says: "This call is unresolved: it may or may not have taken effect. Do not repeat it."}},
		"granted, unused": {rec(ledger.Failed, ledger.Retryable|ledger.Granted), "unresolved", "", runs.Heard{Status: "unresolved", Says: "This call is unresolved: it may or may not have taken effect. Do not repeat it."}},
		"refused":         {closed(), "refused", "", runs.Heard{Status: "refused", Says: "This request did nothing, and no earlier one under its key has: bad_arguments."}},
		"closed":          {closed(), "unresolved", "", runs.Heard{Status: "failed", Says: "This call certainly did not take effect: nothing ran, and nothing can run any more."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var result []byte
			if c.result != "" {
				result = []byte(c.result)
			}
			c.want.CallID = "toolu_01"
			if diff := cmp.Diff(c.want, open(c.record, back(c.status), "").Heard(result, 1000)); diff != "" {
				t.Errorf("heard (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResultTooLongToBeToldIsReplacedByANote(t *testing.T) {
	t.Parallel()
	long := []byte(`"` + strings.Repeat("x", 5000) + `"`)
	heard := open(rec(ledger.Completed, 0), runs.Progress{Issued: true}, "").Heard(long, 1000)
	if len(heard.Says) > 200 || !strings.Contains(heard.Says, "5002 bytes") || heard.Status != "completed" {
		t.Errorf("heard %+v", heard)
	}
}

// drawOpen draws any state of a call, also those that should not occur.
func drawOpen(t *rapid.T) runs.Open {
	statuses := append(ledger.Statuses(), ledger.None)
	o := open(ledger.Record{}, runs.Progress{
		Issued:  rapid.Bool().Draw(t, "issued"),
		Answers: rapid.IntRange(0, 4).Draw(t, "answers"),
		Status:  rapid.SampledFrom([]string{"", "completed", "failed", "indeterminate", "compensated", "refused", "expired", "conflict", "in_progress", "approval_required", "unresolved", "?"}).Draw(t, "came back"),
	}, rapid.SampledFrom([]ledger.Policy{"", ledger.Pause, ledger.Tell, ledger.Fail}).Draw(t, "policy"))
	if status := rapid.SampledFrom(statuses).Draw(t, "status"); status != ledger.None {
		o.Record = rec(status, ledger.Flags(rapid.IntRange(0, 127).Draw(t, "flags")))
	}
	o.Known = rapid.Bool().Draw(t, "known")
	return o
}

// Proves: R123
func TestNobodyHearsThatACallDidNothingBeforeItIsClosed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := drawOpen(t)
		for _, judge := range []func(runs.Open) runs.Verdict{runs.Open.Judge, runs.Open.Abandoned} {
			switch judge(o) {
			case runs.Close:
				if _, err := o.Record.Close(ledger.Stamp{At: time.Unix(1, 0), WriteID: "w"}, ledger.Key{RunID: "run-1", CallID: "toolu_01"}, ledger.Settler{}); err != nil {
					t.Fatalf("close is not a move of the table: %v", err)
				}
			case runs.Tell:
				heard := o.Heard(nil, 1000)
				final := o.Record.Status == ledger.Failed && !o.Record.Flags.Has(ledger.Retryable)
				other := o.Progress.Status == "conflict"
				if (heard.Status == "failed" || heard.Status == "refused" || strings.Contains(heard.Says, "certainly")) && !final && !other {
					t.Fatalf("%s is told as %+v", o.Record.State(), heard)
				}
			case runs.Issue:
				if !o.Known {
					t.Fatal("nobody could be asked")
				}
			}
		}
	})
}

func TestCallThatKeepsComingBackIsIssuedThreeTimesAtMost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := drawOpen(t)
		status := o.Progress.Status
		o.Progress = runs.Progress{}
		issued := 0
		for ; o.Judge() == runs.Issue; issued++ {
			if issued > 3 {
				t.Fatalf("issued %d times", issued)
			}
			o.Progress = runs.Progress{Issued: true, Answers: issued + 1, Status: status}
			if status == "" {
				o.Progress.Status = runs.Unresolved
			}
		}
	})
}
