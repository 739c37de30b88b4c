package main

import (
	"os"
	"testing"
)

func TestStatesPageIsWhatTheTableSays(t *testing.T) {
	stored, err := os.ReadFile("../../../docs/reference/states.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(stored) != page() {
		t.Error("docs/reference/states.md differs from the table: run make generate")
	}
}
