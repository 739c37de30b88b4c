package lambda

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// usage is what the report of an invocation tells besides its outcome.
type usage struct {
	duration time.Duration
	init     time.Duration // zero for a warm start
	peakMB   int           // zero if it is not known
}

func startLine(requestID string) string {
	return fmt.Sprintf("START RequestId: %s Version: %s", requestID, latest)
}

func initReport(took time.Duration, out outcome) string {
	return fmt.Sprintf("INIT_REPORT Init Duration: %.2f ms\tPhase: init\tStatus: %s\tError Type: %s",
		millis(took), out.status, out.errorType)
}

// endLines are what Lambda logs when an invocation has ended.
func endLines(c *call, fn Function, out outcome, u usage) []string {
	var lines []string
	switch out.status {
	case "timeout":
		lines = append(lines, fmt.Sprintf("%s %s Task timed out after %.2f seconds",
			time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), c.id, fn.Timeout.Seconds()))
	case "error":
		if out.errorType == "Runtime.ExitError" {
			lines = append(lines, out.message, out.errorType)
		}
	}
	return append(lines, "END RequestId: "+c.id, reportLine(c, fn, out, u))
}

func reportLine(c *call, fn Function, out outcome, u usage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "REPORT RequestId: %s\tDuration: %.2f ms\tBilled Duration: %.0f ms\tMemory Size: %d MB\t",
		c.id, millis(u.duration), math.Ceil(millis(u.duration+u.init)), fn.MemoryMB)
	if u.peakMB > 0 {
		fmt.Fprintf(&b, "Max Memory Used: %d MB\t", u.peakMB)
	}
	if u.init > 0 {
		fmt.Fprintf(&b, "Init Duration: %.2f ms\t", millis(u.init))
	}
	switch out.status {
	case "timeout":
		b.WriteString("Status: timeout")
	case "error":
		b.WriteString("Status: error\tError Type: " + out.errorType)
	}
	return b.String()
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
