// Package journal keeps what must outlive the process in append-only files: a
// line that names the format, then entries, each with its length and checksums.
// An entry is in the file when Append returns, and survives the death of the
// process by any signal; nothing is forced to the disk, so the machine's own
// crash may cost the newest entries. [Read] forgives an entry cut off at the end,
// and refuses everything else that it does not understand. Start with [Open].
package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
)

var (
	// ErrVersion means that another version of this program wrote the file.
	ErrVersion = errors.New("journal: unknown format")
	// ErrCorrupt means that the file was changed by somebody else or by the disk.
	ErrCorrupt = errors.New("journal: corrupt")
)

const (
	magic  = "onceward journal "
	format = magic + "1\n"
	// header is an entry's length, the checksum of that, and the one of its payload.
	header = 12
	// ownerOnly is because entries hold task tokens, which are credentials.
	ownerOnly = 0o600
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Create makes a file with its first entry. It fails if there is one; any other
// error leaves none.
func Create(path string, payload []byte) error {
	err := write(path, os.O_CREATE|os.O_EXCL, append([]byte(format), entry(payload)...))
	if err != nil && !errors.Is(err, os.ErrExist) {
		_ = os.Remove(path) // what is left would be cut off by who reads it
	}
	return err
}

// Append adds an entry to a file that Create made. One caller at a time may
// append to a file, and none after an error: an entry may then stand in it in
// part or as a whole, and Read decides which.
func Append(path string, payload []byte) error {
	return write(path, os.O_APPEND, entry(payload))
}

// write opens the file anew each time: that costs microseconds, and thousands
// of executions can wait without holding one open each.
func write(path string, flag int, data []byte) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|flag, ownerOnly)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer func() {
		if closed := file.Close(); err == nil && closed != nil {
			err = fmt.Errorf("journal: %w", closed)
		}
	}()
	if _, err := file.Write(data); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

func entry(payload []byte) []byte {
	out := make([]byte, header, header+len(payload))
	binary.BigEndian.PutUint32(out, uint32(len(payload))) //nolint:gosec // an entry is at most a few megabytes
	binary.BigEndian.PutUint32(out[4:], crc32.Checksum(out[:4], table))
	binary.BigEndian.PutUint32(out[8:], crc32.Checksum(payload, table))
	return append(out, payload...)
}

// Read returns the entries of a file, and whole: how many bytes of the file
// they take. What is behind is the beginning of an entry that nobody finished
// writing. Errors are ErrVersion, ErrCorrupt or the file system's.
func Read(path string) (payloads [][]byte, whole int64, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, fmt.Errorf("journal: %w", err)
	}
	if len(data) < len(format) && strings.HasPrefix(format, string(data)) {
		return nil, 0, nil
	}
	rest, ok := strings.CutPrefix(string(data), format)
	switch {
	case !ok && strings.HasPrefix(string(data), magic):
		return nil, 0, fmt.Errorf("%w: %s", ErrVersion, path)
	case !ok:
		return nil, 0, fmt.Errorf("%w: %s is not a journal", ErrCorrupt, path)
	}
	whole = int64(len(format))
	for body := []byte(rest); len(body) >= header; {
		size := int(binary.BigEndian.Uint32(body))
		if crc32.Checksum(body[:4], table) != binary.BigEndian.Uint32(body[4:]) {
			return nil, 0, fmt.Errorf("%w: %s at byte %d", ErrCorrupt, path, whole)
		}
		if len(body) < header+size {
			break
		}
		payload := body[header : header+size]
		if crc32.Checksum(payload, table) != binary.BigEndian.Uint32(body[8:]) {
			return nil, 0, fmt.Errorf("%w: %s at byte %d", ErrCorrupt, path, whole)
		}
		payloads, body, whole = append(payloads, payload), body[header+size:], whole+int64(header+size)
	}
	return payloads, whole, nil
}

// Repair cuts off what Read found unfinished, so that appending may go on.
func Repair(path string, whole int64) error {
	if err := os.Truncate(path, whole); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}
