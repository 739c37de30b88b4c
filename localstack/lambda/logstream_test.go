package lambda

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestLinesComeOutWholeHoweverTheyAreReadAndMarked writes a process's output
// through the real pipe in pieces of any size, with marks between any two.
func TestLinesComeOutWholeHoweverTheyAreReadAndMarked(t *testing.T) {
	t.Parallel()
	piece := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"a", "bc", "\n", "\r\n", "\x00", "", strings.Repeat("long ", 9000)}).Draw(t, "piece")
	})
	rapid.Check(t, func(t *rapid.T) {
		log := newFunctionLog("f", 1<<30, newLineSink(nil))
		stream, write, err := newLogStream(&sandboxLog{log: log})
		if err != nil {
			t.Fatal(err)
		}
		var written bytes.Buffer // with a newline where a mark cuts a line
		for range rapid.IntRange(0, 30).Draw(t, "pieces") {
			p := piece.Draw(t, "written")
			if _, err := write.WriteString(p); err != nil {
				t.Fatal(err)
			}
			written.WriteString(strings.ReplaceAll(p, "\x00", " "))
			if !rapid.Bool().Draw(t, "mark") {
				continue
			}
			stream.sync()
			if written.Len() > 0 && !bytes.HasSuffix(written.Bytes(), []byte("\n")) {
				written.WriteByte('\n')
			}
			if got, want := textsOf(log), splitLines(written.String()); !cmp.Equal(got, want) {
				t.Fatalf("after a mark:\n%s", cmp.Diff(want, got))
			}
		}
		stream.close()
		if got, want := textsOf(log), splitLines(written.String()); !cmp.Equal(got, want) {
			t.Fatalf("at the end:\n%s", cmp.Diff(want, got))
		}
	})
}

func textsOf(log *functionLog) []string {
	texts := []string{}
	for _, line := range log.lines() {
		texts = append(texts, line.Text)
	}
	return texts
}

func splitLines(text string) []string {
	lines := []string{}
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"))
	}
	return lines
}
