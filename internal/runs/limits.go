package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/onceward/onceward/statemachines"
)

// ErrTurnRefused reports a turn that is over a limit. None of its calls has run
// or will run; nothing was stored.
var ErrTurnRefused = errors.New("runs: turn refused")

// The limits of one turn, so that it fits one stored item and one answer of the
// planner. Those of the arguments are the state machine's.
const (
	MaxCalls = 64       // calls of one turn
	MaxSays  = 48 << 10 // bytes of the model's words
	MaxTool  = 128      // bytes of a tool's name
	MaxTurns = 5_000    // turns of one run
)

// CheckTurn returns [ErrTurnRefused] with everything about the turn that is
// over a limit or not a JSON object. Arguments are counted as they are encoded
// in the planner's answer, where each of their quotes costs two bytes.
func CheckTurn(t Turn) error {
	var wrong []string
	refuse := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if t.Number > MaxTurns {
		refuse("at most %d turns", MaxTurns)
	}
	if len(t.Calls) > MaxCalls {
		refuse("%d calls: at most %d", len(t.Calls), MaxCalls)
	}
	if n := encodedBytes(t.Says); n > MaxSays {
		refuse("words of %d bytes: at most %d", n, MaxSays)
	}
	total := 0
	for i, call := range t.Calls {
		n := encodedBytes(call.Arguments)
		total += n
		if n > statemachines.MaxArgumentsBytes {
			refuse("calls[%d]: arguments of %d bytes: at most %d", i, n, statemachines.MaxArgumentsBytes)
		}
		if !isObject(call.Arguments) {
			refuse("calls[%d]: arguments are not a JSON object", i)
		}
		if call.Tool == "" || len(call.Tool) > MaxTool {
			refuse("calls[%d]: tool's name of %d bytes: want 1 to %d", i, len(call.Tool), MaxTool)
		}
	}
	if total > statemachines.MaxTurnArgumentsBytes {
		refuse("arguments of %d bytes in all: at most %d", total, statemachines.MaxTurnArgumentsBytes)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%w: turn %d: %s", ErrTurnRefused, t.Number, strings.Join(wrong, "; "))
	}
	return nil
}

// encodedBytes counts s as a JSON string.
func encodedBytes(s string) int {
	quoted, err := json.Marshal(s)
	if err != nil { // a string always encodes
		panic(err)
	}
	return len(quoted)
}

func isObject(s string) bool {
	return strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "{") && json.Valid([]byte(s))
}
