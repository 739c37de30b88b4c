package history

import (
	"slices"
	"time"
)

// MaxEvents is how many events a history can have, the last one included.
const MaxEvents = 25_000

// Log is the history of one execution; the zero value is an empty one. Its
// owner serialises all use.
type Log struct{ events []Event }

// Len returns the number of events.
func (l *Log) Len() int { return len(l.events) }

// Room tells whether so many more events leave the place of the last one free.
func (l *Log) Room(count int) bool { return len(l.events)+count < MaxEvents }

// Chain as the Previous of an event given to Number means the event before it.
const Chain = -1

// Number gives events the ids that are next and the time, without adding them.
func (l *Log) Number(at time.Time, events ...*Event) {
	id := int64(len(l.events))
	for _, e := range events {
		if e.Previous == Chain {
			e.Previous = id
		}
		id++
		e.ID, e.At = id, at
	}
}

// Add appends an event that Number has numbered.
func (l *Log) Add(e Event) { l.events = append(l.events, e) }

// Page returns up to limit events after the one with id after; in reverse, the
// newest first and after counts downwards, with 0 meaning from the end. It
// also tells whether there are more.
func (l *Log) Page(after int64, limit int, reverse bool) (events []Event, more bool) {
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
