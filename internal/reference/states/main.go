// Command states writes docs/reference/states.md from the ledger's table: the
// diagram of the statuses, and every move with its proof and its reason. It is
// run by go generate; nothing on that page is written by hand.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/middleware/ledger"
)

func main() {
	out := flag.String("o", "states.md", "the file to write")
	flag.Parse()
	if err := os.WriteFile(*out, []byte(page()), 0o600); err != nil {
		log.Fatal(err)
	}
}

func page() string {
	var b strings.Builder
	b.WriteString("# The states of a call\n\n")
	b.WriteString("Generated from `middleware/ledger/table.go` by `make generate`; do not edit.\n\n")
	b.WriteString("A call's record has a status and flags that refine it. Whatever is not a row below is refused by name.\n\n")
	b.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, edge := range edges() {
		fmt.Fprintf(&b, "    %s\n", edge)
	}
	b.WriteString("```\n\n## What a status says\n\n| status | effect | what an orchestrator does next |\n| --- | --- | --- |\n")
	for _, status := range ledger.Statuses() {
		r := ledger.Record{Status: status}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", status, r.Effect(), r.Next(time.Time{}, false, ledger.Pause))
	}
	b.WriteString("\nA failed call is final unless it is `retryable`; one with an unused grant is asked again. A contradiction makes the effect unknown until somebody has looked.\n\n")
	b.WriteString("## Moves\n\n| move | from | event | to | proof in the same write | only if | why |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, row := range ledger.Table() {
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s | %s | %s | %s |\n", row.Name, from(row), row.Event, to(row), row.Proof, guards(row), row.Why)
	}
	return b.String()
}

func edges() []string {
	labels := map[[2]string][]string{}
	for _, row := range ledger.Table() {
		for _, f := range row.From {
			t := row.To
			if row.Same {
				t = f
			}
			if row.Event == ledger.Note || row.Same && row.Event == ledger.LateComplete {
				continue // they would draw a loop on every status
			}
			key := [2]string{node(f), node(t)}
			labels[key] = append(labels[key], row.Name)
		}
	}
	var lines []string
	for key, names := range labels {
		lines = append(lines, fmt.Sprintf("%s --> %s: %s", key[0], key[1], strings.Join(names, ", ")))
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(order(a), order(b)) })
	return lines
}

// order puts edges in the order of a call's life, whatever the map's order.
func order(edge string) string {
	for i, status := range append([]ledger.Status{ledger.None}, ledger.Statuses()...) {
		if strings.HasPrefix(edge, node(status)+" ") {
			return fmt.Sprintf("%d %s", i, edge)
		}
	}
	return edge
}

func node(s ledger.Status) string {
	if s == ledger.None {
		return "[*]"
	}
	return s.String()
}

func from(row ledger.Row) string {
	var words []string
	for _, s := range row.From {
		words = append(words, s.String())
	}
	text := strings.Join(words, " / ")
	if len(row.From) > 4 {
		text = "any of " + text
	}
	if row.With != 0 {
		text += ", with " + row.With.String()
	}
	if row.Without != 0 {
		text += ", without " + row.Without.String()
	}
	return text
}

func to(row ledger.Row) string {
	text := "the same"
	if !row.Same {
		text = ledger.State{Status: row.To, Flags: row.Set}.String()
	} else if row.Set != 0 {
		text += ", " + row.Set.String()
	}
	if row.Clear != 0 {
		text += "; no longer " + row.Clear.String()
	}
	return text
}

func guards(row ledger.Row) string {
	var words []string
	for _, g := range row.Guards {
		words = append(words, string(g))
	}
	return strings.Join(words, "; ")
}
