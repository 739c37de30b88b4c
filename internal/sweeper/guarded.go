package sweeper

import (
	"errors"
	"fmt"
)

// errPanic reports that tending an item panicked.
var errPanic = errors.New("sweeper: panic")

// guarded turns a panic into an error without what it said, so that one item can't
// end every sweep.
func guarded[T any](do func() (T, error)) (result T, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %T", errPanic, v)
		}
	}()
	return do()
}
