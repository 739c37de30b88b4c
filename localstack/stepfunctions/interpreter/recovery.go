package interpreter

import (
	"math"
	"slices"
	"time"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
)

// Recovery is what Retry and Catch of a state make of a failure; the zero
// value means that the failure leaves the state.
type Recovery struct {
	// Retrier is the index of the retrier that tries again after Delay, or -1.
	Retrier int
	Delay   time.Duration
	// Caught is how the state goes on if a catcher takes the failure.
	Caught *Advance
}

// Recover looks for a retrier and then a catcher for the failure. retries
// holds how often each retrier has tried already. The first retrier that
// matches decides alone: if it is used up, the catchers are asked.
func (i *Interpreter) Recover(state asl.State, raw any, failure *Failure, retries []int, context Context) (Recovery, *Failure) {
	var retriers []asl.Retrier
	var catchers []asl.Catcher
	switch s := state.(type) {
	case *asl.Task:
		retriers, catchers = s.Retry, s.Catch
	case *asl.Map:
		retriers, catchers = s.Retry, s.Catch
	}
	for n, retrier := range retriers {
		if !catches(retrier.ErrorEquals, failure) {
			continue
		}
		tried := 0
		if n < len(retries) {
			tried = retries[n]
		}
		if tried < retrier.MaxAttempts {
			return Recovery{Retrier: n, Delay: i.delay(retrier, tried)}, nil
		}
		break
	}
	for _, catcher := range catchers {
		if catches(catcher.ErrorEquals, failure) {
			return i.caught(catcher, state, raw, failure, context)
		}
	}
	return Recovery{Retrier: -1}, nil
}

func (i *Interpreter) caught(catcher asl.Catcher, state asl.State, raw any, failure *Failure, context Context) (Recovery, *Failure) {
	e := evaluation{interpreter: i, context: context, object: context.value()}
	output, bad := e.place(catcher.ResultPath, raw, failure.output())
	if bad != nil {
		return Recovery{Retrier: -1}, bad
	}
	root := asl.Common{Name: state.Base().Name, Next: catcher.Next, OutputPath: &rootPath}
	advance, bad := e.advance(&root, output)
	if bad != nil {
		return Recovery{Retrier: -1}, bad
	}
	return Recovery{Retrier: -1, Caught: &advance}, nil
}

// A caught error leaves by its ResultPath alone; OutputPath is for results.
var rootPath = mustPath("$")

func mustPath(text string) asl.Path {
	path, err := asl.ParsePath(text)
	if err != nil {
		panic(err)
	}
	return path
}

func (i *Interpreter) delay(r asl.Retrier, tried int) time.Duration {
	seconds := r.Interval.Seconds() * math.Pow(r.BackoffRate, float64(tried))
	if r.MaxDelay > 0 {
		seconds = min(seconds, r.MaxDelay.Seconds())
	}
	seconds = min(seconds, maxSeconds)
	if r.FullJitter {
		seconds *= i.Random()
	}
	return time.Duration(seconds * float64(time.Second))
}

// catches tells whether one of the names covers the failure. A missed
// heartbeat is a kind of timeout: States.Timeout covers it, States.TaskFailed
// does not.
func catches(names []string, failure *Failure) bool {
	if failure.Fatal {
		return false
	}
	hidden := failure.Error == asl.ErrorDataLimitExceeded && !failure.FromTask
	return slices.ContainsFunc(names, func(name string) bool {
		switch name {
		case failure.Error:
			return true
		case asl.ErrorAll:
			return !hidden
		case asl.ErrorTaskFailed:
			return !hidden && !failure.isTimeout()
		case asl.ErrorTimeout:
			return failure.isTimeout()
		default:
			return false
		}
	})
}
