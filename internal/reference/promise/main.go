// Command promise writes docs/promise.md: what the product must hold, each line
// with the tests that prove it, read from the comments "// Proves: R22, R23" on
// the tests themselves. It is run by go generate; a line without a test is
// listed as open.
package main

import (
	"bufio"
	_ "embed"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:generate go run . -root ../../.. -o ../../../docs/promise.md

//go:embed requirements.txt
var requirements string

func main() {
	root := flag.String("root", ".", "the repository")
	out := flag.String("o", "promise.md", "the file to write")
	flag.Parse()
	text, err := page(os.DirFS(*root))
	if err == nil {
		err = os.WriteFile(*out, []byte(text), 0o600)
	}
	if err != nil {
		log.Fatal(err)
	}
}

var (
	tag  = regexp.MustCompile(`^// Proves: (R\d+(?:, R\d+)*)$`)
	fun  = regexp.MustCompile(`^func ((?:Test|Example|Fuzz|Benchmark)\w*)\(`)
	line = regexp.MustCompile(`^(R\d+) (.+)$`)
)

func page(root fs.FS) (string, error) {
	proofs, err := collect(root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# What is promised, and what proves it\n\n")
	b.WriteString("Generated from the tests' own tags by `make generate`; do not edit. A line without a test is open: it is planned, and not promised yet.\n")
	open := 0
	for text := range strings.Lines(requirements) {
		text = strings.TrimSpace(text)
		if title, ok := strings.CutPrefix(text, "# "); ok {
			fmt.Fprintf(&b, "\n## %s\n\n| | what must hold | proved by |\n| --- | --- | --- |\n", title)
			continue
		}
		m := line.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		by := proofs[m[1]]
		delete(proofs, m[1])
		if len(by) == 0 {
			open++
			by = []string{"open"}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m[1], m[2], strings.Join(by, ", "))
	}
	for id, by := range proofs {
		return "", fmt.Errorf("promise: %s is proved by %s and is no requirement", id, by[0])
	}
	fmt.Fprintf(&b, "\n%d lines are open.\n", open)
	return b.String(), nil
}

func collect(root fs.FS) (map[string][]string, error) {
	proofs := map[string][]string{}
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		return scan(root, path, proofs)
	})
	for id := range proofs {
		slices.Sort(proofs[id])
	}
	return proofs, err
}

func scan(root fs.FS, path string, proofs map[string][]string) error {
	f, err := root.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var ids []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		text := lines.Text()
		if m := tag.FindStringSubmatch(text); m != nil {
			ids = append(ids, strings.Split(m[1], ", ")...)
			continue
		}
		if strings.HasPrefix(text, "// Proves:") {
			return fmt.Errorf("promise: %s: can't read %q", path, text)
		}
		if strings.HasPrefix(text, "//") {
			continue
		}
		if m := fun.FindStringSubmatch(text); m != nil {
			for _, id := range ids {
				proofs[id] = append(proofs[id], fmt.Sprintf("[%s](../%s)", m[1], filepath.ToSlash(path)))
			}
			ids = nil
			continue
		}
		if len(ids) > 0 {
			return fmt.Errorf("promise: %s: a tag that stands on no test", path)
		}
	}
	return lines.Err()
}
