package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// ErrNotReady means that a child ended its output, or ended altogether, without
// the line that says it is ready.
var ErrNotReady = errors.New("process: it ended its output without a ready line")

// StartReady starts cmd and waits, for as long as ctx lasts, until the first
// line of its standard output, which must begin with prefix; it returns the rest
// of that line. Later output is discarded. The end of ctx afterwards does not
// stop the child. On an error nothing is left running.
func StartReady(ctx context.Context, cmd *exec.Cmd, prefix string) (*Process, string, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, "", fmt.Errorf("process: %w", err)
	}
	cmd.Stdout = write
	p, err := Start(cmd)
	_ = write.Close() // the child has its own copy; ours would hide its end
	if err != nil {
		_ = read.Close()
		return nil, "", err
	}
	ready := make(chan string, 1)
	go readReady(read, prefix, ready)
	select {
	case said, ok := <-ready:
		if ok {
			return p, said, nil
		}
		err = ErrNotReady
	case <-ctx.Done():
		err = fmt.Errorf("process: waiting for the ready line: %w", context.Cause(ctx))
	}
	p.Kill()
	return nil, "", err
}

// readReady sends what follows prefix in the first line, or closes ready if
// there is no such line, and then drains the rest.
func readReady(r io.ReadCloser, prefix string, ready chan<- string) {
	defer func() { _ = r.Close() }() // only read from
	lines := bufio.NewReader(r)
	line, _ := lines.ReadString('\n')
	if said, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok {
		ready <- said
	} else {
		close(ready)
	}
	_, _ = io.Copy(io.Discard, lines)
}
