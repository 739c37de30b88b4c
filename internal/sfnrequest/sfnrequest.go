// Package sfnrequest makes a request of Step Functions that only whoever asked may
// repeat: it is sent once, is given up on after 3 s, and its error says nothing of
// what was sent, such as a task token or a run's input. Start with [Bounded] and
// [Once]; [Word] is for the error.
package sfnrequest

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/smithy-go"
)

// answerWithin bounds the one try of a request.
const answerWithin = 3 * time.Second

// Bounded returns ctx with the time that one request may take.
func Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, answerWithin)
}

// Once is the option of a request that switches the client's own retries off.
// Both are set, since the environment may ask for more attempts.
func Once(o *sfn.Options) { o.Retryer, o.RetryMaxAttempts = aws.NopRetryer{}, 1 }

// Word returns what of a request's error may be told: its code, or that no answer
// came.
func Word(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return "no time left"
	}
	return "no answer"
}
