// Command referencepage writes the reference page of agent-run, made from the
// embedded definition and the rules over it, to the file that its one argument
// names. `go generate ./statemachines` runs it; a test fails when the page in
// docs/reference differs from what it would write.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/onceward/onceward/statemachines"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: referencepage <file>")
	}
	if err := write(os.Args[1]); err != nil {
		log.Fatal("referencepage: ", err)
	}
}

func write(file string) error {
	page, err := statemachines.ReferencePage()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // the path is the developer's own argument
		return err
	}
	return os.WriteFile(file, page, 0o644) //nolint:gosec // the path is the developer's own argument
}
