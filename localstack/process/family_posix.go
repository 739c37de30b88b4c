//go:build unix && !linux

package process

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// processes asks ps.
func processes() ([]Member, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ps", "-A", "-o", "pid=,ppid=,stat=,lstart=").Output()
	if err != nil {
		return nil, err
	}
	var all []Member
	for line := range bytes.Lines(out) {
		fields := strings.Fields(string(line))
		if len(fields) < 4 {
			continue
		}
		pid, pidErr := strconv.Atoi(fields[0])
		parent, parentErr := strconv.Atoi(fields[1])
		if pidErr != nil || parentErr != nil {
			return nil, fmt.Errorf("unreadable line of ps: %q", line)
		}
		all = append(all, Member{PID: pid, parent: parent, started: strings.Join(fields[3:], " "), dead: strings.HasPrefix(fields[2], "Z")})
	}
	return all, nil
}
