package process

import (
	"fmt"
	"slices"
	"time"
)

// Member is one process of a family. Its id alone may mean another process once
// it has ended; a Member does not.
type Member struct {
	PID     int
	parent  int
	started string // in the system's own words
	dead    bool   // it has ended, and its parent has not noticed yet
}

// Family returns the process pid and its descendants, the eldest first. A
// process whose parent ended before is no longer known to belong to it. Where
// the system does not tell it returns [errors.ErrUnsupported].
func Family(pid int) ([]Member, error) {
	all, err := processes()
	if err != nil {
		return nil, fmt.Errorf("process: listing processes: %w", err)
	}
	known := map[int]bool{pid: true}
	var family []Member
	for grown := true; grown; {
		grown = false
		for i, m := range all {
			if m.PID != 0 && !m.dead && (known[m.parent] || m.PID == pid) {
				known[m.PID], grown = true, true
				family = append(family, m)
				all[i].PID = 0 // counted
			}
		}
	}
	return family, nil
}

// Alive returns those that still run.
func Alive(family []Member) ([]Member, error) {
	all, err := processes()
	if err != nil {
		return nil, fmt.Errorf("process: listing processes: %w", err)
	}
	var alive []Member
	for _, m := range family {
		if slices.ContainsFunc(all, func(now Member) bool { return now.PID == m.PID && now.started == m.started && !now.dead }) {
			alive = append(alive, m)
		}
	}
	return alive, nil
}

// KillFamily ends the child and all its descendants by SIGKILL and waits until
// they are gone, at most for the time given. The child is held first, so that it
// neither starts another process nor sees one die. The error says what lives on.
// Of a child that has ended the descendants are no longer known.
func (p *Process) KillFamily(within time.Duration) error {
	if !p.running() {
		return nil // and its id may be another's by now
	}
	hold(p.PID())
	family, err := Family(p.PID())
	for _, m := range family {
		kill(m.PID)
	}
	p.Kill()
	if err != nil {
		return err
	}
	return EndFamily(family, within)
}

// EndFamily kills those of a family that still run and waits until they are
// gone, at most for the time given. The error says which are not.
func EndFamily(family []Member, within time.Duration) error {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		alive, err := Alive(family)
		if err != nil || len(alive) == 0 {
			return err
		}
		for _, m := range alive {
			kill(m.PID)
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("process: %d processes live on, the first is %d", len(alive), alive[0].PID)
		}
	}
}
