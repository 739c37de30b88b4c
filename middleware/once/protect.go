package once

import (
	"errors"
	"fmt"
)

// panicError is what a panic of the user's code becomes. Its text goes to
// observers only.
type panicError struct{ value any }

func (p panicError) Error() string { return fmt.Sprintf("once: panic: %v", p.value) }

// errGoexit stands for a handler that ended its goroutine, as FailNow does.
var errGoexit = errors.New("runtime.Goexit")

// guarded runs f in this goroutine and turns its panic into an error.
func guarded(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicError{value}
		}
	}()
	return f()
}
