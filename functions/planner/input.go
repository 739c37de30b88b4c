package main

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/onceward/onceward/internal/runs"
)

// lastInput remembers how the last input was read: the plans of a run all bring
// the same, and one with a long script takes its time. A nil one remembers nothing.
type lastInput struct {
	mu  sync.Mutex
	raw json.RawMessage
	in  runs.Input
}

// parse is [runs.ParseInput]. Nobody may change what it returns.
func (l *lastInput) parse(raw json.RawMessage) (runs.Input, error) {
	if l == nil {
		return runs.ParseInput(raw)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.raw != nil && bytes.Equal(l.raw, raw) {
		return l.in, nil
	}
	in, err := runs.ParseInput(raw)
	if err == nil {
		l.raw, l.in = bytes.Clone(raw), in
	}
	return in, err
}
