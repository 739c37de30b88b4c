package stepfunctions

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/localstack/stepfunctions/interpreter"
)

// tokens holds the task tokens that can still be answered. A token carries a
// keyed hash of itself, so that one which was issued and is closed can be told
// from one that never was, without keeping the closed ones.
type tokens struct {
	key []byte

	mu   sync.Mutex
	open map[string]*waiter
}

// waiter is a task that waits for its token to be answered. The execution's
// mutex guards closed, and with it who comes first.
type waiter struct {
	token   string
	x       *execution
	branch  int64
	closed  bool
	answers chan answer   // holds the one answer
	beats   chan struct{} // holds at most one heartbeat not yet seen
}

// answer is what SendTaskSuccess or SendTaskFailure said.
type answer struct {
	Output  string               `json:"output,omitempty"`  // JSON
	Failure *interpreter.Failure `json:"failure,omitempty"` // nil for success
}

// tokenBytes makes tokens about as long as those of AWS, so that a store which
// has no room for them is found out here.
const tokenBytes = 480

// newTokenKey makes the key of a new Runner.
func newTokenKey() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return key
}

// mint opens a new token for a workflow of the execution.
func (t *tokens) mint(x *execution, branch int64) *waiter {
	id := make([]byte, tokenBytes)
	_, _ = rand.Read(id) // never fails
	return t.restore(x, branch, base64.StdEncoding.EncodeToString(slices.Concat(id, t.hash(id))))
}

// restore opens a token that was minted before.
func (t *tokens) restore(x *execution, branch int64, token string) *waiter {
	w := &waiter{token: token, x: x, branch: branch, answers: make(chan answer, 1), beats: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[token] = w
	return w
}

func (t *tokens) hash(id []byte) []byte {
	mac := hmac.New(sha256.New, t.key)
	mac.Write(id)
	return mac.Sum(nil)
}

// answer gives the task its one answer. A token that was answered, timed out
// or lost its task gets TaskTimedOut, one that was never issued InvalidToken.
func (t *tokens) answer(token string, a answer) error {
	return t.use(token, func(w *waiter) error {
		// Stored now: the answer. If we stop before, the token is still open.
		if err := w.x.store(record{Branch: w.branch, Answer: &a}); err != nil {
			return err
		}
		w.closed = true
		w.answers <- a
		return nil
	})
}

func (t *tokens) heartbeat(token string) error {
	return t.use(token, func(w *waiter) error {
		if err := w.x.store(record{Branch: w.branch, Beat: new(w.x.runner.options.Now())}); err != nil {
			return err
		}
		select {
		case w.beats <- struct{}{}:
		default:
		}
		return nil
	})
}

// use calls do for a token that is open, under the mutex of its execution.
func (t *tokens) use(token string, do func(*waiter) error) error {
	t.mu.Lock()
	w, ok := t.open[token]
	t.mu.Unlock()
	if !ok {
		return t.refuse(token)
	}
	w.x.mu.Lock()
	defer w.x.mu.Unlock()
	if w.closed || w.x.story.status != Running || w.x.story.places.overdue(w.branch, w.x.runner.options.Now()) {
		return t.refuse(token)
	}
	return do(w)
}

func (t *tokens) refuse(token string) error {
	raw, err := base64.StdEncoding.DecodeString(token)
	if err != nil || len(raw) != tokenBytes+sha256.Size || !hmac.Equal(raw[tokenBytes:], t.hash(raw[:tokenBytes])) {
		return apiError(codeInvalidToken, "Invalid Token: 'Invalid token'")
	}
	return apiError(codeTaskTimedOut, "Task Timed Out: 'Provided task does not exist anymore'")
}

// release closes the token of a task that is over. One that only stands still,
// because the Runner closes or the journal failed, stays open for the next
// Runner; until then its answers are refused as not stored.
func (t *tokens) release(w *waiter) {
	if !w.x.standsStill() {
		t.close(w)
	}
}

// close ends the wait. If an answer won the race it is returned.
func (t *tokens) close(w *waiter) (answer, bool) {
	w.x.mu.Lock()
	w.closed = true
	w.x.mu.Unlock()
	t.forget([]string{w.token})
	select {
	case a := <-w.answers:
		return a, true
	default:
		return answer{}, false
	}
}

func (t *tokens) forget(closed []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, token := range closed {
		delete(t.open, token)
	}
}

// closeTokens closes the tokens of an execution that has ended.
func (s standing) closeTokens() []string {
	var closed []string
	for _, p := range s {
		if p.task != nil && p.task.wait != nil {
			p.task.wait.closed = true
			closed = append(closed, p.task.token)
		}
	}
	return closed
}

// overdue tells whether the task of a workflow should have ended by now: it may
// not have been told yet, least of all while the Runner was down.
func (s standing) overdue(branch int64, now time.Time) bool {
	timeout, heartbeat := s[branch].task.deadlines()
	return !timeout.IsZero() && !now.Before(timeout) || !heartbeat.IsZero() && !now.Before(heartbeat)
}

// deadlines are when the task times out and when it misses its heartbeat; zero
// means never.
func (t *taskPlace) deadlines() (timeout, heartbeat time.Time) {
	if seconds := t.scheduled.TimeoutInSeconds; seconds > 0 {
		timeout = t.since.Add(time.Duration(seconds) * time.Second)
	}
	if seconds := t.scheduled.HeartbeatInSeconds; seconds > 0 {
		heartbeat = t.beat.Add(time.Duration(seconds) * time.Second)
	}
	return timeout, heartbeat
}
