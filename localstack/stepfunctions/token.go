package stepfunctions

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"sync"

	"github.com/onceward/onceward/localstack/stepfunctions/interpreter"
)

// tokens holds the task tokens that can still be answered. A token carries a
// keyed hash of itself, so that one which was issued and is closed can be told
// from one that never was, without keeping the closed ones.
type tokens struct {
	key [sha256.Size]byte

	mu   sync.Mutex
	open map[string]*waiter
}

// waiter is a task that waits for its token to be answered.
type waiter struct {
	token     string
	execution string
	answers   chan answer   // holds the one answer
	beats     chan struct{} // holds at most one heartbeat not yet seen
}

// answer is what SendTaskSuccess or SendTaskFailure said.
type answer struct {
	output  any
	failure *interpreter.Failure // nil for success
}

// tokenBytes makes tokens about as long as those of AWS, so that a store which
// has no room for them is found out here.
const tokenBytes = 480

func newTokens() *tokens {
	t := &tokens{open: map[string]*waiter{}}
	_, _ = rand.Read(t.key[:]) // never fails
	return t
}

// mint opens a new token for a task of the execution.
func (t *tokens) mint(execution string) *waiter {
	id := make([]byte, tokenBytes)
	_, _ = rand.Read(id) // never fails
	w := &waiter{
		token:     base64.StdEncoding.EncodeToString(slices.Concat(id, t.hash(id))),
		execution: execution, answers: make(chan answer, 1), beats: make(chan struct{}, 1),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[w.token] = w
	return w
}

func (t *tokens) hash(id []byte) []byte {
	mac := hmac.New(sha256.New, t.key[:])
	mac.Write(id)
	return mac.Sum(nil)
}

// answer gives the task its one answer. A token that was answered, timed out
// or lost its task gets TaskTimedOut, one that was never issued InvalidToken.
func (t *tokens) answer(token string, a answer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok := t.open[token]
	if !ok {
		return t.refuse(token)
	}
	delete(t.open, token)
	w.answers <- a
	return nil
}

func (t *tokens) heartbeat(token string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok := t.open[token]
	if !ok {
		return t.refuse(token)
	}
	select {
	case w.beats <- struct{}{}:
	default:
	}
	return nil
}

func (t *tokens) refuse(token string) error {
	raw, err := base64.StdEncoding.DecodeString(token)
	if err != nil || len(raw) != tokenBytes+sha256.Size || !hmac.Equal(raw[tokenBytes:], t.hash(raw[:tokenBytes])) {
		return apiError(codeInvalidToken, "Invalid Token: 'Invalid token'")
	}
	return apiError(codeTaskTimedOut, "Task Timed Out: 'Provided task does not exist anymore'")
}

// close ends the wait. If an answer won the race it is returned.
func (t *tokens) close(w *waiter) (answer, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, w.token)
	select {
	case a := <-w.answers:
		return a, true
	default:
		return answer{}, false
	}
}

// closeExecution kills all tokens of an execution that has ended.
func (t *tokens) closeExecution(execution string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for token, w := range t.open {
		if w.execution == execution {
			delete(t.open, token)
		}
	}
}
