package lambda

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"sync"
)

// maxLine is the longest line kept whole, as on AWS.
const maxLine = 256 << 10

// logStream reads what the process of a sandbox writes to stdout and stderr.
//
// The answer of an invocation must carry the log lines that were written
// before it, yet they travel through a pipe beside it. So this end holds the
// pipe's writing side too: a mark written after the answer comes out behind
// everything that the process wrote before.
type logStream struct {
	log  *sandboxLog
	read *os.File
	mark []byte

	writeMu sync.Mutex
	write   *os.File
	marked  chan struct{}
	ended   chan struct{}
}

// newLogStream opens the pipe; the file is for the process to write to.
func newLogStream(log *sandboxLog) (*logStream, *os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	s := &logStream{
		log: log, read: read, write: write,
		// No process can guess it, so none can forge it.
		mark:   []byte("\x00" + rand.Text() + "\x00"),
		marked: make(chan struct{}), ended: make(chan struct{}),
	}
	go s.run()
	return s, write, nil
}

// sync returns when everything that the process wrote so far has been read.
func (s *logStream) sync() {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.write == nil {
		return
	}
	if _, err := s.write.Write(s.mark); err != nil {
		return
	}
	<-s.marked
}

// close reads the rest and frees the pipe, whoever else still holds it.
func (s *logStream) close() {
	s.sync()
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.write == nil {
		return
	}
	_ = s.write.Close()
	_ = s.read.Close()
	s.write = nil
	<-s.ended
}

func (s *logStream) run() {
	defer close(s.ended)
	var pending []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := s.read.Read(buf)
		pending = s.consume(append(pending, buf[:n]...))
		if err != nil {
			if len(pending) > 0 && errors.Is(err, io.EOF) {
				s.log.line(string(pending))
			}
			return
		}
	}
}

// consume takes the whole lines and marks out of what was read and returns the
// rest. A line cut off by a mark stays one line.
func (s *logStream) consume(data []byte) []byte {
	for {
		at := bytes.IndexAny(data, "\n\x00")
		switch {
		case at < 0 && len(data) < maxLine:
			return data
		case at < 0:
			s.log.line(string(data))
			return nil
		case data[at] == '\n':
			s.log.line(string(bytes.TrimSuffix(data[:at], []byte("\r"))))
			data = data[at+1:]
		case bytes.HasPrefix(data[at:], s.mark):
			if at > 0 {
				s.log.line(string(data[:at]))
			}
			data = data[at+len(s.mark):]
			s.marked <- struct{}{}
		case bytes.HasPrefix(s.mark, data[at:]):
			return data // perhaps the start of a mark
		default:
			data[at] = ' ' // a NUL of the process's own
		}
	}
}
