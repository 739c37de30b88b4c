package executions_test

import (
	"testing"

	"github.com/onceward/onceward/internal/executions"
)

func TestVersionsAndAliasesAreCutOffAndNothingElse(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"arn:aws:states:eu-west-1:111122223333:stateMachine:m":      "arn:aws:states:eu-west-1:111122223333:stateMachine:m",
		"arn:aws:states:eu-west-1:111122223333:stateMachine:m:7":    "arn:aws:states:eu-west-1:111122223333:stateMachine:m",
		"arn:aws:states:eu-west-1:111122223333:stateMachine:m:live": "arn:aws:states:eu-west-1:111122223333:stateMachine:m",
		"arn:aws:states:eu-west-1:111122223333:execution:m:run-1":   "arn:aws:states:eu-west-1:111122223333:execution:m:run-1",
		"m": "m", "": "",
	} {
		if got := executions.Unversioned(given); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

func TestOnlyWhatDoesNothingAnyMoreHasEnded(t *testing.T) {
	t.Parallel()
	for state, want := range map[executions.State]bool{
		"": false, executions.Missing: false, executions.Running: false,
		executions.Succeeded: true, executions.Failed: true, executions.TimedOut: true, executions.Aborted: true,
	} {
		if state.Ended() != want {
			t.Errorf("%q: ended = %v", state, !want)
		}
	}
}
