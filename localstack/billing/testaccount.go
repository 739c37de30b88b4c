package billing

import "strings"

// TestAccount says what an account id that contains Word does. See the table
// in the package comment.
type TestAccount struct {
	Word      string    `json:"word"`
	Operation Operation `json:"operation"`
	Fault     Fault     `json:"fault"`
	Always    bool      `json:"always"` // false: only the first request of each key
	Meaning   string    `json:"meaning"`
}

// TestAccounts returns the table of test accounts, as GET /_test-accounts does.
func TestAccounts() []TestAccount {
	return []TestAccount{
		{"lose-answer", OpCredit, FaultLoseAnswer, false, "the credit is stored and the connection closed without an answer"},
		{"drop-request", OpCredit, FaultDropRequest, false, "nothing is stored and the connection closed"},
		{"hang", OpCredit, FaultHangAfter, false, "the credit is stored and no answer comes until the client gives up"},
		{"hang-before", OpCredit, FaultHangBefore, false, "nothing is stored and no answer comes until the client gives up"},
		{"error-500", OpCredit, FaultError500After, false, "the credit is stored and the answer is 500"},
		{"error-500-before", OpCredit, FaultError500Before, false, "nothing is stored and the answer is 500"},
		{"unavailable", OpCredit, FaultUnavailable503, false, "nothing is stored and the answer is 503"},
		{"refuse", OpCredit, FaultRefuse422, true, "nothing is stored and the answer is 422 refused"},
		{"lookup-down", OpLookup, FaultUnavailable503, true, "look-ups answer 503, so nobody can tell whether a credit was stored"},
		{"expired-credentials", OpSession, FaultExpired401, true, "signing in answers 401 credentials_expired"},
	}
}

// testAccountFault returns what the account's own name makes of c; first tells
// whether c is the first request of its key.
func testAccountFault(c call, first bool) Fault {
	best := TestAccount{}
	for _, t := range TestAccounts() {
		if t.Operation == c.op && strings.Contains(c.account, t.Word) && len(t.Word) > len(best.Word) {
			best = t
		}
	}
	if best.Always || first {
		return best.Fault
	}
	return FaultNone
}
