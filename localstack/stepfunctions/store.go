package stepfunctions

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/onceward/onceward/localstack/stepfunctions/journal"
)

// store keeps the Runner's journals: one for its key and machines, and one for
// each execution. With no directory it keeps nothing.
type store struct {
	directory *journal.Directory
	closed    atomic.Bool
	ownStuck  error // the Runner's own journal failed; the Runner's mutex guards it

	// lastRead saves reading a journal once for each page of a history.
	mu       sync.Mutex
	lastRead *story

	// create and append write an entry; tests put a failing disk here.
	create, append func(path string, payload []byte) error
}

func openStore(directory string) (*store, error) {
	s := &store{create: journal.Create, append: journal.Append}
	if directory == "" {
		return s, nil
	}
	var err error
	if s.directory, err = journal.Open(directory); err != nil {
		return nil, fmt.Errorf("stepfunctions: %w", err)
	}
	return s, nil
}

// keeps tells whether there is a directory.
func (s *store) keeps() bool { return s.directory != nil }

// close lets go of the directory; what would be written then is refused.
func (s *store) close() error {
	if s.closed.Swap(true) || !s.keeps() {
		return nil
	}
	return s.directory.Close()
}

// ownFile is the journal of the Runner itself.
func (s *store) ownFile() string { return s.directory.File("runner") }

// executionFile is the journal of an execution; a hash, because a name may
// hold what a file system refuses.
func (s *store) executionFile(arn string) string {
	sum := sha256.Sum256([]byte(arn))
	return s.directory.File("execution-" + hex.EncodeToString(sum[:]))
}

func (s *store) executionFiles() ([]string, error) {
	files, err := s.directory.Files("execution-")
	if err != nil {
		return nil, fmt.Errorf("stepfunctions: %w", err)
	}
	return files, nil
}

// readOwn reads the Runner's own journal, of which there may be none.
func readOwn(path string) ([]ownRecord, error) {
	entries, err := read[ownRecord](path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// write stores an entry; the first one makes the file.
func (s *store) write(path string, first bool, entry any) error {
	if s.closed.Load() {
		return errClosed()
	}
	if !s.keeps() {
		return nil
	}
	payload, err := json.Marshal(entry)
	if err != nil {
		return fmt.Errorf("stepfunctions: %w", err)
	}
	if first {
		return s.create(path, payload)
	}
	return s.append(path, payload)
}

// writeExecution stores records of an execution as one entry: after a death all
// of them are there or none.
func (s *store) writeExecution(arn string, first bool, records []record) error {
	if !s.keeps() {
		return s.write("", first, nil)
	}
	return s.write(s.executionFile(arn), first, records)
}

func (s *store) removeExecution(arn string) error {
	if !s.keeps() {
		return nil
	}
	s.forget()
	return remove(s.executionFile(arn))
}

// readExecution tells the story of an execution that has ended; nobody may
// change it before forget.
func (s *store) readExecution(arn string) (*story, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastRead != nil && s.lastRead.ARN == arn {
		return s.lastRead, nil
	}
	told, err := readStory(s.executionFile(arn))
	if err == nil && told == nil {
		err = fmt.Errorf("stepfunctions: the journal of %s is gone", arn)
	}
	if err != nil {
		return nil, err
	}
	s.lastRead = told
	return told, nil
}

// forget leaves what was read to the caller.
func (s *store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastRead = nil
}

// readStory returns nil if the journal does not hold a beginning.
func readStory(path string) (*story, error) {
	entries, err := read[[]record](path)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	told := &story{}
	for _, records := range entries {
		for _, r := range records {
			if err := r.decode(); err != nil {
				return nil, fmt.Errorf("stepfunctions: %s: %w", path, err)
			}
			told.apply(r)
		}
	}
	return told, nil
}

// read decodes the entries of a journal and cuts off what a death left in part.
func read[E any](path string) ([]E, error) {
	payloads, whole, err := journal.Read(path)
	if err != nil {
		return nil, fmt.Errorf("stepfunctions: %w", err)
	}
	if err := repair(path, whole, len(payloads) == 0); err != nil {
		return nil, err
	}
	entries := make([]E, len(payloads))
	for i, payload := range payloads {
		if err := json.Unmarshal(payload, &entries[i]); err != nil {
			return nil, fmt.Errorf("stepfunctions: entry %d of %s: %w", i+1, path, err)
		}
	}
	return entries, nil
}

func repair(path string, whole int64, empty bool) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("stepfunctions: %w", err)
	case empty:
		// Not even the first entry is whole: what it would have begun never was.
		return remove(path)
	case info.Size() > whole:
		return journal.Repair(path, whole)
	}
	return nil
}

// remove deletes a journal; that it is gone already is no error.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("stepfunctions: %w", err)
	}
	return nil
}
