package runs

import (
	"slices"

	"github.com/onceward/onceward/statemachines"
)

// maxBatchBytes bounds the arguments of one Map, as encoded, so that with their
// envelopes they fit the planner's answer.
const maxBatchBytes = 144 << 10

// NextBatch picks from open, positions of t's calls to issue, what the next Map
// is to call: reads first, then writes, never both.
func NextBatch(t Turn, open []int, tools Tools) []int {
	var reads, writes []int
	for _, i := range open {
		if tools[t.Calls[i].Tool].Class == Read {
			reads = append(reads, i)
		} else {
			writes = append(writes, i)
		}
	}
	if len(reads) > 0 {
		return fitting(t, reads)
	}
	return fitting(t, writes)
}

// Concurrency returns how many of a Map's calls run at once: reads all, anything
// else one at a time.
func Concurrency(t Turn, batch []int, tools Tools) int {
	if slices.ContainsFunc(batch, func(i int) bool { return tools[t.Calls[i].Tool].Class != Read }) {
		return 1
	}
	return max(len(batch), 1)
}

// fitting returns the first of the positions that one Map can take.
func fitting(t Turn, positions []int) []int {
	size := 0
	for n, i := range positions {
		size += encodedBytes(t.Calls[i].Arguments)
		if n == statemachines.MaxCalls || n > 0 && size > maxBatchBytes {
			return positions[:n]
		}
	}
	return positions
}
