// Package oncetest helps test tools: a receiver that counts effects and loses
// answers on request, a guard in memory, and a check that a tool keeps its
// contract. It needs no assertion library and must not be imported by
// production code. Start with [AssertContract].
package oncetest

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/middleware/ledger"
	"github.com/onceward/onceward/middleware/ledger/memledger"
	"github.com/onceward/onceward/middleware/once"
)

// NewGuard returns a guard on a fresh ledger in memory.
func NewGuard(t testing.TB) *once.Guard {
	t.Helper()
	store, err := memledger.New()
	if err != nil {
		t.Fatalf("oncetest: %v", err)
	}
	guard, err := once.New(store, nil)
	if err != nil {
		t.Fatalf("oncetest: %v", err)
	}
	return guard
}

// NewRequest returns a valid request whose run is named after the test.
func NewRequest(t testing.TB) once.Request {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, t.Name())
	const prefix = "run-"
	if most := ledger.MaxRunID - len(prefix); len(name) > most {
		name = name[len(name)-most:] // the end tells subtests apart
	}
	return once.Request{RunID: prefix + name, CallID: "call_1"}
}
