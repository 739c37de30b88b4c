package once

import (
	"strings"

	"github.com/onceward/onceward/middleware/ledger"
)

// NotAttempted marks err as "nothing was sent": the call failed and may run
// again if somebody grants it. The text of err is stored and told. Returns nil
// if err is nil.
func NotAttempted(err error) error {
	return mark(err, ledger.Settlement{Effect: ledger.NoEffect, Retryable: true, Code: codeNotAttempted}, nil)
}

// Rejected marks err as "the receiver said no, definitely": the call failed for
// good. The text of err is stored and told. Returns nil if err is nil.
func Rejected(err error) error {
	return mark(err, ledger.Settlement{Effect: ledger.NoEffect, Code: codeRejected}, nil)
}

// Landed marks err as "it took effect, then something went wrong": the call
// completed without a result. Returns nil if err is nil.
func Landed(externalID string, err error) error {
	return mark(err, ledger.Settlement{Effect: ledger.Happened, ExternalID: externalID, NotKept: true}, nil)
}

type markedError struct {
	error
	what ledger.Settlement
	by   *attempt // set by Transport, whose word covers one request only
}

func (m markedError) Unwrap() error { return m.error }

func mark(err error, what ledger.Settlement, by *attempt) error {
	if err == nil {
		return nil
	}
	return markedError{error: err, what: what, by: by}
}

// settlementOf reads the outermost mark of what attempt a ended with. A joined error is only as certain as
// its least certain part, so that one lost answer beside a refusal stays
// unknown. Only the text of what was marked is kept: the rest may hold secrets.
//
//nolint:errorlint // the tree of wrapped errors is walked here, as errors.As can't
func settlementOf(err error, a *attempt) ledger.Settlement {
	switch e := err.(type) {
	case markedError:
		if e.by != nil && (e.by != a || a.writes.Load() > 0) {
			return unknown() // another write of the attempt may have left
		}
		e.what.Message = e.Error()
		return e.what
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return settlementOf(inner, a)
		}
	case interface{ Unwrap() []error }:
		return joined(e.Unwrap(), a)
	}
	return unknown()
}

func unknown() ledger.Settlement {
	return ledger.Settlement{Code: codeUnknown, Message: sentences[codeUnknown]}
}

func joined(errs []error, a *attempt) ledger.Settlement {
	if len(errs) == 0 {
		return unknown()
	}
	all := settlementOf(errs[0], a)
	words := []string{all.Message}
	for _, err := range errs[1:] {
		s := settlementOf(err, a)
		if s.Effect != all.Effect || s.Effect == ledger.Unknown {
			return unknown() // also happened beside a definite no: somebody has to look
		}
		if all.Retryable && !s.Retryable {
			all.Retryable, all.Code = false, s.Code // one request was refused for good
		}
		if all.ExternalID == "" {
			all.ExternalID = s.ExternalID
		}
		words = append(words, s.Message)
	}
	all.Message = strings.Join(words, "; ")
	return all
}
