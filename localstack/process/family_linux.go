package process

import (
	"bytes"
	"errors"
	"os"
	"strconv"
)

// processes reads the kernel's own list.
func processes() ([]Member, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []Member
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // it has ended meanwhile
		}
		m, err := readStat(pid, stat)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// readStat reads a line of proc(5)'s stat: pid (name) state ppid ... starttime,
// where the name may hold anything.
func readStat(pid int, stat []byte) (Member, error) {
	const state, parent, started = 0, 1, 19 // counted after the name
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= started {
		return Member{}, errors.New("unreadable /proc/" + strconv.Itoa(pid) + "/stat")
	}
	ppid, err := strconv.Atoi(string(fields[parent]))
	if err != nil {
		return Member{}, err
	}
	dead := fields[state][0] == 'Z' || fields[state][0] == 'X'
	return Member{PID: pid, parent: ppid, started: string(fields[started]), dead: dead}, nil
}
