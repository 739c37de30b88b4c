package lambda

import (
	"io"
	"sync"
	"time"
)

// LogLine is one line that a function or its sandbox wrote.
type LogLine struct {
	// Time is when the line was read.
	Time time.Time
	// RequestID is the invocation under way, empty between invocations.
	RequestID string
	// Text is the line without its end.
	Text string
}

// lineSink writes the lines of all functions to one writer, one at a time.
type lineSink struct {
	mu sync.Mutex
	w  io.Writer
}

func newLineSink(w io.Writer) *lineSink {
	if w == nil {
		w = io.Discard
	}
	return &lineSink{w: w}
}

func (s *lineSink) write(function, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A reader of logs that fails must not fail the function.
	_, _ = io.WriteString(s.w, function+" | "+text+"\n")
}

// functionLog keeps the last lines of one function.
type functionLog struct {
	name string
	max  int
	sink *lineSink

	mu    sync.Mutex
	kept  []LogLine
	bytes int
}

func newFunctionLog(name string, maxBytes int, sink *lineSink) *functionLog {
	return &functionLog{name: name, max: maxBytes, sink: sink}
}

func (l *functionLog) add(line LogLine) {
	l.mu.Lock()
	l.kept = append(l.kept, line)
	l.bytes += len(line.Text) + 1
	for l.bytes > l.max && len(l.kept) > 1 {
		l.bytes -= len(l.kept[0].Text) + 1
		l.kept = l.kept[1:]
	}
	l.mu.Unlock()
	l.sink.write(l.name, line.Text)
}

func (l *functionLog) lines() []LogLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]LogLine{}, l.kept...)
}

// maxTail is how much of an invocation's log is returned to its caller.
const maxTail = 4 << 10

// tail keeps the last bytes of one invocation's log.
type tail []byte

func (t *tail) add(text string) {
	*t = append(append(*t, text...), '\n')
	if extra := len(*t) - maxTail; extra > 0 {
		*t = append((*t)[:0], (*t)[extra:]...)
	}
}

// sandboxLog attributes what one sandbox writes to its invocations.
type sandboxLog struct {
	log *functionLog

	mu        sync.Mutex
	requestID string
	tail      tail
}

// begin attributes the lines that follow to an invocation.
func (s *sandboxLog) begin(requestID string) {
	s.mu.Lock()
	s.requestID, s.tail = requestID, nil
	s.mu.Unlock()
	s.line(startLine(requestID))
}

// end stops that and returns the last lines of the invocation.
func (s *sandboxLog) end() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.tail
	s.requestID, s.tail = "", nil
	return kept
}

func (s *sandboxLog) line(text string) {
	s.mu.Lock()
	id := s.requestID
	if id != "" {
		s.tail.add(text)
	}
	s.mu.Unlock()
	s.log.add(LogLine{Time: time.Now(), RequestID: id, Text: text})
}
