package once

import (
	"context"
	"slices"
)

// Observer sees each invocation begin and returns what to call when it ends,
// with the error of the tool's own code if it ran now, else the ledger's if it
// could not be asked or told, else nil. Only observers see these two: an unmarked
// error's text and the store's are in no answer and no record, and may hold
// secrets. It can't change the outcome: a panic of it is dropped. It must be safe
// for concurrent use, and either of what it returns may be nil. Requests that
// name no tool of the guard are not seen.
type Observer func(ctx context.Context, call Call) (context.Context, func(Report, error))

// observe enters the observers in order and returns what leaves them in reverse.
func (g *Guard) observe(ctx context.Context, call Call) (context.Context, func(Report, error)) {
	var ends []func(Report, error)
	inner := ctx
	for _, o := range g.opts.Observers {
		next, end := enter(inner, o, call)
		if next != nil {
			inner = next //nolint:fatcontext // one layer an observer, as many as were given
		}
		if end != nil {
			ends = append(ends, end)
		}
	}
	return inner, func(r Report, cause error) {
		for _, end := range slices.Backward(ends) {
			leave(end, r, cause)
		}
	}
}

func enter(ctx context.Context, o Observer, call Call) (next context.Context, end func(Report, error)) {
	defer func() {
		if recover() != nil {
			next, end = nil, nil // telemetry decides nothing
		}
	}()
	return o(ctx, call)
}

func leave(end func(Report, error), r Report, cause error) {
	defer func() { _ = recover() }() // telemetry decides nothing
	end(r, cause)
}
