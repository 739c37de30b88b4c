package history

import (
	"slices"
	"sync"
	"time"
)

// MaxEvents is how many events a history can have, the last one included.
const MaxEvents = 25_000

// Log is the history of one execution. It is safe for concurrent use.
type Log struct {
	now func() time.Time

	mu     sync.Mutex
	events []Event
	sealed bool
	full   bool
}

// NewLog returns an empty log that takes the time of its events from now.
func NewLog(now func() time.Time) *Log { return &Log{now: now} }

// Append adds an event and returns its id. It reports false, and adds nothing,
// when the log is sealed or only the place for the last event is left.
func (l *Log) Append(previous int64, kind Type, details Details) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed {
		return 0, false
	}
	if len(l.events) >= MaxEvents-1 {
		l.full = true
		return 0, false
	}
	return l.add(previous, kind, details), true
}

// Seal adds the event that ends the execution. Only the first call does.
func (l *Log) Seal(previous int64, kind Type, details Details) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed {
		return false
	}
	l.sealed = true
	l.add(previous, kind, details)
	return true
}

func (l *Log) add(previous int64, kind Type, details Details) int64 {
	id := int64(len(l.events)) + 1
	l.events = append(l.events, Event{ID: id, Previous: previous, At: l.now(), Type: kind, Details: details})
	return id
}

// Full tells whether an event found no place any more.
func (l *Log) Full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full
}

// Page returns up to limit events after the one with id after; in reverse, the
// newest first and after counts downwards, with 0 meaning from the end. It
// also tells whether there are more.
func (l *Log) Page(after int64, limit int, reverse bool) (events []Event, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !reverse {
		rest := l.events[min(int(after), len(l.events)):]
		more = len(rest) > limit
		return slices.Clone(rest[:min(limit, len(rest))]), more
	}
	end := len(l.events)
	if after > 0 {
		end = min(int(after)-1, end)
	}
	start := max(end-limit, 0)
	events = slices.Clone(l.events[start:end])
	slices.Reverse(events)
	return events, start > 0
}
