// Package doorbell says how a parked run is woken: by answering its task token.
// What is sent says nothing, and what comes back proves nothing of a call: the
// ledger decides, the token only rings. Start with [Doorbell];
// doorbell/sfnbell rings through Step Functions.
package doorbell

import (
	"context"
	"errors"

	"github.com/onceward/onceward/middleware/ledger"
)

// Doorbell answers a parked run's task token, so that the run goes on and asks
// the ledger. It must be safe for concurrent use.
type Doorbell interface {
	// Ring returns nil when the run was woken and [GoneError] when nobody waits
	// on the token any more. [ErrRefused] means that the bell surely did not
	// ring. After any other error it is not known. After both ring again: Ring
	// itself tries once. No error holds the token.
	Ring(ctx context.Context, token ledger.Secret) error
}

// What a wait is confirmed with when its run was woken.
const (
	Rung       = "rung"
	AnswerLost = "rung, answer lost" // the next ring found that nobody waits any more
)

// ErrRefused reports that the service refused to ring, as when it throttles.
var ErrRefused = errors.New("doorbell: refused")

// GoneError reports that nobody waits on a token any more. How is the word that
// the wait is confirmed with, such as "TaskTimedOut".
type GoneError struct{ How string }

// Error implements error.
func (e *GoneError) Error() string { return "doorbell: no longer waiting: " + e.How }
