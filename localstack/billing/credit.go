package billing

import (
	"fmt"
	"regexp"
)

// MaxAmountCents is the largest credit that is accepted; more is answered 422.
const MaxAmountCents = 100_000_000

// Credit is one effect: money that was given. Key is empty when the request
// came without an Idempotency-Key.
type Credit struct {
	CreditID    string `json:"credit_id"`
	AccountID   string `json:"account_id"`
	AmountCents int64  `json:"amount_cents"`
	Key         string `json:"key"`
}

// Void is one undoing of a credit. The service does not limit a credit to one
// void: a second one without the first one's key is a second effect.
type Void struct {
	VoidID    string `json:"void_id"`
	CreditID  string `json:"credit_id"`
	AccountID string `json:"account_id"`
	Key       string `json:"key"`
}

// Closure is an account's end. Closing a closed account again changes nothing but
// the key that it was last closed under.
type Closure struct {
	AccountID string `json:"account_id"`
	Closed    bool   `json:"closed"`
	Key       string `json:"key"`
}

// CreditRequest asks for a credit.
type CreditRequest struct {
	AccountID   string `json:"account_id"`
	AmountCents int64  `json:"amount_cents"`
}

var (
	idPattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	keyPattern = regexp.MustCompile(`^[\x21-\x7e]{1,255}$`)
)

func checkID(name, id string) error {
	if !idPattern.MatchString(id) {
		return badRequest(name + " must be 1 to 64 of A-Z, a-z, 0-9, '.', '_', '-' and start with a letter or digit")
	}
	return nil
}

func checkKey(key string) error {
	if !keyPattern.MatchString(key) {
		return badRequest("the idempotency key must be 1 to 255 visible ASCII characters")
	}
	return nil
}

// checkAmount is part of the effect, not of parsing: a refused amount is a request that arrived.
func (c CreditRequest) checkAmount() error {
	if c.AmountCents <= 0 || c.AmountCents > MaxAmountCents {
		return refusal(CodeAmountInvalid, fmt.Sprintf("amount_cents must be 1 to %d", MaxAmountCents))
	}
	return nil
}
