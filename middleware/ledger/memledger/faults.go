package memledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/middleware/ledger"
)

// ErrAnswerLost is what a caller sees when it hears nothing: the step may have
// been stored or not.
var ErrAnswerLost = errors.New("memledger: no answer")

// ErrRefused is an answer which says that nothing was stored.
var ErrRefused = errors.New("memledger: refused, nothing was stored")

// Op is one request to the store.
type Op string

// The requests. Apply, KeepResult, SaveWait and ConfirmWait are durable steps.
const (
	Load        Op = "load"
	Apply       Op = "apply"
	KeepResult  Op = "keep result"
	Result      Op = "result"
	Unsettled   Op = "unsettled"
	Scan        Op = "scan"
	History     Op = "history"
	SaveWait    Op = "save wait"
	ListWaits   Op = "waits"
	ConfirmWait Op = "confirm wait"
)

// Durable reports whether the request stores something.
func (op Op) Durable() bool {
	switch op {
	case Apply, KeepResult, SaveWait, ConfirmWait:
		return true
	case Load, Result, Unsettled, Scan, History, ListWaits:
	}
	return false
}

// Fault makes one request fail, once. Of the four combinations stored and
// answered is no fault; stored and not answered is a lost answer; answered and
// not stored is [ErrRefused]; neither is a lost request. The caller of a lost
// one sees [ErrAnswerLost].
type Fault struct {
	Op      Op
	Event   ledger.Event // of an Apply or KeepResult; "" is any
	Nth     int          // which such request from now, counted from 1; 0 is 1
	Persist bool
	Answer  bool
	Retry   bool // without an answer the client tries again by itself, as SDKs do, and the second try is heard
}

// Step is one request as the store saw it.
type Step struct {
	Op        Op
	Event     ledger.Event // of an Apply or KeepResult
	Key       ledger.Key
	Persisted bool // it reached the store
	Answered  bool // its caller heard what came of it
	Err       error
}

// Moment is a point in the life of a request at which the hook is called.
type Moment struct {
	When string // "before", "between" two tries, or "after"
	Step Step
}

type stepName struct {
	op    Op
	event ledger.Event
}

// Arm adds faults. Several for one request take effect in the order in which
// they were armed.
func (s *Store) Arm(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		f.Nth = max(f.Nth, 1) + s.counts[stepName{f.Op, f.Event}]
		s.faults = append(s.faults, f)
	}
}

// Armed returns how many faults have not met their request yet.
func (s *Store) Armed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.faults)
}

// OnMoment sets the hook, nil for none. It is called without a lock held, so it
// may use the store; what it does then lies before, between or after the tries
// of a request.
func (s *Store) OnMoment(hook func(Moment)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// Log returns all requests so far, in their order.
func (s *Store) Log() []Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// step makes one request: do runs under the lock, once, twice or not at all.
func (s *Store) step(ctx context.Context, st Step, do func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memledger: %s: %w", st.Op, err)
	}
	s.call("before", st)
	fault, faulty := s.fault(st)
	if !faulty {
		fault = Fault{Persist: true, Answer: true}
	}
	err := s.try(st, fault.Persist, fault.Answer, do)
	if !fault.Answer && fault.Retry {
		s.call("between", st)
		err = s.try(st, true, true, do)
	}
	s.call("after", st)
	return err
}

func (s *Store) try(st Step, persist, answer bool, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	switch {
	case persist:
		err = do()
	case answer:
		err = fmt.Errorf("%w: %s", ErrRefused, st.Op)
	}
	if !answer {
		err = fmt.Errorf("%w: %s", ErrAnswerLost, st.Op)
	}
	st.Persisted, st.Answered, st.Err = persist, answer, err
	s.log = append(s.log, st)
	return err
}

// fault counts the request and returns the fault that is armed for it.
func (s *Store) fault(st Step) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := []stepName{{st.Op, ""}}
	if st.Event != "" {
		names = append(names, stepName{st.Op, st.Event})
	}
	for _, name := range names {
		s.counts[name]++
	}
	i := slices.IndexFunc(s.faults, func(f Fault) bool {
		name := stepName{f.Op, f.Event}
		return slices.Contains(names, name) && s.counts[name] == f.Nth
	})
	if i < 0 {
		return Fault{}, false
	}
	f := s.faults[i]
	s.faults = slices.Delete(s.faults, i, i+1)
	return f, true
}

func (s *Store) call(when string, st Step) {
	s.mu.Lock()
	hook := s.hook
	s.mu.Unlock()
	if hook != nil {
		hook(Moment{When: when, Step: st})
	}
}
