package lambda_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/onceward/onceward/localstack/lambda"
)

func TestLogTailIsTheLastFourKilobytesOfTheInvocationItself(t *testing.T) {
	t.Parallel()
	var all bytes.Buffer
	s := start(t, lambda.Options{Logs: &all})
	invoke(t, s, order{Do: "print", Text: "of the first call\n"})
	text := strings.Repeat("abcdefg\n", 5000) + "bell \x00 and the end without a newline"
	r := invoke(t, s, order{Do: "print", Text: text})
	log := string(r.LogTail)
	if len(log) != 4096 {
		t.Errorf("%d bytes", len(log))
	}
	lines := strings.Split(strings.TrimSuffix(log, "\n"), "\n")
	if n := len(lines); !strings.HasPrefix(lines[n-1], "REPORT RequestId: "+r.RequestID) || lines[n-2] != "END RequestId: "+r.RequestID ||
		lines[n-3] != "bell   and the end without a newline" || lines[n-4] != "abcdefg" {
		t.Errorf("tail:\n%s", log)
	}
	short := invoke(t, s, order{Do: "print", Text: "short\n"})
	want := "START RequestId: " + short.RequestID + " Version: $LATEST\nshort\nEND RequestId: " + short.RequestID + "\nREPORT "
	if !strings.HasPrefix(string(short.LogTail), want) {
		t.Errorf("log:\n%s", short.LogTail)
	}
	s.Close()
	if n := strings.Count(all.String(), "f | abcdefg\n"); n != 5000 {
		t.Errorf("the writer got %d of 5000 lines", n)
	}
}

func TestKeptLogIsBounded(t *testing.T) {
	t.Parallel()
	s := start(t, lambda.Options{LogBytes: 1000})
	r := invoke(t, s, order{Do: "print", Text: strings.Repeat("0123456789\n", 500)})
	total := 0
	lines := s.Logs("f")
	for _, line := range lines {
		total += len(line.Text) + 1
		if line.RequestID != r.RequestID {
			t.Errorf("line %q of request %q", line.Text, line.RequestID)
		}
	}
	if total > 1000 || total < 900 || !strings.HasPrefix(lines[len(lines)-1].Text, "REPORT") {
		t.Errorf("%d bytes kept, last %q", total, lines[len(lines)-1].Text)
	}
}
